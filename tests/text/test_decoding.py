"""Decoding as a stream gives the text that decoding at once gives, and never a part of a character."""

from __future__ import annotations

import random

import pytest

from tests.text.compared import packed
from tests.text.designs import DESIGNS, design

TEXT = "Ünïcode naïve 東京都 🙂👨‍👩‍👧 ½  don't we'll. 'Tis , \t x"


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(DESIGNS))
def test_a_stream_gives_the_same_text(name: str) -> None:
    ours = packed(name)
    ids = ours.encode(TEXT).ids.tolist()
    stream = ours.stream()
    parts = [stream.add([number]) for number in ids]
    assert "".join([*parts, stream.end()]) == ours.decode(ids)
    if name not in {"bert-uncased", "clip"}:
        assert not any("\ufffd" in part for part in parts)


@pytest.mark.parametrize("name", sorted(DESIGNS))
@pytest.mark.parametrize("skip", [True, False])
def test_random_tokens(name: str, skip: bool) -> None:
    ours, theirs = packed(name), design(name)
    source = random.Random(name)
    most = theirs.get_vocab_size() + 5
    pools = [range(most), [number for token, number in theirs.get_vocab().items() if token.startswith("<0x")]]
    for _ in range(300):
        pool = source.choice([pool for pool in pools if pool])
        ids = [
            source.choice(pool) if source.random() < 0.8 else source.randrange(most)
            for _ in range(source.randrange(12))
        ]
        assert ours.decode(ids, skip_special=skip) == theirs.decode(ids, skip_special_tokens=skip), ids


def test_bytes_wait_until_they_are_a_character() -> None:
    for name, token in (("llama-2", "<0x{:02X}>"), ("gpt-2", None)):
        ours, theirs = packed(name), design(name)
        ids = [theirs.token_to_id(token.format(byte)) for byte in "🙂".encode()] if token else ours.encode("🙂").ids
        stream = ours.stream()
        assert [stream.add([number]) for number in ids] == [*[""] * (len(ids) - 1), "🙂"]
        assert stream.add(ids[:2]) == ""
        assert "\ufffd" in stream.end()
        assert stream.end() == ""


def test_a_stream_without_tokens_is_empty() -> None:
    assert packed("gpt-2").decode([]) == ""
    assert packed("gpt-2").decode([-1, 10**6]) == ""


@pytest.mark.parametrize("skip", [True, False])
def test_rows_of_bytes_behind_a_space(skip: bool) -> None:
    """A space that a row of bytes begins with is left out only where the row is text."""
    ours, theirs = packed("llama-2"), design("llama-2")
    number = {token: theirs.token_to_id(f"<0x{token}>") for token in ("20", "41", "88", "C3", "A9")}
    for row in ("20 88", "20 20 88", "20 41", "20 C3 A9", "20 C3", "C3 A9 20 88", "20"):
        ids = [number[byte] for byte in row.split()]
        for given in (ids, [*ids, 1304, number["88"]], [1304, *ids]):
            assert ours.decode(given, skip_special=skip) == theirs.decode(given, skip_special_tokens=skip), row
