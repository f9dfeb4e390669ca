"""How fast a language model reads prompts and writes answers, in the sizes that llama.cpp's `llama-bench` has."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from deploykit.sessions.session import Session

PROMPTS, DEPTHS, ANSWER = (128, 512), (0, 1024), 64
"""Tokens of prompts, tokens in front of answers, and tokens of answers."""


@dataclass(frozen=True)
class Speed:
    """Tokens per second, the median of `runs`."""

    what: str
    rate: float
    runs: int


def prompt(session: Session, tokens: int) -> float:
    """Tokens per second of a prompt."""
    language = session.language
    sequence = language.begin(np.random.default_rng(tokens).integers(0, language.task.words, tokens))
    try:
        start = time.perf_counter()
        while sequence.scores is None:
            language.step()
        return tokens / (time.perf_counter() - start)
    finally:
        language.end(sequence)


def answers(session: Session, depth: int, count: int = 1, length: int = ANSWER) -> float:
    """Tokens per second of answers of `length` tokens to `count` prompts of `depth` tokens, all in the same steps."""
    language = session.language
    random = np.random.default_rng(depth)
    sequences = [language.begin(random.integers(0, language.task.words, max(depth, 1))) for _ in range(count)]
    try:
        while any(sequence.scores is None for sequence in sequences):
            language.step()
        start = time.perf_counter()
        for _ in range(length):
            for sequence in sequences:
                assert sequence.scores is not None
                language.follow(sequence, int(sequence.scores.argmax()))
            language.step()
        return count * length / (time.perf_counter() - start)
    finally:
        for sequence in sequences:
            language.end(sequence)


def speeds(session: Session, seconds: float) -> list[Speed]:
    """What the context of the model has room for; each is measured for so many seconds, at least once."""
    context = session.language.task.context
    found: list[tuple[str, Callable[[], float]]] = [
        (f"prompt of {tokens} tokens", partial(prompt, session, tokens)) for tokens in PROMPTS if tokens <= context
    ]
    length = min(ANSWER, context // 2)
    found += [
        (f"answer of {length} tokens behind {depth}", partial(answers, session, depth, 1, length))
        for depth in DEPTHS
        if depth + length < context
    ]
    return [_speed(what, measure, seconds / len(found)) for what, measure in found]


def _speed(what: str, measure: Callable[[], float], seconds: float) -> Speed:
    measure()
    end = time.perf_counter() + seconds
    rates = [measure()]
    while time.perf_counter() < end:
        rates.append(measure())
    return Speed(what, statistics.median(rates), len(rates))
