"""Fixtures that every test may use.

`golden`: pins generated text. `golden(text)` compares `text` with `golden/<test module>/<test name>.txt` beside the
test; `pytest --update-golden` rewrites the file. A missing file fails.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from pathlib import Path


class Golden(Protocol):
    def __call__(self, text: str, name: str | None = None) -> None: ...


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files instead of comparing")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    folder: Path = request.path.parent / "golden" / request.path.stem.removeprefix("test_")
    default = re.sub(r"[^\w.-]+", "-", request.node.name.removeprefix("test_")).strip("-") + ".txt"
    update = request.config.getoption("--update-golden")

    def compare(text: str, name: str | None = None) -> None:
        """`name` is the golden file's name; by default that of the test."""
        path = folder / (name or default)
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        assert path.exists(), f"{path} does not exist; run pytest --update-golden and read what it writes"
        assert text == path.read_text(encoding="utf-8"), f"differs from {path}; see pytest --update-golden"

    return compare
