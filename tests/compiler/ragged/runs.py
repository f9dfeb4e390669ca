"""Random inputs for runs of ragged operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from deploykit.compiler.ragged.model import ragged_model
from deploykit.ragged import Operator, Tensor
from tests.compiler.ragged.reference import Reference


def inputs_of(
    operator: Operator, given: Mapping[str, Sequence[int] | int]
) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """Random inputs of a run, and its sizes."""
    random = np.random.default_rng(5)
    arrays = {name: np.array(value, np.int64) for name, value in given.items() if isinstance(value, list)}
    sizes = {name: value for name, value in given.items() if isinstance(value, int)}
    for lengths in operator.lengths:
        if len(lengths.dims) == 1:
            (size,) = lengths.dims[0].extent.sizes()
            sizes[size.name] = len(arrays[lengths.name])
    empty = Reference(Operator(operator.name, ()), sizes, {})
    empty.elements = {}
    for lengths in operator.lengths:
        places = empty.indices(lengths.dims)
        empty.elements[lengths] = dict(zip(places, map(int, arrays[lengths.name]), strict=True))
    for tensor in operator.inputs:
        count = len(list(empty.indices(tensor.dims, tensor.padding)))
        shape = shape_of(empty, operator, tensor, count)
        arrays[tensor.name] = random.standard_normal(shape, dtype=np.float32)
    return arrays, sizes


def shape_of(reference: Reference, operator: Operator, tensor: Tensor, count: int) -> tuple[int, ...]:
    """The shape of an input: that of the model's port, of which only one extent may be unknown."""
    (port,) = (port for port in ragged_model(operator).inputs if port.name == tensor.name)
    known = [extent if isinstance(extent, int) else None for extent in port.shape]
    if known.count(None) <= 1:
        rest = int(np.prod([extent for extent in known if extent is not None]))
        return tuple(count // rest if extent is None else extent for extent in known)
    return tuple(reference.index(dim.extent, {}) for dim in tensor.dims)
