"""A reduction over all rows of its operand as kernels that each take one row.

    y[n, 0, 0, c] = finish(sum of x[n, h, w, c])        h in 0..25, w in 0..5

    before row 0    sums[c] = 0
    rows 0..23      sums[c] = sums[c] + x[0, 0, 0, c] + x[0, 0, 1, c] + ...
    row 24          y[0, 0, 0, c] = finish(sums[c] + x[0, 0, 0, c] + ...)

Elements are added one after the other, in the order in which a device without vectors adds them (`schedules.reduction`:
one accumulator, in one block). A kernel is taken if it is one reduction after its operands are inlined, if its result
has a single row, and if a row has few elements for each result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import prod

from tvm import ir, sym, tirx

from deploykit.compiler.decisions import Declined
from deploykit.compiler.program.strips.rows import IMAGE, ROW, RowKernels, Source, kernel_of, loops_of
from deploykit.compiler.schedules.driver import prepared
from deploykit.compiler.schedules.kernel.stages import Axis, Combine, Stage, scalars_of
from deploykit.compiler.schedules.pointwise.elementwise import guarded
from deploykit.compiler.schedules.reduction.blocks import BLOCK
from deploykit.compiler.tir.rewriting import Buffer, Expr, collect, is_zero, replace_loads, substitute
from deploykit.compiler.tir.values import const, dtype_of, static

START, BETWEEN, LAST = range(3)
"""The kernels of such a reduction: that which clears the sums, and those for rows."""

MOST_TERMS = 32
"""The most elements of a row that are added to one sum."""


def sum_kernels(func: tirx.PrimFunc) -> RowKernels | Declined:
    """The kernels for the rows that an unscheduled kernel reduces, or the reason why there are none."""
    nest = prepared(func)
    if isinstance(nest, Declined):
        return nest
    stage = nest.stages[0]
    if len(nest.stages) > 1 or not isinstance(stage, Stage) or stage.combine is None or stage.guard is not None:
        return Declined("it is more than one reduction")
    result = stage.outputs[0]
    if len(result.shape) < 3 or static(result.shape[ROW]) != 1 or guarded(stage.combine.source):
        return Declined("its result has more than one row, or it has conditions")
    combine = replace(stage.combine, source=_at_unit_axes(stage))
    found = _source(func, stage, combine)
    if isinstance(found, Declined):
        return found
    position, along, source = found
    terms = prod(axis.static or MOST_TERMS + 1 for axis in stage.reduce if axis is not along)
    rows = along.static
    if terms > MOST_TERMS or rows is None or rows < 2 or rows * terms > BLOCK:
        return Declined("it adds too many elements")
    writer = _Writer(func, stage, combine, along, position, source)
    kernels = [writer.start(), writer.between(), writer.last()]
    if any(scalars_of(kernel) for kernel in kernels):
        return Declined("it depends on the size of the batch")
    needs = tuple({position: (row, row + 1)} for row in range(rows))
    order = (*(BETWEEN,) * (rows - 1), LAST)
    return RowKernels({position: source}, tuple(kernels), order, needs, {position: (1, 1)}, writer.sums)


def _at_unit_axes(stage: Stage) -> Expr:
    """What a stage reduces, with 0 for axes of one index other than that of images."""
    assert stage.combine is not None
    assert stage.store is not None
    image = stage.store.indices[IMAGE]
    zeros = {axis.var: _index(axis, 0) for axis in stage.axes if axis.static == 1 and not axis.var.same_as(image)}
    known = sym.Analyzer()

    def load(found: ir.TensorLoad) -> Expr:
        return tirx.BufferLoad(found.source, [known.simplify(substitute(index, zeros)) for index in found.indices])

    return replace_loads(stage.combine.source, load)


def _source(func: tirx.PrimFunc, stage: Stage, combine: Combine) -> tuple[int, Axis, Source] | Declined:
    """The position of the only operand that is reduced, the axis of its rows, and how they are read."""
    image = stage.store.indices[IMAGE] if stage.store is not None else None
    loads = collect(combine.source, ir.TensorLoad)
    buffers = {load.source for load in loads}
    if len(buffers) != 1 or any(len(load.indices) < 3 for load in loads):
        return Declined("it reads more than one operand")
    indices = list(loads[0].indices)
    own = {axis.var: axis for axis in stage.reduce}
    along = own.get(indices[ROW])
    others = [index for axis, index in enumerate(indices) if axis != ROW]
    if along is None or any(along.var in collect(index, ir.Var) for index in others):
        return Declined("it does not reduce rows")
    if any(not all(a.same_as(b) for a, b in zip(load.indices, indices, strict=True)) for load in loads):
        return Declined("it reads its operand at several places")
    (buffer,) = buffers
    params = [param for param in func.params if tirx.is_buffer_var(param)]
    alone = is_zero(indices[IMAGE]) and static(buffer.shape[IMAGE]) == 1
    if not (alone or indices[IMAGE].same_as(image)) or static(buffer.shape[ROW]) != along.static:
        return Declined("it does not read one image for each image of its result")
    if buffer not in params[:-1] or any(static(extent) is None for extent in buffer.shape[1:]):
        return Declined("its operand has no fixed size")
    return params.index(buffer), along, Source(ROW, image=not alone)


class _Writer:
    """Writes the kernels of a reduction `along` an axis."""

    def __init__(
        self, func: tirx.PrimFunc, stage: Stage, combine: Combine, along: Axis, position: int, source: Source
    ) -> None:
        self.func, self.stage, self.combine, self.along = func, stage, combine, along
        self.params = [param for param in func.params if tirx.is_buffer_var(param)]
        assert stage.store is not None
        self.total = stage.store
        self.row = _of_one(self.params[position], rows=True, image=source.image)
        self.operands = [*self.params[:position], self.row, *self.params[position + 1 : -1]]
        self.sums = _of_one(self.total.buffer, "sums")
        self.result = _of_one(self.params[-1])

    def start(self) -> tirx.PrimFunc:
        """The kernel that clears the sums."""
        return self.kernel([self.sums], tirx.BufferStore(self.sums, self.combine.identity, self.total.indices))

    def between(self) -> tirx.PrimFunc:
        """The kernel for a row other than the last."""
        return self.kernel([*self.operands, self.sums], tirx.BufferStore(self.sums, self.value(), self.total.indices))

    def last(self) -> tirx.PrimFunc:
        """The kernel for the last row."""
        return self.kernel([*self.operands, self.sums, self.result], self.finished(self.value()))

    def kernel(self, params: Sequence[Buffer], store: tirx.BufferStore) -> tirx.PrimFunc:
        image = self.total.indices[IMAGE]
        axes = (replace(axis, extent=const(1)) if axis.var.same_as(image) else axis for axis in self.stage.axes)
        return kernel_of(params, [], [loops_of(Stage(self.stage.name, tuple(axes), (), store, None, {}))], self.func)

    def value(self) -> Expr:
        """A sum with the elements of a row."""
        value: Expr = tirx.BufferLoad(self.sums, self.total.indices)
        for term in self.terms(self.combine.source):
            value = self.combine.operator(value, term)
        return value

    def terms(self, source: Expr) -> Iterator[Expr]:
        """What is added to a sum for a row, in order."""
        others = [axis for axis in self.stage.reduce if axis is not self.along]
        for places in product(*(range(axis.static or 0) for axis in others)):
            at = {axis.var: _index(axis, place) for axis, place in zip(others, places, strict=True)}
            yield replace_loads(substitute(source, {**at, self.along.var: _index(self.along, 0)}), self.of_row)

    def of_row(self, load: ir.TensorLoad) -> Expr:
        return tirx.BufferLoad(self.row, load.indices)

    def finished(self, value: Expr) -> tirx.BufferStore:
        epilogue = self.stage.epilogue
        if epilogue is None:
            return tirx.BufferStore(self.result, value, self.total.indices)

        def total(load: ir.TensorLoad) -> Expr:
            return value if load.source.same_as(self.total.buffer) else load

        return tirx.BufferStore(self.result, replace_loads(epilogue.value, total), epilogue.indices)


def _of_one(buffer: Buffer, name: str = "", *, rows: bool = False, image: bool = True) -> Buffer:
    """A buffer like `buffer` for one image; with `rows`, for one row."""
    shape: list[Expr] = list(buffer.shape)
    if image:
        shape[IMAGE] = const(1)
    if rows:
        shape[ROW] = const(1)
    return tirx.decl_buffer(shape, dtype_of(buffer), name or buffer.name, layout=None)


def _index(axis: Axis, place: int) -> Expr:
    return tirx.IntImm(dtype_of(axis.var), place)
