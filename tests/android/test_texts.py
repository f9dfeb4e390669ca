"""The texts of a package for Android, as golden files that show each change."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest

from tests.android.conftest import aar_of, needs_java
from tests.conftest import Golden

pytestmark = needs_java

SOURCES = ("Lookup", "Native")


def text_of(text: str) -> str:
    text = re.sub(r"(library for \S+ \| )\d+", r"\1BYTES", text)
    return re.sub(r"deploykit \d[\w.+]*", "deploykit VERSION", text)


@pytest.mark.parametrize("name", SOURCES)
def test_source(name: str, package: Path, golden: Golden) -> None:
    path = aar_of(package)
    with zipfile.ZipFile(path.with_name(f"{path.stem}-sources.jar")) as archive:
        golden(text_of(archive.read(f"org/deploykit/lookup/{name}.java").decode()), f"{name}.java")


def test_description(package: Path, golden: Golden) -> None:
    golden(text_of(aar_of(package).with_suffix(".pom").read_text()), "lookup.pom")


def test_instructions(package: Path, libraries: Path, golden: Golden) -> None:
    golden(text_of((package / "README.md").read_text()), "README.md")
    golden(text_of((libraries / "README.md").read_text()), "libraries.md")
