"""Guesses of what a text goes on with, which the model then confirms several at a time.

`Ngrams` looks the last tokens up in the text itself: where they occurred before, what followed them may follow again.
`Drafts` asks a smaller model with the same vocabulary. A guess never changes what is written, only how fast: a token is
chosen by the scores of the model in each place, and where it is another one than was guessed, the rest of the guesses
is dropped. Where tokens are drawn, a guess that was drawn, too, is confirmed so that every token has the probability
that the model gives it (`dk_confirm`). (Sources: Leviathan et al., "Fast Inference from Transformers via Speculative
Decoding", 2023, and Chen et al., "Accelerating Large Language Model Decoding with Speculative Sampling", 2023; with
guesses from the prompt, as in Saxena, "Prompt Lookup Decoding", 2023.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from deploykit.errors import UsageError
from deploykit.language.sampling import Sampler
from deploykit.sessions.language.engine import Language, PagesExhausted

if TYPE_CHECKING:
    import numpy as np

    from deploykit.options.generation import Sampling
    from deploykit.sessions.language import engine

LONGEST, SHORTEST = 4, 2
"""How many tokens are looked up."""

MOST, DRAWN = 8, 4
"""Guesses at a time: from the text itself, which cost little, and by a model."""

OTHER_NUMBERS = 0x5851F42D4C957F2D
"""What the seed of guesses differs in: they must not depend on the random numbers that confirm them."""

CARRIED = "this model carries a state from token to token, which cannot go back one token"


class Guess(NamedTuple):
    """A token that may follow, and the probabilities (words) by which it was drawn; None: it was not drawn."""

    token: int
    chances: np.ndarray | None = None


class Ngrams:
    """What followed runs of tokens in a text. The text may only grow between calls."""

    def __init__(self) -> None:
        self._first: dict[tuple[int, ...], int] = {}
        self._last: dict[tuple[int, ...], int] = {}
        self._seen = 0

    def guesses(self, tokens: Sequence[int], most: int) -> list[Guess]:
        """Up to `most` tokens that may follow."""
        most = min(most, MOST)
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
                return [Guess(token) for token in tokens[place : place + most]]
        return []

    def close(self) -> None:
        """There is nothing to forget."""


class Drafts:
    """What a smaller model would write. It remembers the text in a sequence of its own, also from one answer of a
    conversation to the next."""

    def __init__(self, language: Language, settings: Sampling, earlier: Drafts | None = None) -> None:
        self.language = language
        self._draws = settings.temperature > 0
        other = replace(settings, seed=settings.seed ^ OTHER_NUMBERS)
        self._sampler = Sampler(other, language.task.words, language.library)
        self._sequence: engine.Sequence | None = None
        if earlier is not None:
            if earlier.language is language:
                self._sequence = earlier._sequence  # noqa: SLF001 - of the same class
            else:
                earlier.close()

    def guesses(self, tokens: Sequence[int], most: int) -> list[Guess]:
        """Up to `most` tokens that may follow; none where the smaller model has no room for the text."""
        language = self.language
        most = min(most, DRAWN, language.task.context - len(tokens))
        found: list[Guess] = []
        if most < 1:
            return found
        if self._sequence is None or self._sequence.row is None:
            self._sequence = language.begin(tokens)
        else:
            language.replace(self._sequence, tokens)
        sequence = self._sequence
        try:
            while len(found) < most:
                scores = language.scores(sequence)
                chances = self._sampler.probabilities(scores, sequence.tokens) if self._draws else None
                token, _ = self._sampler.choose(scores, sequence.tokens)
                found.append(Guess(token, chances))
                language.follow(sequence, token)
        except PagesExhausted:
            self.close()
        return found

    def close(self) -> None:
        """Let the smaller model forget the text."""
        if self._sequence is not None:
            self.language.end(self._sequence)
            self._sequence = None


def drafts_of(draft: Any, language: Language, settings: Sampling, earlier: Drafts | None) -> Ngrams | Drafts | None:
    """What guesses tokens for an answer: by `"ngram"`, or a session of a smaller model. What that remembers of an
    `earlier` answer is not read again. Raises `UsageError` for anything else, for another vocabulary, and for models
    that go back to the beginning of a page after each wrong guess."""
    if draft is None:
        return None
    if language.task.whole:
        raise UsageError(f"{CARRIED}: it writes slower with guesses; leave out 'draft'")
    if isinstance(draft, str) and draft == "ngram":
        return Ngrams()
    other = getattr(draft, "language", None)
    if not isinstance(other, Language):
        raise UsageError(f"draft is {draft!r:.40}; there is 'ngram', a session of a smaller model, or None")
    if other.task.whole:
        raise UsageError(f"the draft cannot guess: {CARRIED}: take another one, or 'ngram'")
    if other.vocabulary != language.vocabulary:
        raise UsageError(
            f"the draft has another vocabulary ({other.task.words} words) than the model ({language.task.words}): take "
            "a smaller model of the same family, with the same tokenizer"
        )
    return Drafts(other, settings, earlier)
