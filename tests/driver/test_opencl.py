"""The test cases of the device interface, run with the driver for OpenCL on what this machine has, such as PoCL, under
sanitizers."""

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
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g1")
HEADERS = (f"-I{runtime.INCLUDE}", f"-I{runtime.OPENCL[0].parent}")
SOURCES = [path for path in runtime.OPENCL if path.suffix == ".c"]
COUNTED = [f"-D{name}=counted_{name}" for name in ("malloc", "calloc", "realloc", "free")]
ENVIRONMENT = {"ASAN_OPTIONS": "detect_leaks=0:use_sigaltstack=0:quarantine_size_mb=1", "DK_REPORT": "1"}
"""PoCL has leaks and signal stacks of its own."""
TESTS = (
    "cases",
    "adapters",
    "two devices",
    "two threads",
    "limits",
    "weights",
    "tensors too large",
    "forms",
    "states",
    "orders",
    "growing",
    "no memory",
    "profiles",
    "refusals",
    "kept values",
    "overlap",
)
LOST = "open the model again"
SHORT = "the GPU has not enough memory"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("opencl")
    names = ("native", "native_tests", "native_kept", "native_opencl", "cases", "counted")
    tests = [HERE / f"{name}.c" for name in names]
    for name, options in (("plain", ()), ("native", SANITIZERS)):
        objects = []
        for source in SOURCES:
            objects.append(folder / f"{name}-{source.stem}.o")
            _compile("-O1", *options, *COUNTED, "-c", source, "-o", objects[-1])
        _compile("-O1", *options, "-DNATIVE_OPENCL", *tests, *objects, "-o", folder / name, "-ldl", "-lpthread")
    _compile("-shared", "-fPIC", HERE / "forwarding.c", "-o", folder / "libforwarding.so", "-ldl")
    return folder


def _compile(*options: str | Path) -> None:
    subprocess.run(["gcc", *STRICT, *HEADERS, *options], check=True)


class Found:
    """What a test printed, and what it did with OpenCL's objects."""

    def __init__(self, built: Path, *test: str, fail: str = "", program: str = "native") -> None:
        environment = os.environ | ENVIRONMENT | {"DK_LIBRARY": str(built / "libforwarding.so"), "DK_FAIL": fail}
        command = [built / program, "opencl", *test]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
        assert "Sanitizer" not in done.stderr, done.stderr
        assert "runtime error" not in done.stderr, done.stderr
        assert done.stdout.endswith("ok\n"), done.stdout + done.stderr
        self.lines = done.stdout.splitlines()[:-1]
        self.objects = done.stderr.splitlines()[-1] if done.stderr else ""


@pytest.mark.parametrize("name", TESTS)
def test_the_driver(built: Path, name: str) -> None:
    Found(built, name)


@pytest.mark.parametrize("test", ["changing sizes", "kept loop"])
def test_ten_thousand_runs_take_no_more_memory(built: Path, test: str) -> None:
    """Sanitizers keep memory that is free."""
    Found(built, test, program="plain")


def test_kernels_that_cannot_be_compiled(built: Path) -> None:
    (text, *_) = Found(built, "refused", "__kernel void add(__global int* a) { a[0] = missing; }").lines
    assert text.startswith("the GPU's driver cannot compile the kernels (-11): ")
    assert "missing" in text
    assert Found(built, "refused", "__kernel void other() {}").lines == [
        "the GPU's driver cannot run the kernel 'add' (-46)"
    ]


def test_a_library_without_opencl(built: Path, tmp_path: Path) -> None:
    environment = os.environ | ENVIRONMENT | {"DK_LIBRARY": "libm.so.6"}
    command = [built / "native", "opencl", "cached", tmp_path / "kernels"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "the OpenCL library has no clGetPlatformIDs: OpenCL 1.2 is needed\n"


def test_compiled_kernels_are_kept(built: Path, tmp_path: Path) -> None:
    cache = tmp_path / "kernels"

    def objects(*, fail: str = "") -> str:
        return Found(built, "cached", str(cache), fail=fail).objects.partition("events 0, ")[2]

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
    assert Found(built, "cached", "/nowhere/kernels").objects == "buffers 0, events 0, sources 1, binaries 0"


@pytest.mark.parametrize(
    ("fail", "text"),
    [
        ("clEnqueueNDRangeKernel 3 -9999", f"the GPU device failed (-9999): {LOST}"),
        ("clFinish 3 -36", f"the GPU device failed (-36): {LOST}"),
        ("clEnqueueNDRangeKernel 3 -4", f"{SHORT}: intermediate results would take 512 bytes"),
        ("clEnqueueReadBuffer 3 -5", f"{SHORT}: intermediate results would take 512 bytes"),
        ("clFinish 3 -4", f"{SHORT}: intermediate results would take 512 bytes"),
        ("clCreateBuffer 5 -4", f"{SHORT}: a model's input or output would take 520 bytes"),
        ("clCreateBuffer 5 -61", f"{SHORT}: a model's input or output would take 520 bytes"),
    ],
)
def test_failures(built: Path, fail: str, text: str) -> None:
    found = Found(built, "failing", fail=fail)
    assert found.lines == [text, *[text if LOST in text else "right"] * 3]
    assert found.objects.startswith("buffers 0, events 0")
