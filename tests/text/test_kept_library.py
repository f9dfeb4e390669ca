"""The tokenizer's library is compiled once, and again if what is kept of it is damaged or of other sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploykit import runtime
from deploykit.text import tokenizer


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "deploykit"


def kept(place: Path) -> dict[str, int]:
    """The files that are kept, and which they are."""
    tokenizer._library.cache_clear()
    tokenizer._library()
    return {file.name: file.stat().st_ino for file in place.iterdir()}


def test_later_processes_find_it(place: Path) -> None:
    first = kept(place)
    assert len(first) == 1
    assert kept(place) == first


def test_a_damaged_one_is_replaced(place: Path) -> None:
    (name,) = kept(place)
    (place / name).unlink()
    (place / name).write_text("no library")
    assert kept(place).keys() == {name}
    assert (place / name).read_bytes().startswith(b"\x7fELF")


def test_other_sources_are_another_one(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = kept(place)
    changed = [tmp_path / source.name for source in runtime.TEXT]
    for source, copy in zip(runtime.TEXT, changed, strict=True):
        copy.write_text(source.read_text() + "/* Another one. */\n")
    monkeypatch.setattr(runtime, "TEXT", tuple(changed))
    assert kept(place).keys() > first.keys()


def test_without_a_place_it_is_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    tokenizer._library.cache_clear()
    assert tokenizer._library().dk_text_open
