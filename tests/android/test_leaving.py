"""With `auto` a GPU that fails is left for the CPU, also where runs keep values on it: the CPU takes copies of them,
and an input that is lost with its device is named. No result is wrong."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

import deploykit
from tests.android.conftest import needs_gpus
from tests.seeded import seeded

pytestmark = [
    pytest.mark.skipif(platform.machine() != "x86_64", reason="needs x86-64"),
    pytest.mark.slow,
    needs_gpus,
]

CELL = """<ir_version: 9, opset_import: ["": 20]>
cell (float[n, 8] x, float[1, 16] h) => (float[1, 16] g, float16[1, 16] half) {
    first = Constant<value_ints = [0]>()
    a = MatMul(x, w)  b = ReduceMean(a, first)  s = Add(b, h)  g = Tanh(s)  half = Cast<to = 10>(g)
}"""

PROGRAM = """
import ctypes, json, sys
from pathlib import Path
import numpy as np
import deploykit
from deploykit.errors import DeviceError, ShapeError

folder, cache = map(Path, sys.argv[1:3])
function, result = sys.argv[3].encode(), int(sys.argv[4])
fail = ctypes.CDLL("libvulkan.so.1").failing_call
on_cpu = deploykit.open(folder)
zero = np.zeros((1, 16), np.float32)

def run(session, x, h):
    kept = session.run({"x": x, "h": h}, keep=["g", "half"])
    return kept["g"], kept["half"]

def outcome(session):
    h, before, left = zero, zero, "never left"
    for rows in (3, 3, 40, 3, 700):
        x = np.random.default_rng(rows).standard_normal((rows, 8)).astype(np.float32)
        was_on_device = getattr(h, "on_device", False)
        try:
            g, half = run(session, x, h)
        except DeviceError as error:
            left = f"lost: {error}"
            g, half = run(session, x, before)
        else:
            if was_on_device and session.where.startswith("cpu: vulkan fails"):
                left = "copied"
                try:
                    run(session, x, kept)
                except ShapeError as error:
                    assert str(error) == "input 'h': expected float32, found float16", error
                else:
                    raise AssertionError("halves were taken for floats")
        wanted = on_cpu(x=x, h=before)["g"]
        if not g.on_device:
            np.testing.assert_allclose(g.numpy(), wanted, rtol=1e-4, atol=1e-5)
        h, before, kept = g, wanted, half
    fail(function, 0, 0)
    np.testing.assert_allclose(h.numpy(), before, rtol=1e-4, atol=1e-5)
    return left

with deploykit.open(folder, device="auto") as session:
    session(x=zero[:, :8], h=zero)
(choice,) = cache.glob("auto-*.json")
for n in range(1, int(sys.argv[5]) + 1):
    choice.write_text(json.dumps({"device": "vulkan", "reason": "remembered"}))
    fail(function, n, result)
    with deploykit.open(folder, device="auto") as session:
        print(outcome(session), flush=True)
        if session.where == "remembered":
            break
"""

LOST = r"lost: input 'h' is lost with vulkan, on which it was kept \(.*\): run again from values in host memory; .*"


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("leaving") / "cell"
    deploykit.build(seeded(CELL, {"w": (8, 16)}), output=folder, devices=("vulkan",))
    return folder


def outcomes(cell: Path, cache: Path, function: str, result: int, most: int = 60) -> list[str]:
    """What becomes of a session whose n-th call of `function` fails, for each n up to one that is never reached, and to
    `most`."""
    call = [sys.executable, "-c", PROGRAM, cell, cache / "deploykit", f"vk{function}", str(result), str(most)]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.fixture
def cache(failing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the cache. The Vulkan library is the failing one."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(failing))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.sampled(part=4)
@pytest.mark.parametrize("function", ["QueueSubmit", "WaitForFences"])
def test_values_are_lost_with_their_device(cell: Path, cache: Path, function: str) -> None:
    *failed, last = outcomes(cell, cache, function, -4)
    assert last == "never left"
    losses = [line for line in failed if line != "never left"]
    assert losses
    assert [line for line in losses if not re.fullmatch(LOST, line)] == []


def test_values_are_copied_where_memory_is_short(cell: Path, cache: Path) -> None:
    *failed, last = outcomes(cell, cache, "AllocateMemory", -2)
    assert last == "never left"
    assert set(failed) == {"copied", "never left"}


def test_values_are_copied_where_a_tensor_is_too_large(
    cell: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LACKING", "range")
    assert set(outcomes(cell, cache, "QueueSubmit", 0, most=1)) == {"copied"}
