"""The picture of the packages names what is there."""

from __future__ import annotations

from tests.docs.structure_picture import PICTURE, ROOT, ROWS, picture


def test_the_picture_is_current() -> None:
    assert PICTURE.read_text() == picture()


def test_what_it_names_is_there_or_marked_as_next() -> None:
    for _, _, boxes in ROWS:
        for box in boxes:
            assert (ROOT / "deploykit" / box.path).exists() != box.next, box.path
