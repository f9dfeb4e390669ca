"""Finds the inputs of a kernel that its result may be written over.

An element of the result then takes the place of the input element with the same row-major offset. That is correct if
the kernel reads this input element only for that element of the result:

    y[i, j] = f(t[i, j], b[j])      t[i, j] = g(x[i, j])      y may be written over x
    y[i, j] = f(t[j, i])            t[i, j] = g(x[i, j])      y[i, j] needs x[j, i]: not over x
    y[i, j] = f(t[j, i])            t[i, j] = g(x[j, i])      y may be written over x
    y[k] = f(x[k // 4, k % 4])      x of shape (n, 4)         y may be written over x

So every load is followed from the result back through the intermediate values of the kernel: which element of a buffer
a result element needs depends on all the loads in between. An input qualifies if it has as many elements as the
result, of the same size in bytes, and if each result element needs it at one index only, whose offset is proved to be
that of the result element. An index that depends on the contents of tensors proves nothing. Both sides of a condition
count as read.

This holds for any schedule that stores each element of the result once and stores nothing else there. Intermediate
values may be kept or recomputed, in vectors, tiles, threads or invocations. Schedules of pointwise stages satisfy this;
schedules of reductions keep partial sums in the result. So only kernels of pointwise stages that store one tensor are
considered; for all other kernels no input qualifies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import tvm_ffi
from tvm import ir, sym, tirx

from deploykit.compiler.decisions import Declined
from deploykit.compiler.dims.conversion import polynomial
from deploykit.compiler.schedules.kernel.access import offset_of, size_of
from deploykit.compiler.schedules.kernel.stages import Stage, analyzer, read
from deploykit.compiler.tir.rewriting import Buffer, Expr, is_zero, substitute
from deploykit.compiler.tir.values import dtype_of

if TYPE_CHECKING:
    from deploykit.compiler.lowering.lower import LoweredParts

Place: TypeAlias = "tuple[Expr, ...] | None"
"""The index at which an element of the result needs a buffer, in terms of the axes of the stage that stores the
result. `None` if there are several such indices, or if the index is not known."""


def overwritable_inputs(func: tirx.PrimFunc) -> tuple[int, ...]:
    """Positions, among the buffer params of an unscheduled function, of the inputs that the result may be written
    over."""
    stages = _pointwise_stages(func)
    if not stages:
        return ()
    *inputs, result = [param for param in func.params if tirx.is_buffer_var(param)]
    written = [stage.outputs[0] for stage in stages]
    if written[-1] != result or len(set(written)) < len(written) or not set(written).isdisjoint(inputs):
        return ()
    places = _places(stages, analyzer(stages[-1].axes))
    if places is None:
        return ()
    offset = _Offset(stages[-1])
    alike = [i for i, buffer in enumerate(inputs) if _alike(buffer, result)]
    return tuple(i for i in alike if offset.is_that_of(inputs[i], places.get(inputs[i])))


def overwritable_operands(func: tirx.PrimFunc, inputs: Sequence[int], lowered: LoweredParts) -> tuple[int, ...]:
    """Which operands of a shader its result may be written over, given the positions `inputs` that
    `overwritable_inputs` found. A function of several parts has none. Operand and result must have the same dtype,
    because arrays that share memory are of one dtype."""
    if len(lowered.parts) > 1:
        return ()
    buffers = [param for param in func.params if tirx.is_buffer_var(param)]
    same = [i for i in inputs if dtype_of(buffers[i]) == dtype_of(buffers[-1])]
    operands = lowered.parts[0].operands
    return tuple(operands.index(i) for i in same if i in operands)


def _alike(one: Buffer, other: Buffer) -> bool:
    """Whether two buffers have the same number of elements of the same size."""
    same_items = np.dtype(dtype_of(one)).itemsize == np.dtype(dtype_of(other)).itemsize
    return same_items and polynomial(size_of(one)) == polynomial(size_of(other))


def _pointwise_stages(func: tirx.PrimFunc) -> list[Stage]:
    """The stages of a kernel in order; empty if they cannot be told apart or if one is not pointwise."""
    nest = read(func)
    if isinstance(nest, Declined):
        return []
    stages = [stage for stage in nest.stages if isinstance(stage, Stage) and _is_pointwise(stage)]
    return stages if len(stages) == len(nest.stages) else []


def _is_pointwise(stage: Stage) -> bool:
    """Whether a stage stores one tensor, each element once. That is so if its indices are the axes in any order, with 0
    for dims of extent 1."""
    if stage.store is None or stage.reduce or len(stage.outputs) > 1:
        return False
    varying = [i for i, n in zip(stage.store.indices, stage.store.buffer.shape, strict=True) if not _is_unit(i, n)]
    axes = {axis.var for axis in stage.axes}
    return len(varying) == len(axes) == len(set(varying) & axes)


def _is_unit(index: Expr, extent: Expr) -> bool:
    return is_zero(index) and isinstance(extent, tirx.IntImm) and int(extent) == 1


def _places(stages: Sequence[Stage], known: sym.Analyzer) -> dict[Buffer, Place] | None:
    """The index at which an element of the result, which the last stage stores, needs each buffer. None if a stage
    reads a buffer that the same stage or a later one writes."""
    final = stages[-1].store
    assert final is not None
    places: dict[Buffer, Place] = {final.buffer: tuple(final.indices)}
    done: set[Buffer] = set()
    for stage in reversed(stages):
        assert stage.store is not None
        done.add(stage.store.buffer)
        here = places.get(stage.store.buffer)
        values = None if here is None else _values(stage, here)
        for load in stage.loads:
            if load.source in done:
                return None
            there: Place = None
            if values is not None:
                there = tuple(known.simplify(substitute(index, values)) for index in load.indices)
            places[load.source] = there if load.source not in places else _agreed(places[load.source], there)
    return places


def _values(stage: Stage, place: Sequence[Expr]) -> dict[ir.Var, Expr]:
    """The values of a stage's axes for which it stores the element at `place`."""
    assert stage.store is not None
    own = {axis.var for axis in stage.axes}
    pairs = [(axis, index) for axis, index in zip(stage.store.indices, place, strict=True) if axis in own]
    return {axis: index if dtype_of(index) == dtype_of(axis) else index.astype(dtype_of(axis)) for axis, index in pairs}


def _agreed(one: Place, other: Place) -> Place:
    """The place if both are the same, else `None`."""
    if one is None or other is None:
        return None
    return one if all(tvm_ffi.structural_equal(a, b) for a, b in zip(one, other, strict=True)) else None


class _Offset:
    """The row-major offset of the element that a stage stores, in terms of its axes."""

    def __init__(self, stage: Stage) -> None:
        assert stage.store is not None
        self._known = analyzer(stage.axes)
        self._own = self._of(stage.store.buffer, stage.store.indices)

    def _of(self, buffer: Buffer, indices: Sequence[Expr]) -> object:
        return polynomial(self._known.simplify(offset_of(buffer, indices)))

    def is_that_of(self, buffer: Buffer, place: Place) -> bool:
        """Whether the element of `buffer` at `place` is proved to have the same offset in its own tensor."""
        return place is not None and self._of(buffer, place) == self._own
