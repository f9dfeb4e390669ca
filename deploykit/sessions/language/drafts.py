"""Guesses of what a text goes on with, which the model then confirms several at a time.

`Ngrams` looks the last tokens up in the text itself: where they occurred before, what followed them may follow again. A
guess never changes a text, only how fast it is written: a token is chosen by the scores of the model in each place, and
where it is another one than was guessed, the rest of the guesses is dropped. (Source: Leviathan et al., "Fast Inference
from Transformers via Speculative Decoding", 2023; with guesses from the prompt, as in Saxena, "Prompt Lookup Decoding",
2023.)
"""

from __future__ import annotations

from collections.abc import Sequence

LONGEST, SHORTEST = 4, 2
"""How many tokens are looked up."""

MOST = 8
"""Guesses at a time."""


class Ngrams:
    """What followed runs of tokens in a text. The text may only grow between calls."""

    def __init__(self) -> None:
        self._first: dict[tuple[int, ...], int] = {}
        self._last: dict[tuple[int, ...], int] = {}
        self._seen = 0

    def guesses(self, tokens: Sequence[int], most: int = MOST) -> list[int]:
        """Up to `most` tokens that may follow."""
        # A run is known by the place behind it, so the last one is not looked up in itself.
        for end in range(max(self._seen, SHORTEST), len(tokens)):
            for size in range(SHORTEST, LONGEST + 1):
                if size <= end:
                    run = tuple(tokens[end - size : end])
                    self._first.setdefault(run, end)
                    self._last[run] = end
        self._seen = len(tokens)
        for size in range(LONGEST, SHORTEST - 1, -1):
            run = tuple(tokens[-size:])
            place = self._last.get(run) if size <= len(tokens) else None
            if place is not None:
                # The last time is the likeliest, unless too little followed it so far.
                place = place if len(tokens) - place >= most else self._first[run]
                return list(tokens[place : place + most])
        return []
