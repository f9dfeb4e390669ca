"""Rewrites golden files and shows what changes: `python -m tests.golden [FILE...]`, or `make golden`.

Only tests that take the fixture `golden` run: all, or those in the given files and folders. The golden files of tests
without the fixture have to be asked for: the counts of instructions (`pytest --update-golden tests/instructions`) and
the pictures of the sample app (`tests/apps/test_digits_app.py`).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from subprocess import run

import pytest

from tests.imports import ROOT

FOLDERS = ":(glob)tests/**/golden/**"
"""Golden files, as git names them."""


def users(places: Sequence[Path]) -> Iterator[str]:
    """The test modules that mention the fixture, so that no others are imported."""
    for place in places:
        for path in [place] if place.is_file() else sorted(place.rglob("test_*.py")):
            if re.search(r"\bgolden\b", path.read_text(encoding="utf-8")):
                yield str(path)


class GoldenOnly:
    """Leaves only tests that take the fixture."""

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        users = [item for item in items if "golden" in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(
            items=[item for item in items if "golden" not in getattr(item, "fixturenames", ())]
        )
        items[:] = users


def show(root: Path) -> None:
    """Print how golden files differ from the last commit."""
    for arguments in (["diff", "--stat"], ["diff"]):
        run(["git", "--no-pager", *arguments, "--", FOLDERS], cwd=root, check=True)
    new = run(["git", "ls-files", "-o", "--", FOLDERS], cwd=root, capture_output=True, text=True, check=True).stdout
    print(f"New golden files:\n{new}" if new else "There are no new golden files.")


def main(arguments: Sequence[str]) -> int:
    found = list(users([Path(each) for each in arguments] or [ROOT / "tests"]))
    if not found:
        sys.exit("no test there takes the fixture golden")
    status = int(pytest.main(["-q", "--update-golden", *found], plugins=[GoldenOnly()]))
    sys.stdout.flush()
    show(ROOT)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
