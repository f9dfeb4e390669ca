"""The functions that compilers for 32-bit Arm call: the same results as those of another library."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from deploykit import runtime

GCC = "arm-linux-gnueabi-gcc"


@pytest.mark.skipif(not shutil.which(GCC) or not shutil.which("qemu-arm"), reason=f"needs {GCC} and qemu-arm")
def test_functions(tmp_path: Path) -> None:
    names = set(re.findall(r"\b__(?:aeabi|gnu)_(\w+)\b", runtime.ANDROID_ARM.read_text()))
    prefixes = {name: "__gnu_" if name.endswith("_ieee") else "__aeabi_" for name in names}
    renamed = [f"-D{prefix}{name}=own_{name.removesuffix('_ieee')}" for name, prefix in prefixes.items()]
    cpu = ["-marm", "-march=armv7-a", "-mfpu=neon", "-mfloat-abi=softfp", "-mfp16-format=ieee", "-O1", "-static"]
    sources = [str(runtime.ANDROID_ARM), str(Path(__file__).with_name("arm_test.c"))]
    program = str(tmp_path / "arm_test")
    subprocess.run([GCC, *cpu, *renamed, *sources, "-lm", "-o", program], check=True)
    result = subprocess.run(["qemu-arm", program], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-2000:]
