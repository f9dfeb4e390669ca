"""Inputs to try a model with: an array from a file, or random numbers that are the same on every machine.

    x=photo.npy            the array in the file
    x=random:7             random numbers from seed 7: standard normal floats, integers 0 and 1
    ids=random:7:0..30522  random numbers in that range, both ends included for integers

Integers are 0 or 1 unless a range is given, because indices, masks and segment numbers all accept these.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deploykit.errors import UsageError

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
_RANDOM = re.compile(rf"random:(?P<seed>\d+)(?::(?P<low>{_NUMBER})\.\.(?P<high>{_NUMBER}))?", re.IGNORECASE)
_HOW = "write NAME=FILE.npy, NAME=random:SEED or NAME=random:SEED:LOW..HIGH"


@dataclass(frozen=True)
class RandomSource:
    """Random numbers; `low` and `high` bound them where given."""

    seed: int = 0
    low: float | None = None
    high: float | None = None

    def array(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
        """An array of that dtype and shape; the same arguments always give the same values."""
        generator = np.random.default_rng(self.seed)
        if _is_float(dtype):
            if self.low is None or self.high is None:
                return np.asarray(generator.standard_normal(shape, dtype=np.float32)).astype(dtype)
            return np.asarray(generator.uniform(self.low, self.high, shape)).astype(dtype)
        low, high = (0, 1) if self.low is None or self.high is None else (int(self.low), int(self.high))
        return np.asarray(generator.integers(low, high, shape, endpoint=True)).astype(dtype)


@dataclass(frozen=True)
class FileSource:
    """The array in a `.npy` file. Dtype and shape are checked by the model that it is given to."""

    path: Path

    def array(self, dtype: np.dtype[Any]) -> np.ndarray:
        """Read the file. Raw bits (how NumPy saves bfloat16 and the like) are taken as `dtype`.

        Raises:
            UsageError: the file cannot be read, or is not one array of numbers.
        """
        try:
            array = np.load(self.path, allow_pickle=False)
        except OSError as error:
            raise UsageError(f"cannot read {self.path}: {error.strerror or error}") from error
        except (ValueError, EOFError) as error:
            raise UsageError(f"{self.path} is not a NumPy file of numbers: {error}") from error
        if not isinstance(array, np.ndarray):
            raise UsageError(f"{self.path} holds several arrays; give one .npy file for each input")
        if array.dtype.kind == "V" and array.dtype.itemsize == dtype.itemsize:
            return array.view(dtype)
        return array


Source = RandomSource | FileSource


def parse_source(text: str) -> tuple[str, Source]:
    """The input's name and where its values come from. Raises `UsageError` when `text` is malformed."""
    name, separator, value = text.partition("=")
    if not separator or not name or not value:
        raise UsageError(f"cannot read the input '{text}': {_HOW}")
    match = _RANDOM.fullmatch(value)
    if match:
        low, high = match["low"], match["high"]
        if low is not None and float(low) > float(high):
            raise UsageError(f"input '{name}': the range {low}..{high} is empty")
        return name, RandomSource(int(match["seed"]), float(low) if low else None, float(high) if high else None)
    if value.startswith("random"):
        raise UsageError(f"cannot read '{value}' of input '{name}': {_HOW}")
    return name, FileSource(Path(value))


def _is_float(dtype: np.dtype[Any]) -> bool:
    """Whether the dtype is a float, those of ml_dtypes included."""
    return dtype.kind not in "biu" and "int" not in dtype.name
