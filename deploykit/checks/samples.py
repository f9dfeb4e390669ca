"""Inputs to try a model with: an array from a file, or random numbers that are the same on every machine.

    x=photo.npy            the array in the file
    x=random:7             random numbers from seed 7: standard normal floats, integers 0 and 1
    ids=random:7:0..30522  random numbers in that range, both ends included for integers
    words=cat,dog          strings, of a vector; words=["a,b", "c"], a JSON array, has them of any rank and with commas
    words=words.json       strings in a file that holds a JSON array; or in a .npy file, of a NumPy dtype `str`
    x=both.npz             a sequence: the arrays of the file that are called x_0, x_1, ... or arr_0, arr_1, ...
    x_1=photo.npy          one item of a sequence

Random strings have 8 bytes each in the mean, or as many in all as the dim of their bytes (`words_utf8`) is given.
Integers are 0 or 1 unless a range is given, because indices, masks and segment numbers all accept these.
"""

from __future__ import annotations

import json
import math
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from deploykit.artifact.manifest import DimEntry, Manifest, PortEntry
from deploykit.dtypes import logical_dtype
from deploykit.errors import ShapeError, UsageError
from deploykit.strings import random_strings
from deploykit.structure import Structure, assembled, parts, taken_apart

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
_RANDOM = re.compile(rf"random:(?P<seed>\d+)(?::(?P<low>{_NUMBER})\.\.(?P<high>{_NUMBER}))?", re.IGNORECASE)
_MEAN_BYTES = 8
_FILES = (".npy", ".npz", ".json")
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

    def strings(self, shape: tuple[int, ...], size: int) -> np.ndarray:
        """Strings of `size` bytes in all; the same arguments always give the same ones."""
        return random_strings(np.random.default_rng(self.seed), shape, size)


@dataclass(frozen=True)
class FileSource:
    """The array in a `.npy` file, or that of a `.npz` file that has the first of the names `members` there is. Dtype
    and shape are checked by the model that it is given to."""

    path: Path
    members: tuple[str, ...] = ()

    def array(self, dtype: np.dtype[Any]) -> np.ndarray:
        """Read the file. Raw bits (how NumPy saves bfloat16 and the like) are taken as `dtype`.

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
        """The file's strings. Raises `UsageError` like `array`, and for a .json file that is none."""
        if self.path.suffix == ".json":
            try:
                return _from_json(self.path.read_text(encoding="utf-8"), str(self.path))
            except (OSError, UnicodeDecodeError) as error:
                raise UsageError(f"cannot read {self.path}: {error}") from error
        array = self.array(np.dtype(object))
        return np.char.decode(array, "utf-8", "replace") if array.dtype.kind == "S" else array

    def _member(self, names: list[str]) -> str:
        for name in self.members:
            if name in names:
                return name
        wanted, found = " or ".join(self.members), ", ".join(names) or "none"
        raise UsageError(f"{self.path} has no array called {wanted}, only {found}: rename one, or give a .npy file")


@dataclass(frozen=True)
class TextSource:
    """The strings of a vector, with commas between them, or a JSON array. For numbers it is the path of a file."""

    text: str

    def strings(self, name: str, rank: int) -> np.ndarray:
        """Raises `UsageError` where the text does not say which array it is."""
        if self.text.startswith("["):
            return _from_json(self.text, f"the text of input '{name}'")
        if rank > 1:
            raise UsageError(f"input '{name}' has rank {rank}: write its strings as a JSON array of arrays")
        return np.array(self.text if rank == 0 else self.text.split(","), object)


Source = RandomSource | FileSource | TextSource


def _from_json(text: str, where: str) -> np.ndarray:
    try:
        return np.array(json.loads(text), object)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where} is no JSON array of strings: {error}") from error


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
        if low is not None and not math.isfinite(float(high) - float(low)):
            raise UsageError(f"input '{name}': the range {low}..{high} is wider than numbers are")
        return name, RandomSource(int(match["seed"]), float(low) if low else None, float(high) if high else None)
    if value.startswith("random"):
        raise UsageError(f"cannot read '{value}' of input '{name}': {_HOW}")
    return name, FileSource(Path(value)) if value.endswith(_FILES) else TextSource(value)


def parse_sources(texts: Iterable[str]) -> dict[str, Source]:
    """By input name. Raises `UsageError` when one is malformed or an input is given twice."""
    sources: dict[str, Source] = {}
    for text in texts:
        name, source = parse_source(text)
        if name in sources:
            raise UsageError(f"input '{name}' is given twice")
        sources[name] = source
    return sources


@dataclass(frozen=True)
class _Part:
    """A tensor that an input consists of, or a tensor of strings, whose bytes the port `utf8` has."""

    owner: str
    port: PortEntry
    utf8: PortEntry | None
    siblings: int

    @property
    def name(self) -> str:
        return self.port.name


def _parts(manifest: Manifest) -> Iterator[_Part]:
    ports = iter(manifest.inputs)
    for structure in manifest.taken:
        found = list(parts(structure))
        for part in found:
            port = next(ports)
            yield _Part(structure.name, port, next(ports) if part.kind == "string" else None, len(found))


def random_for_others(manifest: Manifest, sources: Mapping[str, Source], seed: int = 0) -> dict[str, Source]:
    """Values of every input: what `sources` leaves out is random, each from a seed of its own."""
    given = dict(sources)
    for offset, part in enumerate(_parts(manifest)):
        if part.owner not in sources:
            given.setdefault(part.name, RandomSource(seed + offset))
    return given


def sample_inputs(
    manifest: Manifest, sources: Mapping[str, Source], sizes: Mapping[str, int]
) -> tuple[dict[str, Any], dict[str, int]]:
    """All inputs of a model by name, and the size of every symbolic dim that they have.

    A source is for an input, or for one item of a sequence. A dim has the size in `sizes`, else that of the arrays
    which are given, else its minimum; the bytes of random strings are `_MEAN_BYTES` for each.

    Raises:
        UsageError: an input has no source, a source or size has no input, a file cannot be read, or `sizes` is out of
            a dim's bounds.
        ShapeError: an element is no string where one is expected.
    """
    found = list(_parts(manifest))
    given = _source_of_each(manifest, found, sources)
    dims = _checked_sizes(manifest, sizes)
    arrays = {}
    for part in found:
        source = given[part.name]
        if not isinstance(source, RandomSource):
            arrays[part.name] = _read(part, source)
            _take_sizes(part, arrays[part.name], dims)
    texts = text_dims(manifest)
    for dim in symbolic_dims(manifest):
        if dim.name not in texts:
            dims.setdefault(dim.name, dim.minimum)
    bounds = {dim.name: dim for dim in symbolic_dims(manifest)}
    for part in found:
        source = given[part.name]
        if isinstance(source, RandomSource):
            arrays[part.name] = _random(part, source, dims, bounds)
    values = iter([arrays[part.name] for part in found])
    return {structure.name: assembled(structure, values) for structure in manifest.taken}, dims


def text_dims(manifest: Manifest) -> frozenset[str]:
    """The dims that are numbers of bytes of strings."""
    return frozenset(str(part.utf8.shape[0]) for part in _parts(manifest) if part.utf8)


def _source_of_each(manifest: Manifest, found: list[_Part], sources: Mapping[str, Source]) -> dict[str, Source]:
    """By the names of parts. Raises `UsageError` for a source of nothing, and a part without source."""
    values = {structure.name: structure for structure in manifest.taken}
    known = dict.fromkeys((*values, *(part.name for part in found)))
    for name in sources:
        if name not in known:
            raise UsageError(f"there is no input '{name}'; the model has {', '.join(known) or 'none'}")
        if name in values and values[name].kind == "nothing":
            raise UsageError(
                f"input '{name}' is an optional that was built as absent: build with --dim {name}_present=1"
            )
    given: dict[str, Source] = {}
    position: dict[str, int] = {}
    for part in found:
        index = position[part.owner] = position.get(part.owner, -1) + 1
        if part.name in sources:
            given[part.name] = _share(replace(part, siblings=1), sources[part.name], 0)
        elif part.owner in sources:
            given[part.name] = _share(part, sources[part.owner], index)
        else:
            raise UsageError(f"input '{part.name}' has no values; {_how(part)}")
    return given


def _how(part: _Part) -> str:
    if part.utf8 is not None:
        return f"write {part.name}=cat,dog, {part.name}=FILE.json, {part.name}=FILE.npy or {part.name}=random:SEED"
    return _HOW.replace("NAME", part.name)


def _share(part: _Part, source: Source, index: int) -> Source:
    """What a part takes of a source that is for the whole input."""
    if isinstance(source, RandomSource):
        return replace(source, seed=source.seed + index)
    if isinstance(source, FileSource) and source.path.suffix == ".npz":
        return replace(source, members=(part.name, f"arr_{index}"))
    if part.siblings > 1:
        raise UsageError(
            f"input '{part.owner}' is a sequence of {part.siblings} items: give a .npz file with arrays called "
            f"{part.owner}_0 to {part.owner}_{part.siblings - 1}, or each by its name, such as --input {part.name}=..."
        )
    return source


def _read(part: _Part, source: FileSource | TextSource) -> np.ndarray:
    if part.utf8 is None:
        file = FileSource(Path(source.text)) if isinstance(source, TextSource) else source
        return file.array(logical_dtype(part.port.dtype).array)
    if isinstance(source, TextSource):
        return source.strings(part.name, len(part.port.shape))
    array = source.strings()
    return array.astype(object) if array.dtype.kind in "US" else array


def _take_sizes(part: _Part, array: np.ndarray, dims: dict[str, int]) -> None:
    """Set the dims that an array has and that have no size yet."""
    taken = [(part.port, array.shape)]
    if part.utf8 is not None:
        _spans, data = taken_apart(Structure(part.name, "string"), array)
        taken.append((part.utf8, data.shape))
    for port, shape in taken:
        for extent, size in zip(port.shape, shape, strict=False):
            if isinstance(extent, str):
                dims.setdefault(extent, size)


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


def _random(part: _Part, source: RandomSource, dims: dict[str, int], bounds: Mapping[str, DimEntry]) -> np.ndarray:
    shape = tuple(extent if isinstance(extent, int) else dims[extent] for extent in part.port.shape)
    try:
        if part.utf8 is None:
            return source.array(logical_dtype(part.port.dtype).array, shape)
        if source.low is not None:
            raise UsageError(f"input '{part.name}' is strings, which have no range: write {part.name}=random:SEED")
        (size,) = part.utf8.shape
        if isinstance(size, str):
            dims.setdefault(size, _within(bounds[size], _MEAN_BYTES * math.prod(shape)))
            size = dims[size]
        return source.strings(shape, size)
    except (MemoryError, ValueError) as error:  # NumPy has a largest dim
        text = ", ".join(map(str, shape))
        raise UsageError(
            f"input '{part.name}': there is no memory for [{text}] elements: choose smaller dims"
        ) from error


def _within(dim: DimEntry, size: int) -> int:
    return max(dim.minimum, size if dim.maximum is None else min(size, dim.maximum))


def _is_float(dtype: np.dtype[Any]) -> bool:
    """Whether the dtype is a float, those of ml_dtypes included."""
    return dtype.kind not in "biu" and "int" not in dtype.name
