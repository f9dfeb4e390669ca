"""One answer that is being written: an iterator of pieces."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from deploykit.errors import UsageError
from deploykit.language.sampling import Sampler
from deploykit.language.stops import Stops
from deploykit.options.generation import USUAL_SINKS, Sampling
from deploykit.sessions.language.drafts import Drafts, Ngrams, drafts_of

if TYPE_CHECKING:
    import numpy as np

    from deploykit.sessions.language import engine

Reason: TypeAlias = Literal["stop", "length", "closed"]
"""Why an answer ended: the model or a text of `stop` ended it, it reached its length, or its iterator was closed."""


def windowed(tokens: Sequence[int], context: int, sinks: int) -> list[int]:
    """The first `sinks` tokens of a text, and the newest ones, for which half of the rest of the context is used."""
    return [*tokens[:sinks], *tokens[len(tokens) - (context - sinks) // 2 :]]


@dataclass(frozen=True)
class Piece:
    """What a step added to an answer: its text, its tokens, and the logarithms of their probabilities. The text may be
    empty, while a character is not whole or a stop may be beginning."""

    text: str
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]

    def __str__(self) -> str:
        return self.text


@dataclass
class Timings:
    """Seconds and tokens of the prompt, without those that were remembered, and of the answer."""

    prompt_tokens: int = 0
    prompt_seconds: float = 0.0
    tokens: int = 0
    seconds: float = 0.0

    @property
    def prompt_rate(self) -> float:
        """Tokens per second of the prompt."""
        return self.prompt_tokens / self.prompt_seconds if self.prompt_seconds else 0.0

    @property
    def rate(self) -> float:
        """Tokens per second of the answer, after the first one."""
        return (self.tokens - 1) / self.seconds if self.seconds and self.tokens > 1 else 0.0


class Generation:
    """The pieces of an answer, one after the other. `text` and `tokens` are what there is so far, `reason` why it has
    ended. Other answers of the session that are open go on at the same time, with the same steps of the model.

    A sequence that was `kept` is that of a conversation, which goes on with it. With `sinks`, a text that fills the
    context is shortened to so many first tokens and the newest ones, and read again."""

    def __init__(
        self,
        language: engine.Language,
        sequence: engine.Sequence,
        settings: Sampling,
        *,
        most: int,
        stop: Sequence[str] = (),
        ends: Iterable[int] = (),
        kept: bool = False,
        drafts: Ngrams | Drafts | None = None,
        sinks: int | None = None,
    ) -> None:
        self.drafts, self._sinks = drafts, sinks
        self._chances: list[np.ndarray | None] = []
        self._language, self.sequence, self._most, self._kept = language, sequence, most, kept
        self._sampler = Sampler(settings, language.task.words, language.library)
        self._stops, self._ends = Stops(stop, language.library), frozenset(ends)
        self._stream = language.tokenizer.stream()
        self._began = time.perf_counter()
        self._first: float | None = None
        self.text = ""
        self.tokens: list[int] = []
        self.reason: Reason | None = None if most else "length"
        self.timings = Timings(len(sequence.tokens) - language.remembered(sequence))
        if not most:
            self.close("length")

    def __iter__(self) -> Iterator[Piece]:
        return self

    def __next__(self) -> Piece:
        if self.reason is not None:
            raise StopIteration
        try:
            return self._next()
        except BaseException:
            self.close()
            raise

    def _next(self) -> Piece:
        sequence, now = self.sequence, time.perf_counter
        if sequence.scores is None and self.drafts is not None and self.tokens:
            room = min(self._most - len(self.tokens), self._language.task.context - len(sequence.tokens))
            found = self.drafts.guesses(sequence.tokens, max(room - 1, 0))
            sequence.guesses, self._chances = [guess.token for guess in found], [guess.chances for guess in found]
        scores = self._language.scores(sequence)
        chances = self._chances.pop(0) if sequence.guesses else None
        guess = None if chances is None else (sequence.guesses[0], chances)
        token, logprob = self._sampler.choose(scores, sequence.tokens, guess)
        self.timings.tokens += 1
        if self._first is None:
            self._first = now()
            self.timings.prompt_seconds = self._first - self._began
        self.timings.seconds = now() - self._first
        if token in self._ends:
            return self._last(token, logprob, "stop")
        self.tokens.append(token)
        context = self._language.task.context
        full = len(sequence.tokens) >= context
        if len(self.tokens) >= self._most or (full and self._sinks is None):
            return self._last(token, logprob, "length")
        if full and self._sinks is not None:
            self._language.replace(sequence, windowed([*sequence.tokens, token], context, self._sinks))
        else:
            self._language.follow(sequence, token)
        shown, stopped = self._stops.add(self._stream.add([token]))
        self.text += shown
        if stopped:
            self.close("stop")
        return Piece(shown, (token,), (logprob,))

    def _last(self, token: int, logprob: float, reason: Reason) -> Piece:
        """The last piece: what was held back is shown, too."""
        self.sequence.scores, self.sequence.guesses, self.sequence.further = None, [], []
        text = self._stream.end([] if reason == "stop" else [token])
        shown, stopped = self._stops.add(text)
        shown += "" if stopped else self._stops.rest()
        self.text += shown
        self.close("stop" if stopped else reason)
        return Piece(shown, (token,), (logprob,))

    def close(self, reason: Reason = "closed") -> None:
        """End the answer. The model forgets it, unless it is part of a conversation."""
        self.reason = self.reason or reason
        if not self._kept:
            self._language.end(self.sequence)
            if self.drafts is not None:
                self.drafts.close()

    def read(self) -> str:
        """Write the answer to its end; returns all of its text."""
        for _ in self:
            pass
        return self.text

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "reason"):
            self.close()


def start(
    language: engine.Language,
    tokens: Sequence[int],
    *,
    max_tokens: int | None = None,
    stop: Sequence[str] = (),
    ignore_end: bool = False,
    sequence: engine.Sequence | None = None,
    keep: bool = False,
    draft: Any = None,
    earlier: Drafts | None = None,
    overflow: str = "error",
    sinks: int = USUAL_SINKS,
    **sampling: Any,
) -> Generation:
    """Begin an answer to `tokens`; see `Session.generate`. With `keep`, the model remembers it afterwards. A `sequence`
    that was kept is used again, with what it has in common with `tokens`, and so are `earlier` drafts."""
    if max_tokens is not None and (not isinstance(max_tokens, int) or max_tokens < 0):
        raise UsageError(f"max_tokens must be a whole number, 0 or more; found {max_tokens!r:.40}")
    known = {entry.name for entry in fields(Sampling)}
    if unknown := sampling.keys() - known:
        raise UsageError(f"there is no setting '{min(unknown)}'; there are {', '.join(sorted(known))}")
    context = language.task.context
    if overflow not in ("error", "window"):
        raise UsageError(f"overflow is {overflow!r:.40}; there are 'error' and 'window'")
    if not isinstance(sinks, int) or not 0 <= sinks <= context - 2:
        raise UsageError(f"sinks is {sinks!r:.40}; it must be a whole number from 0 to {context - 2}")
    settings = Sampling(**sampling)
    drafts = drafts_of(draft, language, settings, earlier)
    slides = overflow == "window"
    if slides and len(tokens) > context:
        tokens = windowed(tokens, context, sinks)
    if sequence is None or sequence.row is None:
        sequence = language.begin(tokens)
    else:
        language.replace(sequence, tokens)
    room = sys.maxsize if slides else context - len(tokens) + 1
    most = room if max_tokens is None else min(max_tokens, room)
    ends = () if ignore_end else language.task.stops
    try:
        return Generation(
            *(language, sequence, settings),
            most=most,
            stop=stop,
            ends=ends,
            kept=keep,
            drafts=drafts,
            sinks=sinks if slides else None,
        )
    except BaseException:
        language.end(sequence)
        raise
