"""Texts that end an answer never show a part of themselves."""

from __future__ import annotations

import numpy as np
import pytest

from deploykit.errors import UsageError
from deploykit.language.stops import Stops

CASES = (["ab"], ["aab", "ba"], ["abc", "c"], ["aaaa"], ["é", "ü!"], ["a", "ab"], [])


@pytest.mark.parametrize("texts", CASES, ids=" ".join)
def test_any_cut_of_a_text_shows_the_same(texts: list[str]) -> None:
    random = np.random.default_rng(len(texts))
    for _ in range(300):
        whole = "".join(random.choice(list("aabcéü!"), int(random.integers(0, 12))))
        places = [whole.find(text) for text in texts if text in whole]
        expected = whole[: min(places)] if places else whole
        stops, shown, ended, at = Stops(texts), "", False, 0
        while at < len(whole) and not ended:
            size = int(random.integers(1, 4))
            part, ended = stops.add(whole[at : at + size])
            shown += part
            at += size
            assert expected.startswith(shown)
        assert ended == bool(places)
        assert shown + ("" if ended else stops.rest()) == expected


def test_texts_that_cannot_be() -> None:
    with pytest.raises(UsageError, match="is empty"):
        Stops(["a", ""])
    with pytest.raises(UsageError, match="takes a list"):
        Stops("END")
