"""Beam search: the answers of the greatest probability, as far as a few beginnings show at a time.

The search keeps `count` beginnings, and goes on with the most probable continuations of all of them together. One that
ends is an answer; its score is the logarithm of its probability, divided by its number of tokens to the power of
`length_penalty`. The end of an answer counts as a token. Beginnings share the pages of what they have in common.

The search ends at `max_tokens`, or once there are `count` answers and the score that the best beginning would have, if
it ended now, is not greater than theirs. With a positive penalty, which favours long answers, that is a heuristic:
scores may rise later. It is what `early_stopping=False` means in transformers. As there, those of the first `count`
continuations that end become answers, and beginnings go on with the best that do not.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from deploykit.errors import DataError, UsageError
from deploykit.language.sampling import log_sum

if TYPE_CHECKING:
    from deploykit.sessions.language import engine


@dataclass(frozen=True)
class Beam:
    """An answer: its text and tokens, the logarithm of its probability, with that of its end, and its score. `reason`
    is why it ended, as that of a `Generation`."""

    text: str
    tokens: tuple[int, ...]
    logprob: float
    score: float
    reason: Literal["stop", "length"]


@dataclass(eq=False)
class _Beginning:
    """A sequence with tokens of an answer, and the logarithm of their probability."""

    sequence: engine.Sequence
    tokens: tuple[int, ...] = ()
    logprob: float = 0.0


@dataclass(frozen=True)
class _Continuation:
    """A token that may follow a beginning; `logprob` is that of all tokens."""

    beginning: _Beginning
    token: int
    logprob: float


def search(
    language: engine.Language,
    tokens: Sequence[int],
    *,
    count: int = 4,
    max_tokens: int | None = None,
    length_penalty: float = 1.0,
    ends: Collection[int] = (),
) -> list[Beam]:
    """The answers to `tokens` with the greatest scores, at most `count`, the best first. Raises `UsageError` for
    settings that are not possible, and where there is no memory for so many texts."""
    if not isinstance(count, int) or count < 1:
        raise UsageError(f"count must be a whole number, 1 or more; found {count!r:.40}")
    if not math.isfinite(length_penalty):
        raise UsageError(f"length_penalty must be a number; found {length_penalty!r:.40}")
    if max_tokens is not None and (not isinstance(max_tokens, int) or max_tokens < 1):
        raise UsageError(f"max_tokens must be a whole number, 1 or more; found {max_tokens!r:.40}")
    given = language.checked(tokens)
    room = language.task.context - len(given) + 1
    most = room if max_tokens is None else min(max_tokens, room)
    going = [_Beginning(language.begin(given))]
    found: list[Beam] = []
    try:
        for length in range(1, most + 1):
            best = _continuations(language, going, max(2, 1 + len(ends)) * count)
            weight = length**-length_penalty
            ended = [one for one in best[:count] if one.token in ends or length == most]
            found += [_beam(language, one, one.logprob * weight, one.token in ends) for one in ended]
            found = sorted(found, key=lambda beam: -beam.score)[:count]
            chosen = [one for one in best if one.token not in ends][:count]
            if length == most or not chosen or (len(found) == count and chosen[0].logprob * weight <= found[-1].score):
                break
            _follow(language, going, chosen)
    finally:
        for beginning in going:
            language.end(beginning.sequence)
    return found


def _continuations(language: engine.Language, going: Iterable[_Beginning], most: int) -> list[_Continuation]:
    """The most probable tokens that follow beginnings, the best first."""
    found = []
    for beginning in going:
        scores = language.scores(beginning.sequence)
        logprobs = beginning.logprob + scores.astype(np.float64) - log_sum(scores)
        if np.isnan(logprobs).any():
            raise DataError("no token is possible: the model gave scores that are no numbers")
        # Equal ones come in the order of their numbers.
        best = np.sort(np.argpartition(-logprobs, min(most, len(logprobs)) - 1)[:most])
        found += [_Continuation(beginning, int(token), float(logprobs[token])) for token in best]
    return sorted((one for one in found if one.logprob > -math.inf), key=lambda one: -one.logprob)[:most]


def _follow(language: engine.Language, going: list[_Beginning], chosen: Sequence[_Continuation]) -> None:
    """Let beginnings be those with the tokens that were chosen. All sequences that are open are among them, also after
    an error."""
    for beginning in [each for each in going if all(one.beginning is not each for one in chosen)]:
        language.end(beginning.sequence)
        going.remove(beginning)
    for parent in list(going):
        own, *others = [one for one in chosen if one.beginning is parent]
        before = parent.tokens
        for one in others:
            child = _Beginning(language.fork(parent.sequence))
            going.append(child)
            _add(language, child, before, one)
        _add(language, parent, before, own)


def _add(language: engine.Language, beginning: _Beginning, before: tuple[int, ...], one: _Continuation) -> None:
    language.follow(beginning.sequence, one.token)
    beginning.tokens, beginning.logprob = (*before, one.token), one.logprob


def _beam(language: engine.Language, one: _Continuation, score: float, ended: bool) -> Beam:
    tokens = one.beginning.tokens if ended else (*one.beginning.tokens, one.token)
    text = language.tokenizer.stream().end(tokens)
    return Beam(text, tokens, one.logprob, score, "stop" if ended else "length")
