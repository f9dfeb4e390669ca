"""How well a model expects a text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from deploykit.errors import UsageError
from deploykit.language.sampling import log_sum

if TYPE_CHECKING:
    from deploykit.sessions.language.engine import Language


def perplexity(language: Language, text: str, length: int) -> float:
    """The exponential of the mean information of the tokens of a text. It is cut into parts of `length` tokens, whose
    first ones are given. Raises `UsageError` for a text of fewer than two tokens, and for a length that is not
    possible."""
    tokens = [int(token) for token in language.tokenizer.encode(text, bare=True).ids]
    if len(tokens) < 2 or not 2 <= length <= language.task.context:
        raise UsageError(
            f"a text of {len(tokens)} tokens in parts of {length}: there must be 2 or more, and at most "
            f"{language.task.context} in a part"
        )
    total, count = 0.0, 0
    for start in range(0, len(tokens) - 1, length):
        part = tokens[start : start + length]
        if len(part) > 1:
            total += information_of(language.logits(part)[:-1], part[1:])
            count += len(part) - 1
    return math.exp(total / count)


def information_of(scores: np.ndarray, tokens: Sequence[int]) -> float:
    """The information of tokens, in nats, by the scores (tokens, words) at their places."""
    return sum(log_sum(row) - float(row[token]) for row, token in zip(scores, tokens, strict=True))
