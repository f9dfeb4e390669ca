"""The jar beside an AAR, with the library that tests on a JVM load."""

from __future__ import annotations

import zipfile
from pathlib import Path

import onnx
import pytest

import deploykit
from deploykit.targets.android import AndroidTarget
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


def test_an_aar_for_phones_alone_has_none(model: onnx.ModelProto, tmp_path: Path) -> None:
    deploykit.build(model, AndroidTarget(["armeabi-v7a"]), DIMS, tmp_path / "lookup")
    assert not list(tmp_path.glob("**/*-jvm.jar"))
