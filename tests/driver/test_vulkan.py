"""The test cases of the device interface, run with the driver for Vulkan on devices in software.

The validation layer watches the runs, and so do the sanitizers of the C compiler; both together make long runs slow.
The memory of the driver itself is counted; drivers of devices keep some of theirs.
"""

from __future__ import annotations

import os
import subprocess
from ctypes.util import find_library
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploykit import runtime
from deploykit.engines.native.sanitized import SANITIZERS

HERE = Path(__file__).parent
DEVICES = {
    "lavapipe": Path("/usr/share/vulkan/icd.d/lvp_icd.x86_64.json"),
    "swiftshader": Path("/usr/lib/chromium/vk_swiftshader_icd.json"),
}
LAYER = Path("/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json")
VALIDATION = {
    "VK_INSTANCE_LAYERS": "VK_LAYER_KHRONOS_validation",
    "VK_LAYER_ENABLES": "VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT",
}
OPTIONS = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-g1")
COUNTED = [f"-D{name}=counted_{name}" for name in ("malloc", "calloc", "realloc", "free")]
TESTS = (
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
    "hazards",
    "driver stays",
)
FAILING = ("device memory", "lost device", "lost at opening", "unusable", "fewer features", "no clock", "replays")


@dataclass(frozen=True)
class Programs:
    """A program with sanitizers and one without, and a Vulkan library whose calls can be made to fail."""

    sanitized: Path
    plain: Path
    failing: Path


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    folder = tmp_path_factory.mktemp("vulkan")
    includes = (f"-I{runtime.INCLUDE}", f"-I{runtime.VULKAN[0].parent}")
    names = ("native", "native_tests", "native_kept", "native_vulkan", "cases", "counted")
    tests = [HERE / f"{name}.c" for name in names]
    for name, options in (("plain", ("-O1",)), ("sanitized", ("-O1", *SANITIZERS))):
        objects = []
        for source in (path for path in runtime.VULKAN if path.suffix == ".c"):
            objects.append(folder / f"{name}-{source.stem}.o")
            _compile(*OPTIONS, *options, *includes, *COUNTED, "-c", source, "-o", objects[-1])
        warnings = [option for option in OPTIONS if option != "-Wconversion"]
        _compile(*warnings, *options, *includes, *tests, *objects, "-o", folder / name, "-ldl", "-lpthread")
    library = folder / "libfailing.so"
    shared = ("-shared", "-fPIC", "-fvisibility=hidden")
    _compile(*OPTIONS, *includes, *shared, HERE / "failing_vulkan.c", "-o", library, "-ldl")
    return Programs(folder / "sanitized", folder / "plain", library)


def _compile(*options: str | Path) -> None:
    subprocess.run(["gcc", *options], check=True)


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> dict[str, str]:
    """The environment in which there is only one device."""
    driver = DEVICES[request.param]
    if not driver.exists():
        pytest.skip(f"needs {request.param}: {driver}")
    return {"VK_DRIVER_FILES": str(driver), "VK_ICD_FILENAMES": str(driver)}


def run(program: Path, test: str, *arguments: str | Path, environment: dict[str, str], validated: bool = True) -> str:
    if validated and not LAYER.exists():
        pytest.skip(f"needs Vulkan's validation layer: {LAYER}")
    layers = VALIDATION if validated else {}
    everything = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0", **layers, **environment}
    command = [program, "vulkan", test, *arguments]
    done = subprocess.run(
        command, check=False, env=everything, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1] == "ok", done.stdout
    for sign in ("Validation Error", "Validation Warning", "VUID", "SYNC-HAZARD"):
        assert sign not in done.stdout, done.stdout
    return done.stdout


def test_the_driver_implements_the_interface(programs: Programs, device: dict[str, str]) -> None:
    run(programs.sanitized, "cases", environment=device, validated=False)
    run(programs.plain, "cases", environment=device)


@pytest.mark.sampled(part=4)
@pytest.mark.parametrize("test", TESTS)
def test_the_driver_does_what_is_asked(programs: Programs, device: dict[str, str], test: str) -> None:
    run(programs.sanitized, test, environment=device)


@pytest.mark.sampled(part=4)
@pytest.mark.parametrize("test", FAILING)
def test_failures_are_reported(programs: Programs, device: dict[str, str], test: str) -> None:
    run(programs.sanitized, test, programs.failing, environment=device)


@pytest.mark.parametrize("test", ["changing sizes", "kept loop"])
def test_many_runs_take_no_more_memory(programs: Programs, device: dict[str, str], test: str) -> None:
    run(programs.plain, test, environment=device, validated=False)


def test_the_file_of_compiled_kernels(programs: Programs, device: dict[str, str], tmp_path: Path) -> None:
    cache = tmp_path / "kernels.bin"
    run(programs.sanitized, "cache", cache, environment=device)
    whole = cache.read_bytes()
    for broken in (b"", whole[:40], whole[:-1], whole + b"x", b"\xff" * len(whole), whole[:50] + b"?" + whole[51:]):
        cache.write_bytes(broken)
        run(programs.sanitized, "cache", cache, environment=device)
        assert cache.read_bytes()[:16] == whole[:16]
    assert [path.name for path in tmp_path.iterdir()] == ["kernels.bin"]
    run(programs.sanitized, "cache", tmp_path / "missing" / "kernels.bin", environment=device)


def test_one_of_several_devices(programs: Programs) -> None:
    missing = [str(path) for path in DEVICES.values() if not path.exists()]
    if missing:
        pytest.skip(f"needs both devices: {', '.join(missing)}")
    files = ":".join(map(str, DEVICES.values()))
    listed = run(programs.sanitized, "adapters", environment={"VK_DRIVER_FILES": files, "VK_ICD_FILENAMES": files})
    assert sum("software" in line and line.endswith(": usable") for line in listed.splitlines()) == len(DEVICES)


def test_the_file_is_kept_while_it_fits(programs: Programs, tmp_path: Path) -> None:
    driver = DEVICES["lavapipe"]
    if not driver.exists():
        pytest.skip(f"needs lavapipe: {driver}")
    cache = tmp_path / "kernels.bin"
    environment = {"VK_DRIVER_FILES": str(driver), "VK_ICD_FILENAMES": str(driver)}
    run(programs.sanitized, "cache", cache, environment=environment)
    before = cache.stat().st_ino
    run(programs.sanitized, "cache", cache, environment=environment)
    assert cache.stat().st_ino == before


@pytest.mark.skipif(find_library("vulkan") is None, reason="needs a Vulkan library")
def test_a_machine_without_a_driver(programs: Programs) -> None:
    environment = {"VK_DRIVER_FILES": "/nowhere/icd.json", "VK_ICD_FILENAMES": "/nowhere/icd.json"}
    command: list[str | Path] = [programs.sanitized, "vulkan", "states"]
    variables = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0", **environment}
    done = subprocess.run(command, check=False, env=variables, text=True, capture_output=True)
    assert done.returncode == 1
    assert done.stdout == "there is no Vulkan driver: install that of the GPU\n"
