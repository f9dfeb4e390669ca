"""How ragged values map to the plain tensors of the C interface.

A ragged input takes its values without padding, and other inputs give the extents of its instances: the *lengths*. A
user gives a ragged input as

    a list              of arrays, or of lists of numbers: one for each instance
    a `Ragged`          the same, packed already
    the raw values      an array as the C interface takes it, beside the inputs with the lengths

Lengths that the user leaves out are taken from the ragged inputs; all that are given must agree. A ragged output is a
`Ragged`.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deploykit.artifact.formula import evaluate
from deploykit.artifact.manifest import Manifest, PortEntry
from deploykit.basics.dtypes import logical_dtype
from deploykit.errors import ShapeError
from deploykit.sessions.ragged_array import Ragged, whole_numbers


@dataclass(frozen=True)
class RaggedPorts:
    """The ragged ports of a function. `outputs` has an entry for each output, None for a dense one. `lengths` are the
    inputs that give extents of instances, by name."""

    inputs: tuple[PortEntry, ...]
    outputs: tuple[PortEntry | None, ...]
    lengths: Mapping[str, PortEntry]


def ragged_ports(manifest: Manifest) -> RaggedPorts | None:
    """The ragged ports of the only function; None if there are none."""
    inputs = tuple(port for port in manifest.inputs if port.instance is not None)
    outputs = tuple(None if port.instance is None else port for port in manifest.outputs)
    used = {extent for port in (*inputs, *filter(None, outputs)) for extent in port.instance or ()}
    lengths = {port.name: port for port in manifest.inputs if port.name in used}
    return RaggedPorts(inputs, outputs, lengths) if inputs or any(outputs) else None


def is_flat(port: PortEntry, lengths: Container[str]) -> bool:
    """Whether the values of a ragged port are flat: an extent other than the first differs between instances."""
    first, *others = extents(port)
    return first not in lengths or any(extent in lengths for extent in others)


def extents(port: PortEntry) -> tuple[int | str, ...]:
    """The extents of an instance of a ragged port."""
    assert port.instance is not None
    return port.instance


def unpacked(ports: RaggedPorts, given: Mapping[str, Any], *, complete: bool = True) -> dict[str, Any]:
    """The inputs as the C interface takes them: raw values in place of ragged ones, and all lengths.

    Inputs that are missing stay missing. Raises `ShapeError` for instances that do not fit their input, for lengths
    that do not agree, and, if the inputs are to be `complete`, for raw values without lengths.
    """
    instances: dict[str, Ragged] = {}
    for port in ports.inputs:
        if port.name in given and not _is_raw(port, ports, given):
            instances[port.name] = _instances(port, ports, given[port.name])
    inputs = dict(given)
    for port in ports.inputs:
        if port.name in instances:
            values = instances[port.name].values
            inputs[port.name] = values.reshape(-1) if is_flat(port, ports.lengths) else values
    for name in ports.lengths:
        inputs |= _lengths(name, ports, instances, given)
    for port in ports.inputs:
        if port.name in given and port.name not in instances:
            _require_sum(port, ports, inputs, complete=complete)
    return inputs


def packed(
    ports: RaggedPorts, manifest: Manifest, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]
) -> list[Any]:
    """The outputs of a run as the user gets them; `inputs` are the arrays that it took."""
    taken = {port.name: array for port, array in zip(manifest.inputs, inputs, strict=True)}
    sizes = {
        str(extent): size
        for port in manifest.inputs
        for extent, size in zip(port.shape, taken[port.name].shape, strict=True)
    }

    def instances(port: PortEntry, array: np.ndarray) -> Ragged:
        if not is_flat(port, ports.lengths):
            return Ragged(array, taken[str(extents(port)[0])])
        return Ragged(array, shapes(port, {name: taken[name] for name in ports.lengths}, sizes))

    pairs = zip(ports.outputs, outputs, strict=True)
    return [array if port is None else instances(port, array) for port, array in pairs]


def shapes(port: PortEntry, lengths: Mapping[str, np.ndarray], sizes: Mapping[str, int]) -> np.ndarray:
    """The shape of each instance of a ragged port, [batch, rank of an instance].

    `lengths` has the arrays of the inputs that give lengths, `sizes` the values of the dims.
    """
    batch = len(next(lengths[str(extent)] for extent in extents(port) if extent in lengths))
    columns = (
        lengths[str(extent)]
        if extent in lengths
        else np.full(batch, extent if isinstance(extent, int) else evaluate(extent, sizes))
        for extent in extents(port)
    )
    return np.stack(list(columns), axis=1).astype(np.int64)


def _is_raw(port: PortEntry, ports: RaggedPorts, given: Mapping[str, Any]) -> bool:
    """Whether the raw values of an input are given, rather than its instances.

    A list of arrays is one of instances; other lists tell by how deep they are nested. Without any number in them they
    are raw if lengths are given."""
    value = given[port.name]
    if isinstance(value, np.ndarray | np.generic):
        return True
    if isinstance(value, list | tuple) and any(isinstance(each, np.ndarray) for each in value):
        return False
    depth = _depth(value)
    return depth == len(port.shape) if depth is not None else any(name in given for name in ports.lengths)


def _depth(value: Any) -> int | None:
    """The rank of nested lists; None if there is no number in them."""
    if isinstance(value, list | tuple):
        inner = next((depth for depth in map(_depth, value) if depth is not None), None)
        return None if inner is None else 1 + inner
    return None if isinstance(value, Ragged) else np.ndim(value)


def _instances(port: PortEntry, ports: RaggedPorts, value: Any) -> Ragged:
    """The instances of an input that are given as a list or as a `Ragged`."""
    if not isinstance(value, Ragged | list | tuple):
        raise ShapeError(f"input '{port.name}' is ragged, found {type(value).__name__}; {_how(port, ports)}")
    found = value if isinstance(value, Ragged) else _of(port, ports, value)
    found = found if len(found) else _of(port, ports, [])
    if found.lengths.ndim == 1 and found.values.shape[1:] == extents(port)[1:] and extents(port)[0] in ports.lengths:
        return found
    flat, rank = is_flat(port, ports.lengths), len(extents(port))
    if found.shapes.shape[1] != rank or (found.lengths.ndim == 2 and not flat):
        raise ShapeError(f"input '{port.name}' has instances of shape {_text(port)}, found {found}")
    fixed = {axis: extent for axis, extent in enumerate(extents(port)) if isinstance(extent, int)}
    others = np.flatnonzero((found.shapes[:, list(fixed)] != list(fixed.values())).any(axis=1))
    if len(others):
        shape = f"[{', '.join(map(str, found.shapes[others[0]]))}]"
        expected = f"input '{port.name}' has instances of shape {_text(port)}"
        raise ShapeError(f"{expected}, but instance {others[0]} has shape {shape}")
    return found


def _of(port: PortEntry, ports: RaggedPorts, values: Sequence[Any]) -> Ragged:
    """The instances in a list. Empty lists have the extents of the input that are numbers, and 0 for the others."""
    dtype = logical_dtype(port.dtype).array
    empty = np.zeros([extent if isinstance(extent, int) else 0 for extent in extents(port)], dtype)
    flat = is_flat(port, ports.lengths)
    if not values:
        return Ragged(empty.reshape(-1), np.zeros((0, empty.ndim), np.int64)) if flat else Ragged(empty, [])
    known = flat or all(isinstance(extent, int) for extent in extents(port)[1:])
    try:
        return Ragged.of([empty if known and _is_empty(value) else value for value in values], dtype, flat=flat)
    except ShapeError as error:
        raise ShapeError(f"input '{port.name}': {error}") from error


def _is_empty(value: Any) -> bool:
    return value.shape == (0,) if isinstance(value, np.ndarray) else isinstance(value, list | tuple) and not value


def _lengths(
    name: str, ports: RaggedPorts, instances: Mapping[str, Ragged], given: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """The lengths of this name as they follow from the instances, unless they are given; all of them must agree."""
    source, known = name, None
    if name in given:
        try:
            known = whole_numbers(given[name])
        except ShapeError as error:
            raise ShapeError(f"input '{name}': {error}") from error
    for port in ports.inputs:
        columns = [axis for axis, extent in enumerate(extents(port)) if extent == name and port.name in instances]
        for axis in columns:
            given_as = instances[port.name]
            found = given_as.lengths if given_as.lengths.ndim == 1 and axis == 0 else given_as.shapes[:, axis]
            if known is None:
                source, known = port.name, found
            _require_equal(name, (source, known), (port.name, found))
    if known is None or name in given:
        return {}
    return {name: known.astype(logical_dtype(ports.lengths[name].dtype).array)}


def _require_equal(name: str, one: tuple[str, np.ndarray], other: tuple[str, np.ndarray]) -> None:
    """Raise `ShapeError` unless two inputs agree on the lengths `name`. Each is a name with the lengths it has."""
    (first, ours), (second, theirs) = one, other
    if ours.shape != theirs.shape:
        raise ShapeError(f"inputs '{first}' and '{second}' have {ours.size} and {theirs.size} instances")
    different = np.flatnonzero(ours != theirs)
    if len(different):
        at = different[0]
        which = f"the extents of instance {at}" if first == second else f"'{name}' of instance {at}"
        raise ShapeError(f"inputs '{first}' and '{second}' disagree on {which}: {ours[at]} and {theirs[at]}")


def _require_sum(port: PortEntry, ports: RaggedPorts, inputs: Mapping[str, Any], *, complete: bool) -> None:
    """Raise `ShapeError` unless the lengths for the raw values of an input add up to their number. With `complete`,
    there must be lengths.

    What else may be wrong with values and lengths is found by the checks of dense inputs."""
    names = [name for name in ports.lengths if name in extents(port)]
    missing = [name for name in names if name not in inputs]
    if missing and complete:
        raise ShapeError(f"input '{missing[0]}' is missing; {_how(port, ports)}")
    if missing:
        return
    arrays = {name: np.asarray(inputs[name]) for name in names}
    values = inputs[port.name]
    if any(array.shape != (arrays[names[0]].size,) for array in arrays.values()):
        return
    if isinstance(values, np.ndarray | np.generic) and values.ndim != len(port.shape):
        return
    flat = is_flat(port, ports.lengths)
    if flat and not all(extent in arrays or isinstance(extent, int) for extent in extents(port)):
        return
    sizes = shapes(port, arrays, {}).prod(axis=1) if flat else arrays[names[0]]
    count = len(values)
    if count != sizes.sum():
        of = "the sizes of its instances" if flat else f"'{names[0]}'"
        raise ShapeError(f"input '{port.name}' has {count} values, but {of} add up to {sizes.sum()}")


def _how(port: PortEntry, ports: RaggedPorts) -> str:
    names = " and ".join(f"'{extent}'" for extent in extents(port) if extent in ports.lengths)
    return f"give '{port.name}' as a list of arrays {_text(port)}, one an instance, or its raw values with {names}"


def _text(port: PortEntry) -> str:
    return f"[{', '.join(map(str, extents(port)))}]"
