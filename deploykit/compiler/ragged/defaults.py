"""The schedule of a tensor for which the user gives none.

* The outermost loop is parallel. If there are others around the one that is vectorised, the two outermost become one
  loop, so that threads share the rows of all instances and not the instances.
* The innermost loop of the result is vectorised if the elements of the result and of all operands that it touches are
  next to each other; the loops of a reduction then come around it. Else the innermost loop of the reduction is.
"""

from __future__ import annotations

from tvm import tirx

from deploykit.compiler.dims.conversion import polynomial
from deploykit.compiler.ragged.storage import Storage
from deploykit.compiler.tir.rewriting import substitute
from deploykit.ragged.indices import Dim
from deploykit.ragged.schedules import Schedule, schedule
from deploykit.ragged.values import Load, Tensor, walk

LANES = 8
"""The elements of a vector."""

SUMS = (32, 16)
"""How many sums of a reduction are kept side by side, so that one addition need not wait for the one before."""


def default_schedule(storage: Storage, tensor: Tensor) -> Schedule:
    """A schedule that is good in most cases."""
    made = schedule(tensor)
    dims, reduced = tensor.dims, made.reduced
    vector = dims[-1] if dims and _in_line(storage, tensor, dims[-1], stored=True) else None
    summed = (
        reduced[-1] if vector is None and reduced and _in_line(storage, tensor, reduced[-1], stored=False) else None
    )
    if vector is not None and not _constant(vector, 1):
        made = made.split(vector.name, _lanes(vector) if reduced else LANES)
        if not reduced or not any(vector in dim.extent.dims() for dim in reduced):
            made = made.reorder(*(dim.name for dim in reduced), f"{vector.name}.inner")
            made = made.vectorize(f"{vector.name}.inner")
    elif summed is not None:
        inner = f"{summed.name}.inner"
        made = made.split(summed.name, LANES).vectorize(inner)
    outer = [dim for dim in dims if dim is not vector]
    if len(outer) > 1:
        made = made.fuse(outer[0].name, outer[1].name)
    return made.parallel(made.loops[0]) if dims else made


def _in_line(storage: Storage, tensor: Tensor, dim: Dim, *, stored: bool) -> bool:
    """Whether neighbours along `dim` are next to each other, or the same element, in all tensors that are touched."""
    assert tensor.value is not None
    var = storage.variable(dim)
    accesses = [(part.tensor, part.indices) for part in walk(tensor.value) if isinstance(part, Load)]
    if stored:
        accesses.append((tensor, tuple(own.index for own in tensor.dims)))
    for accessed, indices in accesses:
        place = storage.layout(accessed.dims, accessed.padding).offset([storage.expr(index) for index in indices])
        step = polynomial(substitute(place, {var: var + tirx.IntImm("int64", 1)})) - polynomial(place)
        if step.value() not in (0, 1):
            return False
    return True


def _lanes(dim: Dim) -> int:
    """How many elements of a reduction along `dim` are computed at once."""
    if dim.extent.terms:
        return SUMS[-1]
    return next((lanes for lanes in SUMS if not dim.extent.constant % lanes), LANES)


def _constant(dim: Dim, value: int) -> bool:
    return not dim.extent.terms and dim.extent.constant == value
