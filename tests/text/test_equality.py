"""Tokens are those of the library `tokenizers`: ids, places, segments and masks, for each design."""

from __future__ import annotations

import json
import random

import pytest

from deploykit.errors import UsageError
from deploykit.text import Tokenizer, pack_fields
from tests.text.compared import difference, differences, packed
from tests.text.designs import DESIGNS, design
from tests.text.strings import text

designs = pytest.mark.parametrize("name", sorted(DESIGNS))


@designs
def test_random_texts(name: str) -> None:
    assert not differences(name, 400, seed=1)


@pytest.mark.slow
@designs
def test_many_random_texts(name: str) -> None:
    assert not differences(name, 20_000, seed=2)


@pytest.mark.sampled(part=8)
@designs
@pytest.mark.parametrize(
    "given", ["", " ", "a", "\0", "\u0301", "\ud7a3", "x" * 20_000, "word " * 5_000, "\u0315\u0300" * 3_000]
)
def test_texts_of_extreme_lengths(name: str, given: str) -> None:
    theirs = design(name)
    ours = packed(name)
    assert difference(ours, theirs, given) is None
    assert difference(ours, theirs, given, given) is None


@pytest.mark.sampled(part=8)
@designs
@pytest.mark.parametrize("cut", ["longest_first", "only_first", "only_second"])
@pytest.mark.parametrize("left", [False, True])
def test_truncation(name: str, cut: str, left: bool) -> None:
    theirs = design(name)
    ours = packed(name)
    texts = ["one two three four five six", "seven", "eight nine ten eleven twelve thirteen fourteen fifteen"]
    compared = 0
    try:
        for first in texts:
            for second in (None, *texts):
                for most in (5, 8, 9, 12, 40):
                    theirs.enable_truncation(most, strategy=cut, direction="left" if left else "right")
                    try:
                        expected = theirs.encode(first, second)
                    except Exception:  # noqa: BLE001 - the library has no narrower type
                        with pytest.raises(UsageError, match="too short"):
                            ours.encode(first, second, most=most, cut=cut, cut_left=left)
                        continue
                    found = ours.encode(first, second, most=most, cut=cut, cut_left=left)
                    assert found.ids.tolist() == expected.ids
                    assert [tuple(pair) for pair in found.offsets.tolist()] == expected.offsets
                    compared += 1
    finally:
        theirs.no_truncation()
    assert compared > 5


@pytest.mark.parametrize("name", ["gpt-2", "clip", "llama-2", "llama-3"])
def test_shortcuts_change_nothing(name: str) -> None:
    fields = json.loads(design(name).to_str())
    shorter, longer = packed(name), Tokenizer(pack_fields(fields, shortcuts=False))
    source = random.Random(name)
    for _ in range(300):
        given = text(source, [])
        for field in ("ids", "offsets", "byte_offsets"):
            assert (getattr(shorter.encode(given), field) == getattr(longer.encode(given), field)).all()


@pytest.mark.slow
@designs
def test_a_text_of_a_megabyte(name: str) -> None:
    ours, theirs = packed(name), design(name)
    for given in ("lorem ipsum dolor, 東京 sit? " * 40_000, "ab" * 500_000):
        found, expected = ours.encode(given), theirs.encode(given)
        assert found.ids.tolist() == expected.ids
        assert found.offsets.tolist() == [list(pair) for pair in expected.offsets]
