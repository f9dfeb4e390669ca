"""The lengths of the instances of ragged inputs, for a run on given and random inputs.

The longest of them is a size that can be chosen like a dim. Its name is that of the padded dim that the model had, else
the name of the input with the lengths. Random lengths are between 0 and this size, and one of them is this size. Where
the number of values of a ragged input is known, they add up to it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from math import prod

import numpy as np

from deploykit.artifact.formula import evaluate
from deploykit.artifact.manifest import DimEntry, Manifest, PortEntry
from deploykit.checks.sources import ArraySource, RandomSource
from deploykit.errors import UsageError
from deploykit.sessions.ragged_ports import RaggedPorts, extents, is_flat, ragged_ports, shapes

_LONGEST = 16
"""The longest of random lengths, if nothing else is chosen."""


def longest_dims(manifest: Manifest, ports: RaggedPorts) -> dict[str, DimEntry]:
    """The size of the longest instance as a dim, by the name of the input with the lengths."""
    padded = {entry.lengths: entry for entry in manifest.padded}
    others = {dim.name for dim in manifest.dims}
    found = {}
    for name in ports.lengths:
        entry = padded.get(name)
        own = entry.dim if entry and entry.dim not in others else name
        found[name] = DimEntry(name=own, minimum=1, maximum=entry.maximum if entry else None)
    return found


def read_lengths(ports: RaggedPorts | None, texts: Iterable[str]) -> dict[str, ArraySource]:
    """Parse lengths: `["12,80,7"]`, or `["m=2,3", "k=4,5"]` where several inputs have lengths.

    Raises `UsageError` for anything else, and for lengths that the model does not have.
    """
    known = ports.lengths if ports else {}
    found: dict[str, ArraySource] = {}
    for text in texts:
        name, _, numbers = text.rpartition("=")
        if not name and len(known) == 1:
            (name,) = known
        if name not in known:
            has = f"its inputs with lengths are {', '.join(known)}" if known else "the model has no ragged inputs"
            raise UsageError(f"cannot use the lengths '{text}': {has}")
        if not all(number.isdecimal() for number in numbers.split(",")):
            raise UsageError(f"cannot read the lengths '{text}': write LENGTH,LENGTH,... or NAME=LENGTH,LENGTH,...")
        if name in found:
            raise UsageError(f"the lengths '{name}' are given twice")
        found[name] = ArraySource(np.array(numbers.split(","), np.int64))
    return found


def draw(manifest: Manifest, ports: RaggedPorts, name: str, source: RandomSource, dims: dict[str, int]) -> np.ndarray:
    """Random lengths for the input `name`, with the sizes in `dims`; those that are chosen here are added."""
    port, longest = ports.lengths[name], longest_dims(manifest, ports)[name]
    batch = port.shape[0]
    if isinstance(batch, str):
        (dim,) = (dim for dim in manifest.dims if dim.name == batch)
        batch = dims.setdefault(batch, max(dim.minimum, 0 if dim.maximum == 0 else 1))
    generator = np.random.default_rng(source.seed)
    largest = dims.get(longest.name, longest.maximum)
    sums = [dims[total] for given in ports.inputs if (total := _sum_of(given, name, ports)) in dims]
    if sums:
        return _adding_up(generator, batch, sums[0], largest, reached=longest.name in dims)
    if source.low is not None:
        return source.array(np.dtype(np.int64), (batch,))
    if not batch:
        dims[longest.name] = 0
        return np.zeros(0, np.int64)
    top = dims.get(longest.name, min(_LONGEST, longest.maximum or _LONGEST))
    lengths = generator.integers(0, top, batch, endpoint=True)
    lengths[generator.integers(batch)] = top
    bounds = {dim.name: dim.maximum for dim in manifest.dims}
    most = [bounds[total] for given in ports.inputs if (total := _sum_of(given, name, ports)) in bounds]
    if most and most[0] is not None and top <= most[0] < lengths.sum():
        return _adding_up(generator, batch, most[0], top, reached=True)
    return lengths


def note_sizes(manifest: Manifest, ports: RaggedPorts, lengths: Mapping[str, np.ndarray], dims: dict[str, int]) -> None:
    """Add the sizes that follow from lengths to `dims`: the longest, how many there are, and their sums.

    Raises `UsageError` if one of them is there with another value.
    """
    for name, longest in longest_dims(manifest, ports).items():
        if name in lengths:
            _note(dims, longest.name, int(lengths[name].max(initial=0)))
            _note(dims, ports.lengths[name].shape[0], lengths[name].size)
    for port in ports.inputs:
        own = {name: lengths[name] for name in ports.lengths if name in extents(port) and name in lengths}
        if len(own) == len({extent for extent in extents(port) if extent in ports.lengths}):
            flat = is_flat(port, ports.lengths)
            sizes = shapes(port, own, dims).prod(axis=1) if flat else own[str(extents(port)[0])]
            _note(dims, port.shape[0], int(sizes.sum()))


def sizes_in_costs(manifest: Manifest, lengths: Mapping[str, np.ndarray], sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes that the plan's formulas for costs are over: those of the dims, the longest length, and the sum of the
    squared lengths."""
    found = dict(sizes)
    for entry in manifest.padded:
        own = lengths[entry.lengths].astype(np.int64)
        found.setdefault(entry.dim, int(own.max(initial=0)))
        found[entry.squares] = int((own * own).sum())
    return found


def derived_dims(manifest: Manifest, ports: RaggedPorts, chosen: Collection[str]) -> frozenset[str]:
    """The sizes that follow from other sizes where only those in `chosen` are chosen: sums follow from random lengths,
    or else the longest length follows from a sum."""
    found = set()
    for port in ports.inputs:
        for name, longest in longest_dims(manifest, ports).items():
            if name in extents(port):
                found.add(longest.name if port.shape[0] in chosen else str(port.shape[0]))
    return frozenset(found) - frozenset(chosen)


def sums_of(manifest: Manifest) -> frozenset[str]:
    """The dims that are sums of lengths, or of sizes of instances."""
    ports = ragged_ports(manifest)
    return derived_dims(manifest, ports, ()) if ports else frozenset()


def largest_sums(manifest: Manifest, sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes of the dims if all instances have the longest lengths in `sizes`. Other sizes stay as they are."""
    ports = ragged_ports(manifest)
    if ports is None:
        return dict(sizes)
    longest = {name: dim.name for name, dim in longest_dims(manifest, ports).items()}
    found = {name: size for name, size in sizes.items() if name not in longest.values()}
    for port in ports.inputs:
        own = [extent for extent in extents(port) if extent in ports.lengths]
        if isinstance(port.shape[0], str) and all(longest[str(name)] in sizes for name in own):
            batch = ports.lengths[str(own[0])].shape[0]
            count = batch if isinstance(batch, int) else sizes[batch]
            counted = extents(port) if is_flat(port, ports.lengths) else own
            largest = [
                sizes[longest[extent]] if extent in longest else evaluate(str(extent), sizes) for extent in counted
            ]
            (dim,) = (dim for dim in manifest.dims if dim.name == port.shape[0])
            total = count * prod(largest)
            found.setdefault(dim.name, total if dim.maximum is None else min(total, dim.maximum))
    return found


def _sum_of(port: PortEntry, name: str, ports: RaggedPorts) -> str:
    """The dim that is the sum of the lengths `name`, because a ragged input has it; else an empty text."""
    return str(port.shape[0]) if extents(port)[0] == name and not is_flat(port, ports.lengths) else ""


def _note(dims: dict[str, int], name: int | str, size: int) -> None:
    if isinstance(name, str) and dims.setdefault(name, size) != size:
        raise UsageError(f"with these lengths '{name}' is {size}, not {dims[name]}: leave it out")


def _adding_up(
    generator: np.random.Generator, batch: int, total: int, largest: int | None, *, reached: bool
) -> np.ndarray:
    """Random lengths of at most `largest` that add up to `total`. If `largest` is to be `reached`, one of them is this
    large; else none is 0 unless `total` is small."""
    most = total if largest is None else largest
    if total > batch * most or (reached and most > total):
        limit = "" if largest is None else f" of at most {largest}"
        raise UsageError(f"{total} values do not fit into {batch} instances{limit}: choose other sizes")
    lengths = np.full(batch, min(1, total // max(batch, 1)), np.int64)
    if reached:
        lengths[:] = 0
        lengths[generator.integers(batch)] = most
    while (left := total - int(lengths.sum())) > 0:
        room = np.flatnonzero(lengths < most)
        weights = generator.exponential(size=room.size)
        wanted = np.minimum(np.ceil(left * weights / weights.sum()).astype(np.int64), most - lengths[room])
        before = np.cumsum(wanted) - wanted
        lengths[room] += np.clip(left - before, 0, wanted)
    return lengths
