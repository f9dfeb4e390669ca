"""Positions that are added to scores: the further a key is in front of a query, the less its score.

    score(query i, key j) = product * scale - slope(head) * (i - j)

The same is added to all scores of a query without any change of a softmax, so a table has the part that depends on the
key, `slope * j`, for all positions of a text, and only differences of its entries are used. (Source: Press, Smith and
Lewis, "Train Short, Test Long: Attention with Linear Biases Enables Input Length Extrapolation", 2022.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np

from deploykit.compiler.operators.pages import PAGE
from deploykit.frontends.huggingface.tensors import Tensor

if TYPE_CHECKING:
    from deploykit.frontends.huggingface.registry import Text


def slopes(heads: int, greatest: float = 8.0) -> np.ndarray:
    """A geometric sequence down to `2 ** -greatest`; where the number of heads is no power of 2, then every second one
    of the sequence for twice as many."""

    def sequence(count: int) -> np.ndarray:
        return np.asarray(np.exp2(-greatest / count * np.arange(1, count + 1)), np.float32)

    whole = 1 << heads.bit_length() - 1
    return np.concatenate([sequence(whole), sequence(2 * whole)[::2]])[:heads]


def table(slopes: np.ndarray, longest: int, *, factor: float = 1.0, narrow: bool = False) -> np.ndarray:
    """The table (heads, positions) for whole pages of a text of so many tokens, times `factor`. `narrow` says that
    slopes, positions and their products are rounded to bfloat16, as in models that were trained so."""
    positions = np.arange(-(-longest // PAGE) * PAGE, dtype=np.float32)

    def rounded(x: np.ndarray) -> np.ndarray:
        return np.asarray(x.astype(ml_dtypes.bfloat16), np.float32) if narrow else x

    return rounded(rounded(slopes)[:, None] * rounded(positions)) * np.float32(factor)


def biases(text: Text, slopes: np.ndarray, *, factor: float = 1.0, narrow: bool = False) -> Tensor:
    """The table for the longest text."""
    assert text.longest is not None
    return text.ids.of(text.ids.ctx.constant(table(slopes, text.longest, factor=factor, narrow=narrow)))
