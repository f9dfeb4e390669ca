"""The jar beside an AAR, with the library that tests on a JVM load."""

from __future__ import annotations

import zipfile
from pathlib import Path

import onnx
import pytest

import deploykit
from deploykit.artifact.devices import CODE
from deploykit.errors import UsageError
from deploykit.targets.android import AndroidTarget
from deploykit.targets.android.linking import LIBRARIES
from tests.android import mach_o
from tests.android.conftest import DIMS, Run, jar_of, needs_desktop, needs_java, on_desktop
from tests.android.test_libraries import readelf

pytestmark = [needs_java, needs_desktop]


@pytest.mark.slow
def test_results_are_those_of_the_library_of_the_aar(package: Path, desktop: Run, tmp_path: Path) -> None:
    with_jar = on_desktop(package, "Desktop", tmp_path, jar=True)
    assert with_jar("results", 2) == desktop("results", 2)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_a_library_needs_what_linux_has(package: Path, tmp_path: Path, machine: str) -> None:
    with zipfile.ZipFile(jar_of(package)) as archive:
        library = archive.extract(f"org/deploykit/lookup/linux-{machine}/liblookup.so", tmp_path)
    needed = {line.split("[")[1].rstrip("]") for line in readelf("-d", library).splitlines() if "(NEEDED)" in line}
    assert "libc.so.6" in needed
    assert needed <= {"libc.so.6", "libm.so.6", "libdl.so.2"}


OF_MACOS = {"bzero", "memset_pattern16", "sysctlbyname", "mmap", "__bzero", "__memcpy_chk"}
"""Functions of macOS that the library for Android does not call. Compilers make calls of the others."""


@pytest.mark.slow
@pytest.mark.parametrize(("machine", "cpu"), [("x86_64", mach_o.X86_64), ("aarch64", mach_o.ARM64)])
def test_a_library_needs_what_macos_has(for_macs: Path, machine: str, cpu: int) -> None:
    """It cannot run here: its headers and symbols are read."""
    with zipfile.ZipFile(jar_of(for_macs)) as archive:
        assert len([name for name in archive.namelist() if "/linux-" in name]) == 2
        library = mach_o.read(archive.read(f"org/deploykit/lookup/macos-{machine}/liblookup.dylib"))
    assert (library.cpu, library.name) == (cpu, "@rpath/liblookup.dylib")
    assert library.needed == ["/usr/lib/libSystem.B.dylib"]
    assert library.signed == (machine == "aarch64"), "a Mac with Arm runs nothing else"
    assert "_JNI_OnLoad" in library.exported
    known = {function for functions in LIBRARIES.values() for function in functions} | OF_MACOS
    assert {name.removeprefix("_") for name in library.undefined} - known == {"dyld_stub_binder"}


@pytest.fixture(scope="module")
def for_macs(model: onnx.ModelProto, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With drivers, too, of which Macs have that for OpenCL at most."""
    folder = tmp_path_factory.mktemp("macs") / "lookup"
    target, own = AndroidTarget(["arm64-v8a", "x86_64"]), {"jvm": "linux,macos"}
    deploykit.build(model, target, DIMS, folder, settings=own, devices=tuple(CODE))
    return folder


@pytest.mark.slow
def test_two_builds_for_macs_are_the_same(model: onnx.ModelProto, for_macs: Path, tmp_path: Path) -> None:
    target, own = AndroidTarget(["arm64-v8a", "x86_64"]), {"jvm": "linux,macos"}
    deploykit.build(model, target, DIMS, tmp_path / "lookup", settings=own, devices=tuple(CODE))
    assert jar_of(tmp_path / "lookup").read_bytes() == jar_of(for_macs).read_bytes()


def test_other_systems_are_refused(model: onnx.ModelProto, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="tests run on JVMs of linux and macos, not 'windows'"):
        deploykit.build(model, AndroidTarget(["x86_64"]), DIMS, tmp_path / "dist", settings={"jvm": "windows"})


def test_an_aar_for_phones_alone_has_none(model: onnx.ModelProto, tmp_path: Path) -> None:
    deploykit.build(model, AndroidTarget(["armeabi-v7a"]), DIMS, tmp_path / "lookup")
    assert not list(tmp_path.glob("**/*-jvm.jar"))
