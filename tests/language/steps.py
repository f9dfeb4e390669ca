"""Runs the function `step` of a model by hand: sequences, and any parts of them in one step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from deploykit.compiler.operators.pages import PAGE
from deploykit.language.pages import PageTable

Part = tuple[int, Sequence[int]]
"""A sequence, and the tokens that come next in it."""


class Steps:
    """`run` runs `step`; its memory has `count` pages."""

    def __init__(
        self,
        run: Callable[[Mapping[str, Any]], Mapping[str, Any]],
        count: int,
        *,
        sequences: int = 4,
        blocks: int = 4,
        window: int | None = None,
        size: int = PAGE,
    ) -> None:
        self.run = run
        self.pages = PageTable(count, sequences, blocks, size, window)

    def __call__(self, *parts: Part) -> list[np.ndarray]:
        """The scores (tokens, words) after each token of each part."""
        for sequence, tokens in parts:
            assert self.pages.reserve(sequence, len(tokens))
        starts = [int(self.pages.lengths[sequence]) for sequence, _ in parts]
        counts = [len(tokens) for _, tokens in parts]
        found = self.run(
            {
                "tokens": np.concatenate([np.asarray(tokens, np.int64) for _, tokens in parts]),
                "positions": np.concatenate([np.arange(s, s + n) for s, n in zip(starts, counts, strict=True)]),
                "sequences": np.repeat(np.arange(len(parts)), counts),
                "pages": np.maximum(self.pages.table[[sequence for sequence, _ in parts]], 0),
                "rows": np.arange(sum(counts)),
            }
        )
        for sequence, tokens in parts:
            self.pages.append(sequence, len(tokens))
        return np.split(found["logits"], np.cumsum(counts)[:-1])

    def begin(self) -> int:
        found = self.pages.begin()
        assert found is not None
        return found
