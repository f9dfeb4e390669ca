"""Inputs to try a model with: an array from a file, or random numbers that are the same on every machine.

    x=photo.npy            the array in the file
    x=random:7             random numbers from seed 7: standard normal floats, integers 0 and 1
    ids=random:7:0..30522  random numbers in that range, both ends included for integers

Integers are 0 or 1 unless a range is given, because indices, masks and segment numbers all accept these.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deploykit.dtypes import logical_dtype
from deploykit.errors import ShapeError, UsageError
from deploykit.manifest import DimEntry, Manifest, PortEntry

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


def parse_sources(texts: Iterable[str]) -> dict[str, Source]:
    """By input name. Raises `UsageError` when one is malformed or an input is given twice."""
    sources: dict[str, Source] = {}
    for text in texts:
        name, source = parse_source(text)
        if name in sources:
            raise UsageError(f"input '{name}' is given twice")
        sources[name] = source
    return sources


def sample_inputs(
    manifest: Manifest, sources: Mapping[str, Source], sizes: Mapping[str, int]
) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """All inputs of a model by name, and the size of every symbolic dim that they have.

    A dim has the size in `sizes`, else that of the files which have it, else its minimum.

    Raises:
        UsageError: an input has no source, a source or size has no input, a file cannot be read, or `sizes` is out of
            a dim's bounds.
    """
    ports = {port.name: port for port in manifest.inputs}
    for name in sources:
        if name not in ports:
            raise UsageError(f"there is no input '{name}'; the model has {', '.join(ports) or 'none'}")
    for name in ports:
        if name not in sources:
            raise UsageError(f"input '{name}' has no values; {_HOW.replace('NAME', name)}")
    dims = _checked_sizes(manifest, sizes)
    files = {
        name: source.array(logical_dtype(ports[name].dtype).array)
        for name, source in sources.items()
        if isinstance(source, FileSource)
    }
    for name, array in files.items():
        for extent, size in zip(ports[name].shape, array.shape, strict=False):
            if isinstance(extent, str):
                dims.setdefault(extent, size)
    for dim in symbolic_dims(manifest):
        dims.setdefault(dim.name, dim.minimum)
    arrays = {}
    for name, port in ports.items():
        source = sources[name]
        arrays[name] = files[name] if isinstance(source, FileSource) else _random(port, source, dims)
    return arrays, dims


def symbolic_dims(manifest: Manifest) -> tuple[DimEntry, ...]:
    """The dims that inputs have."""
    return tuple(dim for dim in manifest.dims if dim.capacity_of is None)


def _checked_sizes(manifest: Manifest, sizes: Mapping[str, int]) -> dict[str, int]:
    known = {dim.name: dim for dim in symbolic_dims(manifest)}
    for name, size in sizes.items():
        if name not in known:
            raise UsageError(f"there is no symbolic dim '{name}'; the model has {', '.join(known) or 'none'}")
        dim = known[name]
        if size < dim.minimum or (dim.maximum is not None and size > dim.maximum):
            upper = "" if dim.maximum is None else dim.maximum
            raise ShapeError(f"dim '{name}' must be in {dim.minimum}..{upper}, found {size}")
    return dict(sizes)


def _random(port: PortEntry, source: RandomSource, dims: Mapping[str, int]) -> np.ndarray:
    shape = tuple(extent if isinstance(extent, int) else dims[extent] for extent in port.shape)
    return source.array(logical_dtype(port.dtype).array, shape)


def _is_float(dtype: np.dtype[Any]) -> bool:
    """Whether the dtype is a float, those of ml_dtypes included."""
    return dtype.kind not in "biu" and "int" not in dtype.name
