"""What the user sees of a GPU that cannot run a model: in Java the reason, and with `auto` right results without it."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

import deploykit
from tests.android.conftest import DIMS, Run, needs_gpus, needs_java
from tests.android.test_devices import right

pytestmark = [
    pytest.mark.skipif(platform.machine() != "x86_64", reason="needs x86-64"),
    needs_gpus,
]

LACKING = {
    "version": "its driver has Vulkan 1.0: at least 1.1 is needed",
    "queue": "it has no queue that computes",
    "bindings": "its kernels have fewer than 9 buffers",
    "constants": "its kernels have fewer than 128 bytes of constants",
    "invocations": "its workgroups have fewer than 64 invocations",
}
"""What an adapter lacks, and what the user is told."""

TOO_LARGE = "that this GPU binds at once: use smaller inputs, build with bounds of dims, or run without the GPU"


@pytest.fixture
def weak(failing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Loads the Vulkan library whose adapters lack what LACKING says."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(failing))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return monkeypatch


@needs_java
@pytest.mark.parametrize("lacking", LACKING)
def test_java_says_what_an_adapter_lacks(
    on_java: tuple[Path, Run], model: onnx.ModelProto, weak: pytest.MonkeyPatch, lacking: str, tmp_path: Path
) -> None:
    weak.setenv("LACKING", lacking)
    first = on_java[1]("run", tmp_path, "vulkan")[0]
    assert re.fullmatch(f"DeviceException: vulkan: .* cannot run the model: {LACKING[lacking]}", first), first
    weak.setenv("OCL_ICD_VENDORS", str(tmp_path / "none"))
    lines = on_java[1]("run", tmp_path, "auto")
    for start in (0, 7, 14):
        right(model, lines[start : start + 6])
    assert lines[6].startswith("cpu|"), lines[6]
    assert LACKING[lacking] in lines[6]


@needs_java
def test_java_says_which_tensors_are_too_large(
    on_java: tuple[Path, Run], model: onnx.ModelProto, weak: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A run of the sizes (8, 64) needs 2,048 bytes for an input."""
    weak.setenv("LACKING", "range")
    lines = on_java[1]("run", tmp_path, "vulkan")
    assert any(re.fullmatch(f"DeviceException: .* {TOO_LARGE}", line) for line in lines), lines
    weak.setenv("OCL_ICD_VENDORS", str(tmp_path / "none"))
    lines = on_java[1]("run", tmp_path, "auto")
    for start in (0, 7, 14):
        right(model, lines[start : start + 6])


@pytest.fixture(scope="module")
def on_host(model: onnx.ModelProto, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("host") / "lookup"
    deploykit.build(model, "host", DIMS, folder, devices=("vulkan",))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("lacking", LACKING)
def test_the_command_line_says_what_an_adapter_lacks(on_host: Path, weak: pytest.MonkeyPatch, lacking: str) -> None:
    weak.setenv("LACKING", lacking)
    inputs = ["--input", "x=random:0", "--input", "ids=zeros", "--at", "b=3,n=7"]
    call = [sys.executable, "-m", "deploykit", "run", str(on_host), "--device", "vulkan", *inputs]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert LACKING[lacking] in " ".join(done.stderr.split())
    doctor = subprocess.run([*call[:3], "doctor", "--json"], capture_output=True, text=True, check=True)
    assert LACKING[lacking] in doctor.stdout


PROGRAM = """
import json, sys
from pathlib import Path
import numpy as np
import deploykit

def run(session, b, n):
    return session(x=np.full((b, n), 0.25, np.float32), ids=np.arange(b) % 16)["scores"]

folder, cache = map(Path, sys.argv[1:])
with deploykit.open(folder, device="auto") as session:
    run(session, 3, 7)
(file,) = cache.glob("auto-*.json")
file.write_text(json.dumps({"device": "vulkan", "reason": "remembered"}))
with deploykit.open(folder, device="auto") as session, deploykit.open(folder) as on_cpu:
    for b, n in ((3, 7), (8, 64), (3, 7)):
        np.testing.assert_allclose(run(session, b, n), run(on_cpu, b, n), rtol=1e-4, atol=1e-6)
        print(session.where)
"""


def test_a_session_leaves_a_device_that_fails(on_host: Path, weak: pytest.MonkeyPatch, tmp_path: Path) -> None:
    weak.setenv("LACKING", "range")
    call = [sys.executable, "-c", PROGRAM, str(on_host), str(tmp_path / "cache" / "deploykit")]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, second, third = done.stdout.splitlines()
    assert first == "remembered"
    assert re.fullmatch(rf"cpu: vulkan fails \(.* {TOO_LARGE}\)", second), second
    assert third == second
