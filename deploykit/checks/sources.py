"""Where the values of an input come from: an array, a file, or random numbers that are the same on every machine.

    x=photo.npy            the array in the file
    x=random:7             random numbers from seed 7: standard normal floats, integers 0 and 1
    ids=random:7:0..30522  random numbers in that range, both ends included for integers
    words=cat,dog          a vector of strings; a JSON array, words=["a,b", "c"], allows any rank, and commas in strings
    words=words.json       strings in a file with a JSON array, or in a .npy file of NumPy dtype `str`
    x=both.npz             a sequence: the arrays of the file with the names x_0, x_1, ... or arr_0, arr_1, ...
    x_1=photo.npy          one item of a sequence
    x=tokens.npz           a ragged input: the values are the array x or values, the lengths are x_lengths or lengths

These are the forms of the command line. In Python the part after `=` is given as a text, or as the value itself.
Random integers are 0 or 1 unless a range is given, because indices, masks and segment numbers all accept these.
"""

from __future__ import annotations

import json
import math
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from deploykit.errors import UsageError
from deploykit.sessions.ragged_array import Ragged
from deploykit.sessions.strings import random_strings

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
_RANDOM = re.compile(rf"random:(?P<seed>\d+)(?::(?P<low>{_NUMBER})\.\.(?P<high>{_NUMBER}))?", re.IGNORECASE)
_FILES = (".npy", ".npz", ".json")
HOW = "write NAME=FILE.npy, NAME=random:SEED or NAME=random:SEED:LOW..HIGH"


@dataclass(frozen=True)
class RandomSource:
    """Random numbers, between `low` and `high` if these are given."""

    seed: int = 0
    low: float | None = None
    high: float | None = None

    def array(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
        """An array of this dtype and shape; the same arguments always give the same values."""
        generator = np.random.default_rng(self.seed)
        if _is_float(dtype):
            if self.low is None or self.high is None:
                return np.asarray(generator.standard_normal(shape, dtype=np.float32)).astype(dtype)
            return np.asarray(generator.uniform(self.low, self.high, shape)).astype(dtype)
        low, high = (0, 1) if self.low is None or self.high is None else (int(self.low), int(self.high))
        return np.asarray(generator.integers(low, high, shape, endpoint=True)).astype(dtype)

    def strings(self, shape: tuple[int, ...], size: int) -> np.ndarray:
        """Strings with `size` bytes in total; the same arguments always give the same strings."""
        return random_strings(np.random.default_rng(self.seed), shape, size)


@dataclass(frozen=True)
class FileSource:
    """The array in a `.npy` file, or in a `.npz` file: there, the first of the names `members` that exists. The model
    that takes the array checks dtype and shape."""

    path: Path
    members: tuple[str, ...] = ()

    def array(self, dtype: np.dtype[Any]) -> np.ndarray:
        """Read the file. Raw bits, which is how NumPy saves bfloat16 and the like, are read as `dtype`.

        Raises:
            UsageError: the file cannot be read, or is not one array of numbers.
        """
        try:
            array: Any = np.load(self.path, allow_pickle=False)
            if not isinstance(array, np.ndarray):
                with array as archive:
                    array = archive[self._member(archive.files)]
        except OSError as error:
            raise UsageError(f"cannot read {self.path}: {error.strerror or error}") from error
        except (ValueError, EOFError, zipfile.BadZipFile) as error:
            raise UsageError(f"{self.path} is not a NumPy file of numbers or strings: {error}") from error
        if array.dtype.kind == "V" and array.dtype.itemsize == dtype.itemsize:
            array = array.view(dtype)
        return np.asarray(array)

    def strings(self) -> np.ndarray:
        """The file's strings. Raises `UsageError` like `array`, and for a .json file without a JSON array."""
        if self.path.suffix == ".json":
            try:
                return _from_json(self.path.read_text(encoding="utf-8"), str(self.path))
            except (OSError, UnicodeDecodeError) as error:
                raise UsageError(f"cannot read {self.path}: {error}") from error
        array = self.array(np.dtype(object))
        return np.char.decode(array, "utf-8", "replace") if array.dtype.kind == "S" else array

    def ragged(self, name: str, dtype: np.dtype[Any]) -> Ragged:
        """The instances of the ragged input `name` in a .npz file: their values are the array of this name, or
        `values`, and their lengths the array with `_lengths` behind the name, or `lengths`.

        Raises `UsageError` like `array`, and `ShapeError` if values and lengths do not fit together."""
        values = replace(self, members=(name, "values")).array(dtype)
        return Ragged(values, replace(self, members=(f"{name}_lengths", "lengths")).array(np.dtype(np.int64)))

    def _member(self, names: list[str]) -> str:
        for name in self.members:
            if name in names:
                return name
        wanted, found = " or ".join(self.members), ", ".join(names) or "none"
        raise UsageError(f"{self.path} has no array called {wanted}, only {found}: rename one, or give a .npy file")


@dataclass(frozen=True)
class TextSource:
    """Strings as a text: a vector, with commas between its elements, or a JSON array. For numbers: a file's path."""

    text: str

    def strings(self, name: str, rank: int) -> np.ndarray:
        """The array of strings for input `name`. Raises `UsageError` if the text does not give one of this rank."""
        if self.text.startswith("["):
            return _from_json(self.text, f"the text of input '{name}'")
        if rank > 1:
            raise UsageError(f"input '{name}' has rank {rank}: write its strings as a JSON array of arrays")
        return np.array(self.text if rank == 0 else self.text.split(","), object)


@dataclass(frozen=True)
class ArraySource:
    """A value as a session takes it: an array or numbers for one; for a sequence, a list of these."""

    value: Any


Source: TypeAlias = RandomSource | FileSource | TextSource | ArraySource

Input: TypeAlias = str | Path | ArrayLike | Sequence[ArrayLike] | Ragged | Source
"""The values of an input as a caller gives them."""


def _from_json(text: str, where: str) -> np.ndarray:
    try:
        return np.array(json.loads(text), object)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where} is no JSON array of strings: {error}") from error


def read_inputs(inputs: Mapping[str, Input]) -> dict[str, Source]:
    """The source of each input, by name, from what a caller gives: a text as after `NAME=` on the command line, the
    path of a file, or a value. Raises `UsageError` if a text is malformed."""
    return {name: _read_input(name, given) for name, given in inputs.items()}


def _read_input(name: str, given: Input) -> Source:
    if isinstance(given, RandomSource | FileSource | TextSource | ArraySource):
        return given
    if isinstance(given, Path):
        return FileSource(given)
    return _source(name, given) if isinstance(given, str) else ArraySource(given)


def _source(name: str, value: str) -> Source:
    """The source for the text `value` of input `name`. Raises `UsageError` if it is malformed."""
    match = _RANDOM.fullmatch(value)
    if match:
        low, high = match["low"], match["high"]
        if low is not None and float(low) > float(high):
            raise UsageError(f"input '{name}': the range {low}..{high} is empty")
        if low is not None and not math.isfinite(float(high) - float(low)):
            raise UsageError(f"input '{name}': the range {low}..{high} is wider than the largest number")
        return RandomSource(int(match["seed"]), float(low) if low else None, float(high) if high else None)
    if value.startswith("random"):
        raise UsageError(f"cannot read '{value}' of input '{name}': {HOW}")
    return FileSource(Path(value)) if value.endswith(_FILES) else TextSource(value)


def parse_sources(texts: Iterable[str]) -> dict[str, Source]:
    """Parse texts like `x=random:7` into sources by input name.

    Raises `UsageError` if a text is malformed or an input is given twice."""
    sources: dict[str, Source] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not name or not value:
            raise UsageError(f"cannot read the input '{text}': {HOW}")
        if name in sources:
            raise UsageError(f"input '{name}' is given twice")
        sources[name] = _source(name, value)
    return sources


def _is_float(dtype: np.dtype[Any]) -> bool:
    """Whether the dtype is a float, those of ml_dtypes included."""
    return dtype.kind not in "biu" and "int" not in dtype.name
