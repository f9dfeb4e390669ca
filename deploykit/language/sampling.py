"""How the next token is chosen, as `runtime/language/sampling.c` does it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from deploykit.errors import DataError, UsageError
from deploykit.language.library import CBias, CChoice, CSampling, library
from deploykit.options.generation import Sampling


class Sampler:
    """Chooses the tokens of one text. Raises `UsageError` for settings that are not possible."""

    def __init__(self, settings: Sampling, words: int, functions: ctypes.CDLL | None = None) -> None:
        self._library, self._words = functions or library(), words
        biases = settings.logit_bias or {}
        for token in biases:
            if not 0 <= token < words:
                raise UsageError(f"logit_bias has the token {token}; the model has {words}")
        self._biases = (CBias * max(len(biases), 1))(*(CBias(token, value) for token, value in biases.items()))
        names = [field[0] for field in CSampling._fields_ if field[0] not in ("biases", "bias_count")]
        try:
            values = [getattr(settings, name) for name in names]
            self._settings = CSampling(*values, len(biases), ctypes.addressof(self._biases))
        except (TypeError, OverflowError) as error:
            raise UsageError(f"settings of the choice of tokens: {error}") from error
        fault = self._library.dk_sampling_fault(ctypes.byref(self._settings))
        if fault is not None:
            name = fault.decode()
            raise UsageError(f"{name} is {getattr(settings, name)!r:.40}, which is not possible")
        self._last = settings.penalty_last
        self._random = ctypes.c_uint64(settings.seed)
        self._workspace = np.empty(self._library.dk_sample_bytes(words) // 8, np.int64)

    def choose(
        self, scores: np.ndarray, earlier: Sequence[int] | np.ndarray, guess: tuple[int, np.ndarray] | None = None
    ) -> tuple[int, float]:
        """The next token after `earlier`, and the logarithm of its probability. `scores` are (words). A `guess` is a
        token with the probabilities (words) that it was drawn by: it is chosen more often, and every token as often as
        without it. Raises `DataError` if no token is possible."""
        given, seen, choice = self._scores(scores), self._seen(earlier), CChoice()
        places = self._places(given, seen)
        more = ctypes.byref(self._random), self._workspace.ctypes.data, ctypes.byref(choice)
        if guess is None:
            status = self._library.dk_sample(*places, *more)
        else:
            token, chances = guess
            status = self._library.dk_confirm(*places, token, chances.ctypes.data, *more)
        self._check(status)
        return int(choice.token), float(choice.logprob)

    def probabilities(self, scores: np.ndarray, earlier: Sequence[int] | np.ndarray) -> np.ndarray:
        """The probabilities (words) with which `choose` takes each token. Raises `DataError` if none is possible."""
        given, seen = self._scores(scores), self._seen(earlier)
        found = np.empty(self._words, np.float32)
        places = self._workspace.ctypes.data, found.ctypes.data
        self._check(self._library.dk_probabilities(*self._places(given, seen), *places))
        return found

    def _scores(self, scores: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(scores, np.float32)

    def _seen(self, earlier: Sequence[int] | np.ndarray) -> np.ndarray:
        """The tokens that penalties look at."""
        start = 0 if self._last < 0 else max(len(earlier) - self._last, 0)
        return np.asarray(earlier[start:], np.int32)

    def _places(self, scores: np.ndarray, seen: np.ndarray) -> tuple[Any, ...]:
        return ctypes.byref(self._settings), scores.ctypes.data, self._words, seen.ctypes.data, len(seen)

    def _check(self, status: int) -> None:
        if status:
            raise DataError("no token is possible: the model gave scores that are no numbers, or all were ruled out")


def log_sum(scores: np.ndarray) -> float:
    """What is subtracted from the scores (words) of tokens for the logarithms of their probabilities."""
    given = np.ascontiguousarray(scores, np.float32)
    return float(library().dk_log_sum(given.ctypes.data, len(given)))
