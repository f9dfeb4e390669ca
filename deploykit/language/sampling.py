"""How the next token is chosen, as `runtime/language/sampling.c` does it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

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

    def choose(self, scores: np.ndarray, earlier: Sequence[int] | np.ndarray) -> tuple[int, float]:
        """The next token after `earlier`, and the logarithm of its probability. `scores` are (words). Raises
        `DataError` if no token is possible."""
        given = np.ascontiguousarray(scores, np.float32)
        start = 0 if self._last < 0 else max(len(earlier) - self._last, 0)
        seen = np.asarray(earlier[start:], np.int32)
        choice = CChoice()
        status = self._library.dk_sample(
            *(ctypes.byref(self._settings), given.ctypes.data, self._words, seen.ctypes.data, len(seen)),
            *(ctypes.byref(self._random), self._workspace.ctypes.data, ctypes.byref(choice)),
        )
        if status:
            raise DataError("no token is possible: the model gave scores that are no numbers, or all were ruled out")
        return int(choice.token), float(choice.logprob)


def log_sum(scores: np.ndarray) -> float:
    """What is subtracted from the scores (words) of tokens for the logarithms of their probabilities."""
    given = np.ascontiguousarray(scores, np.float32)
    return float(library().dk_log_sum(given.ctypes.data, len(given)))
