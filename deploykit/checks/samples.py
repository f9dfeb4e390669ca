"""Makes all inputs of a model for one run from given values, random values and the sizes of dims.

A dim has the size that is asked for, else the size in the given arrays, else its minimum. Random strings have 8 bytes
each on average; if their dim of bytes (such as `words_utf8`) is given, they have that many bytes in total. For ragged
inputs see `lengths`: the lengths need no source, and are random where no input tells them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from deploykit.artifact.manifest import DimEntry, Manifest, PortEntry
from deploykit.artifact.tasks import STEP
from deploykit.basics.dtypes import as_array, logical_dtype
from deploykit.basics.sizes import whole
from deploykit.checks.lengths import derived_dims, draw, longest_dims, note_sizes
from deploykit.checks.sources import HOW, ArraySource, FileSource, RandomSource, Source, TextSource
from deploykit.errors import ShapeError, UsageError
from deploykit.sessions.ragged_ports import RaggedPorts, extents, ragged_ports, unpacked
from deploykit.sessions.structure import Structure, assembled, parts, taken_apart

_MEAN_BYTES = 8


@dataclass(frozen=True)
class _Part:
    """One tensor of an input, which belongs to the input `owner`. A tensor of strings has its bytes in the port `utf8`.
    `siblings` is the number of tensors of the input; `listed` says whether the input is a sequence."""

    owner: str
    port: PortEntry
    utf8: PortEntry | None
    siblings: int
    listed: bool

    @property
    def name(self) -> str:
        return self.port.name


def _parts(manifest: Manifest) -> Iterator[_Part]:
    ports = iter(manifest.inputs)
    for structure in manifest.taken:
        found = list(parts(structure))
        listed = structure.kind == "sequence" or any(item.kind == "sequence" for item in structure.items)
        for part in found:
            port = next(ports)
            yield _Part(structure.name, port, next(ports) if part.kind == "string" else None, len(found), listed)


def random_for_others(manifest: Manifest, sources: Mapping[str, Source], seed: int = 0) -> dict[str, Source]:
    """A source for every input: those that `sources` leaves out are random, each with its own seed. A step of a
    language model has random tokens, all in the first place of the first page, which is there at every size."""
    given = dict(sources)
    places = STEP[1:] if tuple(port.name for port in manifest.inputs) == STEP else ()
    for offset, part in enumerate(_parts(manifest)):
        if part.owner not in sources:
            most = 0 if part.name in places else None
            given.setdefault(part.name, RandomSource(seed + offset, most, most))
    return given


def sample_inputs(
    manifest: Manifest, sources: Mapping[str, Source], sizes: Mapping[str, int]
) -> tuple[dict[str, Any], dict[str, int]]:
    """All inputs of a model by name, and the sizes of all symbolic dims in them.

    A source belongs to an input, or to one item of a sequence.

    Raises:
        UsageError: an input has no source, a source or size has no input, or a file cannot be read.
        ShapeError: a size is out of its dim's bounds, or an element is not a string where one is expected.
    """
    found = list(_parts(manifest))
    given = _source_of_each(manifest, found, sources)
    dims = _checked_sizes(manifest, sizes)
    arrays = _given_arrays(manifest, found, given, dims)
    ports = ragged_ports(manifest)
    if ports is not None:
        arrays |= _random_lengths(manifest, ports, arrays, given, dims)
    later = dims_of_contents(manifest)
    for dim in _dims_of_inputs(manifest):
        if dim.name not in later:
            dims.setdefault(dim.name, dim.minimum)
    if ports is not None:
        note_sizes(manifest, ports, {name: arrays[name] for name in ports.lengths if name in arrays}, dims)
        unpacked(ports, arrays)
    bounds = {dim.name: dim for dim in symbolic_dims(manifest)}
    for part in found:
        source = given.get(part.name)
        if part.name not in arrays and isinstance(source, RandomSource):
            arrays[part.name] = _random(part, source, dims, bounds)
    values = iter([arrays[part.name] for part in found])
    return {structure.name: assembled(structure, values) for structure in manifest.taken}, dims


def given_sizes(manifest: Manifest, sources: Mapping[str, Source]) -> dict[str, int]:
    """The sizes of the dims of those inputs that are not random. Raises what `sample_inputs` raises."""
    found = list(_parts(manifest))
    dims: dict[str, int] = {}
    _given_arrays(manifest, found, _source_of_each(manifest, found, sources), dims)
    return dims


def _given_arrays(
    manifest: Manifest, found: list[_Part], given: Mapping[str, Source], dims: dict[str, int]
) -> dict[str, np.ndarray]:
    """The arrays that are not random, by name, and the lengths that they tell. Their sizes are added to `dims`, if not
    there yet."""
    ports = ragged_ports(manifest)
    ragged = {port.name for port in ports.inputs} | ports.lengths.keys() if ports else set()
    arrays: dict[str, Any] = {}
    for part in found:
        source = given.get(part.name)
        if source is not None and not isinstance(source, RandomSource):
            arrays[part.name] = _read_ragged(part, source) if part.name in ragged else _read(part, source)
    if ports is not None:
        arrays = unpacked(ports, arrays, complete=False)
    for part in found:
        if part.name in arrays:
            if part.name in ragged:
                arrays[part.name] = as_array(part.name, arrays[part.name], logical_dtype(part.port.dtype).array)
            _take_sizes(part, arrays[part.name], dims)
    if ports is not None:
        note_sizes(manifest, ports, {name: arrays[name] for name in ports.lengths if name in arrays}, dims)
    return arrays


def _random_lengths(
    manifest: Manifest,
    ports: RaggedPorts,
    arrays: Mapping[str, np.ndarray],
    given: Mapping[str, Source],
    dims: dict[str, int],
) -> dict[str, np.ndarray]:
    """Lengths that no input tells. Those of given raw values are random only if they have a random source."""
    found = {}
    for name in ports.lengths:
        source = given.get(name)
        raw = any(name in extents(port) for port in ports.inputs if port.name in arrays)
        if name not in arrays and (isinstance(source, RandomSource) or not raw):
            chosen = source if isinstance(source, RandomSource) else RandomSource()
            found[name] = draw(manifest, ports, name, chosen, dims)
    return found


def dims_of_contents(manifest: Manifest, chosen: Collection[str] = ()) -> frozenset[str]:
    """The sizes that follow from the contents of inputs, where only those in `chosen` are chosen: the bytes of strings,
    and what `lengths.derived_dims` says."""
    texts = {str(part.utf8.shape[0]) for part in _parts(manifest) if part.utf8}
    ports = ragged_ports(manifest)
    return (frozenset(texts) | (derived_dims(manifest, ports, chosen) if ports else frozenset())) - frozenset(chosen)


def _source_of_each(manifest: Manifest, found: list[_Part], sources: Mapping[str, Source]) -> dict[str, Source]:
    """The source of each part, by name. Raises `UsageError` for a source without input, or a part without source."""
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
            given[part.name] = _share(replace(part, siblings=1, listed=False), sources[part.name], 0)
        elif part.owner in sources:
            given[part.name] = _share(part, sources[part.owner], index)
        elif not _is_lengths(manifest, part):
            raise UsageError(f"input '{part.name}' has no values; {_how(part)}")
    return given


def _is_lengths(manifest: Manifest, part: _Part) -> bool:
    ports = ragged_ports(manifest)
    return ports is not None and part.name in ports.lengths


def _how(part: _Part) -> str:
    if part.utf8 is not None:
        return f"write {part.name}=cat,dog, {part.name}=FILE.json, {part.name}=FILE.npy or {part.name}=random:SEED"
    return HOW.replace("NAME", part.name)


def _share(part: _Part, source: Source, index: int) -> Source:
    """The source for one part, taken from a source for the whole input."""
    if isinstance(source, RandomSource):
        return replace(source, seed=source.seed + index)
    if isinstance(source, FileSource) and source.path.suffix == ".npz":
        return replace(source, members=(part.name, f"arr_{index}"))
    if isinstance(source, ArraySource) and part.listed:
        if not isinstance(source.value, list | tuple) or len(source.value) != part.siblings:
            raise UsageError(f"input '{part.owner}' is a sequence of {part.siblings} items: give a list of as many")
        return ArraySource(source.value[index])
    if part.siblings > 1:
        raise UsageError(
            f"input '{part.owner}' is a sequence of {part.siblings} items: give a .npz file with arrays called "
            f"{part.owner}_0 to {part.owner}_{part.siblings - 1}, or each by its name, such as --input {part.name}=..."
        )
    return source


def _read(part: _Part, source: FileSource | TextSource | ArraySource) -> np.ndarray:
    if isinstance(source, ArraySource):
        dtype = logical_dtype(part.port.dtype).array if part.utf8 is None else np.dtype(object)
        return as_array(part.name, source.value, dtype)
    if part.utf8 is None:
        file = FileSource(Path(source.text)) if isinstance(source, TextSource) else source
        return file.array(logical_dtype(part.port.dtype).array)
    if isinstance(source, TextSource):
        return source.strings(part.name, len(part.port.shape))
    array = source.strings()
    return array.astype(object) if array.dtype.kind in "US" else array


def _read_ragged(part: _Part, source: FileSource | TextSource | ArraySource) -> Any:
    """The values of a ragged input, or of one with lengths, as a session takes them."""
    if isinstance(source, ArraySource):
        return source.value
    if isinstance(source, FileSource) and source.path.suffix == ".npz":
        return source.ragged(part.name, logical_dtype(part.port.dtype).array)
    return _read(part, source)


def _take_sizes(part: _Part, array: np.ndarray, dims: dict[str, int]) -> None:
    """Add the sizes of an array to `dims`, if not there yet."""
    taken = [(part.port, array.shape)]
    if part.utf8 is not None:
        _spans, data = taken_apart(Structure(part.name, "string"), array)
        taken.append((part.utf8, data.shape))
    for port, shape in taken:
        for extent, size in zip(port.shape, shape, strict=False):
            if isinstance(extent, str):
                dims.setdefault(extent, size)


def symbolic_dims(manifest: Manifest) -> tuple[DimEntry, ...]:
    """The dims that inputs have, and the longest lengths of ragged inputs."""
    ports = ragged_ports(manifest)
    longest = longest_dims(manifest, ports).values() if ports else ()
    return (*_dims_of_inputs(manifest), *longest)


def _dims_of_inputs(manifest: Manifest) -> list[DimEntry]:
    """The dims that inputs have; that of a state may be one of them."""
    own = {extent for port in manifest.inputs for extent in port.shape} if manifest.states is not None else set()
    return [dim for dim in manifest.dims if dim.capacity_of is None or dim.name in own]


def _checked_sizes(manifest: Manifest, sizes: Mapping[str, int]) -> dict[str, int]:
    known = {dim.name: dim for dim in symbolic_dims(manifest)}
    whole_sizes = {name: whole(name, size) for name, size in sizes.items()}
    for name, size in whole_sizes.items():
        if name not in known:
            raise UsageError(f"there is no symbolic dim '{name}'; the model has {', '.join(known) or 'none'}")
        dim = known[name]
        if size < dim.minimum or (dim.maximum is not None and size > dim.maximum):
            upper = "" if dim.maximum is None else dim.maximum
            raise ShapeError(f"dim '{name}' must be in {dim.minimum}..{upper}, found {size}")
    return whole_sizes


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
    except (MemoryError, ValueError) as error:  # NumPy refuses too large dims with ValueError
        text = ", ".join(map(str, shape))
        raise UsageError(
            f"input '{part.name}': there is no memory for [{text}] elements: choose smaller dims"
        ) from error


def _within(dim: DimEntry, size: int) -> int:
    return max(dim.minimum, size if dim.maximum is None else min(size, dim.maximum))
