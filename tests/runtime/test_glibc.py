"""A library for `host` runs with old versions of the GNU C library, and says which version it needs."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import deploykit as dk
from deploykit.artifact.manifest import read_manifest
from deploykit.basics.toolchain import find_c_compiler
from deploykit.engines.native.library import load
from deploykit.errors import ArtifactError

FUNCTIONS = "Exp Log Sin Cos Tan Asinh Acosh Atanh Sinh Cosh Tanh Erf Sqrt Round Floor"

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs the GNU C library")

needs_readelf = pytest.mark.skipif(shutil.which("readelf") is None, reason="needs readelf")


def wide() -> onnx.ModelProto:
    """Functions of 64-bit floats, which kernels call from the C library."""
    lines = [f"y{at} = {name}(x)" for at, name in enumerate(FUNCTIONS.split())]
    lines += ["p = Pow(x, x)", "m = Mod<fmod = 1>(x, h)"]
    outputs = [f"double[n] {line.split(' ')[0]}" for line in lines]
    return onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 18]> wide (double[n] x, double[n] h) => '
        f"({', '.join(outputs)}) {{ {' '.join(lines)} }}"
    )


def needed(library: Path) -> tuple[set[tuple[int, ...]], set[str]]:
    """The versions of the C library that readelf finds, and the libraries."""
    text = subprocess.run(["readelf", "-dVW", library], capture_output=True, text=True, check=True).stdout
    versions = {tuple(map(int, found.split("."))) for found in re.findall(r"Name: GLIBC_([0-9.]+)", text)}
    return versions, set(re.findall(r"\(NEEDED\).*\[(.+)\]", text))


@needs_readelf
@pytest.mark.parametrize(
    ("compiler", "cpu"),
    [
        ("gcc", "x86-64-v2"),
        ("clang", "x86-64-v3"),
        (f"{sys.executable} -m ziglang cc", "x86-64-v2"),
        ("gcc", "armv8-a"),
    ],
    ids=["gcc", "clang", "zig", "cross"],
)
def test_what_a_library_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiler: str, cpu: str) -> None:
    tools = [compiler.split(maxsplit=1)[0], *(["aarch64-linux-gnu-gcc"] if cpu == "armv8-a" else [])]
    if not all(map(shutil.which, tools)):
        pytest.skip(f"needs {compiler} for {cpu}")
    monkeypatch.setenv("CC", compiler)
    artifact = dk.build(wide(), cpu=cpu, output=tmp_path / "dist")
    versions, libraries = needed(tmp_path / "dist" / "libwide.so")
    assert max(versions) == (2, 17)
    assert libraries - {"ld-linux-x86-64.so.2"} == {"libm.so.6", "libpthread.so.0", "libc.so.6"}
    assert artifact.manifest.glibc == read_manifest(tmp_path / "dist").glibc == "2.17"
    if cpu != "armv8-a" and platform.machine() == "x86_64":
        x = np.linspace(1, 2, 9)
        with dk.open(tmp_path / "dist", threads=2) as session:
            results = session(x=x, h=x / 3)
        for name, expected in (("y0", np.exp(x)), ("y1", np.log(x)), ("p", x**x), ("m", np.fmod(x, x / 3))):
            np.testing.assert_allclose(results[name], expected, rtol=1e-14, atol=1e-15)


@needs_readelf
def test_drivers_of_gpus_need_no_more(tmp_path: Path) -> None:
    dk.build(wide(), devices=["vulkan", "opencl"], output=tmp_path / "dist")
    versions, libraries = needed(tmp_path / "dist" / "libwide.so")
    assert max(versions) == (2, 17)
    assert "libdl.so.2" in libraries


def test_a_system_that_is_too_old_is_named(tmp_path: Path) -> None:
    """A library asks for a version that no system has: it was linked with a library that did."""
    compiler = find_c_compiler()
    (tmp_path / "later.c").write_text("void later(void) {}\n")
    (tmp_path / "caller.c").write_text("void later(void);\nvoid call(void) { later(); }\n")
    (tmp_path / "versions").write_text("GLIBC_2.999 { global: later; };\n")
    for name in ("later", "caller"):
        compiler.compile(tmp_path / f"{name}.c", tmp_path / f"{name}.o", "-fPIC")
    script = f"-Wl,--version-script={tmp_path / 'versions'}"
    compiler.link_shared([tmp_path / "later.o"], tmp_path / "stub.so", script, "-Wl,-soname,libc.so.6")
    compiler.link_alone([tmp_path / "caller.o", tmp_path / "stub.so"], tmp_path / "libcaller.so")
    here = re.escape(" ".join(platform.libc_ver()))
    with pytest.raises(ArtifactError, match=rf"libcaller.so needs glibc 2\.999, and this system has {here}: build it"):
        load(tmp_path / "libcaller.so")
