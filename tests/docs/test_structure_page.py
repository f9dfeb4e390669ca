"""docs/structure.md names files and folders that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "deploykit"
PAGE = (ROOT / "docs" / "structure.md").read_text()
PLACES = (PACKAGE, PACKAGE / "compiler", ROOT)
"""What paths on the page are relative to."""

NAME = re.compile(r"`([\w./-]+)`")
PATH = re.compile(r".*/.*|.*\.(py|c|h|mjs|j2)")
"""What must be there: a name with a slash or the ending of a file. Others may be words."""

ROWS = [line.strip("| ") for line in PAGE.splitlines() if line.startswith("|")]


@pytest.mark.parametrize("row", [row for row in ROWS if any(map(PATH.fullmatch, NAME.findall(row)))])
def test_paths_exist(row: str) -> None:
    """A name alone is beside the path in front of it, or in a folder around that one."""
    near: list[Path] = []
    for name in NAME.findall(row):
        found = next((place / name for place in (*near, *PLACES) if (place / name).exists()), None)
        assert found is not None or not PATH.fullmatch(name), name
        if found is not None:
            near = [found, *found.parents][: len(found.relative_to(ROOT).parts)]


def test_every_package_has_a_row() -> None:
    there = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert there <= {name.split("/")[0] for row in ROWS for name in NAME.findall(row.split("|")[0])}
