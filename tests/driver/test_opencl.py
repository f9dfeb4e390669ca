"""The driver for OpenCL under sanitizers, on what this machine has, such as PoCL."""

from __future__ import annotations

import os
import subprocess
from ctypes.util import find_library
from pathlib import Path

import pytest

from deploykit import runtime
from deploykit.engines.native.sanitized import SANITIZERS

pytestmark = pytest.mark.skipif(find_library("OpenCL") is None, reason="needs OpenCL, such as PoCL")

HERE = Path(__file__).parent
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror")
HEADERS = (f"-I{runtime.INCLUDE}", f"-I{runtime.OPENCL[0].parent}")
SOURCES = [path for path in runtime.OPENCL if path.suffix == ".c"]
CASES = ["bytes", "order", "apart", "copies", "large grid", "chain"]
ENVIRONMENT = {"ASAN_OPTIONS": "detect_leaks=0:use_sigaltstack=0:quarantine_size_mb=1", "DK_REPORT": "1"}
"""PoCL has leaks and signal stacks of its own."""

LOST = "open the model again"
SHORT = "the GPU has not enough memory"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("opencl")
    libraries = ("-ldl", "-lpthread")
    program = [HERE / "opencl.c", *SOURCES, "-o", folder / "driver", *libraries]
    subprocess.run(["gcc", "-O1", *STRICT, *SANITIZERS, *HEADERS, *program], check=True)
    library = ["-shared", "-fPIC", HERE / "forwarding.c", "-o", folder / "libforwarding.so", "-ldl"]
    subprocess.run(["gcc", *STRICT, *HEADERS, *library], check=True)
    return folder


class Found:
    """What a scenario printed, and what it did with OpenCL's objects."""

    def __init__(self, built: Path, scenario: str, *options: str, forwarding: bool = False, fail: str = "") -> None:
        library = [f"library={built / 'libforwarding.so'}"] if forwarding or fail else []
        environment = os.environ | ENVIRONMENT | {"DK_FAIL": fail}
        command = [built / "driver", scenario, *library, *options]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
        assert "Sanitizer" not in done.stderr, done.stderr
        assert "runtime error" not in done.stderr, done.stderr
        self.lines, self.code = done.stdout.splitlines(), done.returncode
        self.objects = done.stderr.splitlines()[-1] if library else ""


def test_the_cases_of_all_drivers(built: Path) -> None:
    assert Found(built, "cases").lines == [f"{name}: 0 1" for name in CASES]


def test_adapters(built: Path) -> None:
    name, usable, *_, count = Found(built, "adapters").lines
    assert name.startswith("adapter: ")
    assert name.endswith(" 1")
    assert usable == "usable: yes"
    assert not count.startswith("adapters: 0")


def test_what_cannot_be_opened(built: Path) -> None:
    for library, text in (
        ("/nowhere/libOpenCL.so", "no OpenCL: there is no library /nowhere/libOpenCL.so"),
        ("libm.so.6", "the OpenCL library has no clGetPlatformIDs: OpenCL 1.2 is needed"),
    ):
        assert Found(built, "adapters", f"library={library}").lines == [f"adapters: 0 {text}"]
        assert Found(built, "cases", f"library={library}").lines == [f"not open: {text}"]
    assert Found(built, "cases", "adapter=77").lines == ["not open: OpenCL has no adapter 77"]
    refused = Found(built, "cases", "x=__kernel void add(__global int* a) { a[0] = missing; }").lines
    assert refused[0].startswith("not open: the GPU's driver cannot compile the kernels (-11): ")
    assert "missing" in refused[0]
    assert Found(built, "cases", "x=__kernel void other() {}").lines[0].startswith("not open: the GPU's driver cannot")


def test_ten_thousand_runs_of_changing_sizes(built: Path) -> None:
    found = Found(built, "sizes", forwarding=True)
    assert found.lines == ["grew: no"]
    assert found.objects == "buffers 0, events 0, sources 1, binaries 0"


def test_two_threads_with_a_device_each(built: Path) -> None:
    assert Found(built, "threads").lines == ["threads: 1 1"]


@pytest.mark.parametrize("limit", [16384, 12287, 8192, 4096])
def test_weights_in_several_buffers(built: Path, limit: int) -> None:
    found = Found(built, "weights", f"buffer={limit}", forwarding=True)
    assert found.lines == ["load: 0 ", *(f"part {part}: 0 1" for part in range(4))]


def test_lowered_limits(built: Path) -> None:
    lines = Found(built, "limits", "tensor=65536", "buffer=2000000").lines
    assert lines[0] == "binding: 65536"
    most = "takes 1099511627776 bytes, and a buffer of this GPU has at most 2000000"
    assert lines[1] == f"provide: 10 an input or output {most}"
    assert lines[2] == f"arena: 10 intermediate results {most.replace('takes', 'take')}"
    assert lines[3] == f"clear: 10 the states {most.replace('takes', 'take')}"
    assert lines[4] == "dispatch: 10 'tensor' has 1048576 bytes, and this GPU binds at most 65536 at once"
    assert lines[5:] == ["outside: 0 ", "after: 0 "]


def test_states_and_overlapping_copies(built: Path) -> None:
    assert Found(built, "states").lines == ["zeros: 0 1"] * 2
    assert Found(built, "overlap").lines == ["overlap: 1"] * 2


def test_profiles(built: Path) -> None:
    found = Found(built, "profile", forwarding=True)
    steps = [f"step {step}: timed" for step in (10, 11, 12, 20)]
    assert found.lines == ["off: 0", "asked: 4", *steps, "again: 0", "off: 0"]
    assert found.objects == "buffers 0, events 0, sources 1, binaries 0"


def test_compiled_kernels_are_kept(built: Path, tmp_path: Path) -> None:
    cache = tmp_path / "kernels"

    def objects(*, fail: str = "") -> str:
        found = Found(built, "cases", f"cache={cache}", forwarding=True, fail=fail)
        assert found.code == 0
        return found.objects.partition("events 0, ")[2]

    compiled, kept = "sources 1, binaries 0", "sources 0, binaries 1"
    assert (objects(), objects()) == (compiled, kept)
    whole = cache.read_bytes()
    for content in (whole[:-1], whole[:300] + bytes([whole[300] ^ 1]) + whole[301:], b"", b"text" * 100, whole[:40]):
        cache.write_bytes(content)
        assert (objects(), objects()) == (compiled, kept)
    for refusal in ("clCreateProgramWithBinary 1 -42", "clCreateKernel 1 -46"):
        assert objects(fail=refusal) == "sources 1, binaries 1"
        assert objects() == kept
    assert list(tmp_path.iterdir()) == [cache]


def test_a_cache_that_cannot_be_written_is_no_error(built: Path) -> None:
    assert Found(built, "cases", "cache=/nowhere/kernels").code == 0


@pytest.mark.parametrize(
    ("fail", "text"),
    [
        ("clEnqueueNDRangeKernel 3 -9999", f"the GPU device failed (-9999): {LOST}"),
        ("clFinish 3 -36", f"the GPU device failed (-36): {LOST}"),
        ("clEnqueueNDRangeKernel 3 -4", f"{SHORT}: intermediate results take 0 bytes"),
        ("clEnqueueReadBuffer 3 -5", f"{SHORT}: intermediate results take 0 bytes"),
        ("clFinish 3 -4", f"{SHORT}: intermediate results take 0 bytes"),
        ("clCreateBuffer 4 -4", f"{SHORT}: an input or output takes 800 bytes"),
        ("clCreateBuffer 4 -61", f"{SHORT}: an input or output takes 800 bytes"),
    ],
)
def test_failures(built: Path, fail: str, text: str) -> None:
    found = Found(built, "failing", fail=fail)
    again = f"run: 10 {text}" if LOST in text else "run: 0 "
    assert found.lines == [f"run: 10 {text}", *[again] * 3]
    assert found.objects.startswith("buffers 0, events 0")
