"""How language models choose the next token."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from deploykit.errors import UsageError
from deploykit.options.option import option

USUAL_SINKS = 4
"""The first tokens of a text, which models attend to whatever they say. (Source: Xiao et al., "Efficient Streaming
Language Models with Attention Sinks", 2024.)"""


def _read(name: str, kind: type) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            return kind(text)
        except ValueError:
            raise UsageError(
                f"--{name} takes {'a whole number' if kind is int else 'a number'}; found '{text}'"
            ) from None

    return read


def _number(default: float, name: str, text: str) -> Any:
    return option(default, text, metavar="NUMBER", read=_read(name, float))


def _whole(default: int, name: str, text: str) -> Any:
    return option(default, text, metavar="NUMBER", read=_read(name, int))


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """The settings, in the order in which they are applied: what is added to scores, penalties, which tokens are
    possible, and the temperature. By default the token with the greatest score is chosen."""

    logit_bias: Mapping[int, float] | None = None
    """Added to the scores of tokens, by their numbers."""
    repetition_penalty: float = _number(
        1.0, "repetition-penalty", "Divide the scores of earlier tokens by this (negative ones are multiplied)."
    )
    presence_penalty: float = _number(0.0, "presence-penalty", "Subtract this from the scores of earlier tokens.")
    frequency_penalty: float = _number(
        0.0, "frequency-penalty", "Subtract this from the score of a token for each time that it occurred."
    )
    penalty_last: int = _whole(64, "penalty-last", "How many of the last tokens penalties look at; -1: all.")
    top_k: int = _whole(0, "top-k", "Only so many tokens with the greatest scores are possible; 0: all.")
    typical_p: float = _number(
        1.0, "typical-p", "Only tokens whose information is nearest to the average, with this probability in all."
    )
    top_p: float = _number(1.0, "top-p", "Only the most probable tokens, with this probability in all.")
    min_p: float = _number(0.0, "min-p", "Only tokens with this part of the probability of the most probable one.")
    temperature: float = _number(
        0.0, "temperature", "Scores are divided by this; 0 takes the most probable token, 1 draws as the model says."
    )
    seed: int = _whole(0, "seed", "Where random numbers begin: the same seed gives the same answer.")

    def __post_init__(self) -> None:
        if not isinstance(self.seed, int) or not 0 <= self.seed < 1 << 64:
            raise UsageError(f"seed must be an integer of 64 bits, 0 or more; found {self.seed!r:.40}")
        for name in ("top_k", "penalty_last"):
            if not isinstance(given := getattr(self, name), int):
                raise UsageError(f"{name} must be an integer; found {given!r:.40}")
