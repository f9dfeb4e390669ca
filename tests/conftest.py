"""Fixtures that every test may use.

`golden`: pins generated text. `golden(text)` compares `text` with `golden/<test module>/<test name>.txt` beside the
test; `pytest --update-golden` rewrites the file. A missing file fails.

`@pytest.mark.sampled(part=n)`: with `pytest --slice NAME`, about one in n cases of the test runs; which ones follows
from the name alone. `make test` gives the commit as the name. Without the option all run.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from pathlib import Path


class Golden(Protocol):
    def __call__(self, text: str, name: str | None = None) -> None: ...


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files instead of comparing")
    parser.addoption("--slice", metavar="NAME", help="of sampled tests, run the cases that this name selects")


def pytest_report_header(config: pytest.Config) -> str | None:
    name = config.getoption("--slice")
    return f"slice {name}: run the same cases again with --slice {name}" if name else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    name = config.getoption("--slice")
    if name:
        chosen = [_is_in_slice(item, name) for item in items]
        config.hook.pytest_deselected(items=[item for item, runs in zip(items, chosen, strict=True) if not runs])
        items[:] = [item for item, runs in zip(items, chosen, strict=True) if runs]


def _is_in_slice(item: pytest.Item, name: str) -> bool:
    marker = item.get_closest_marker("sampled")
    if marker is None:
        return True
    digest = hashlib.sha256(f"{name} {item.nodeid}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % marker.kwargs["part"] == 0


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
