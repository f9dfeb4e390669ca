"""A kernel as kernels that each compute one row of its result.

    y[n, h, w, c] = sum of x[n, 2h + k - 1, ...] * weight[k, ...], 0 outside      h in 0..48

    row 0:     y[0, 0, w, c] = sum of x[0, k - 1, ...]...       of rows 0..2 of x, under the condition k >= 1
    row 7:     y[0, 0, w, c] = sum of x[0, k, ...]...           of rows 13..16 of x, with no condition on rows

A row is what there is at one index of axis 1, of one image, which is one index of axis 0. The statements are those of
the kernel, with other extents of these two axes, and without conditions that hold for the row: each element is computed
in the same way and in the same order. Rows whose places in the operands differ by whole rows share a kernel, so a
convolution has a kernel for the rows inside of its data, and others for those that read its padding.

A kernel is taken if it is made of stages, each of which stores one tensor at its axes, if an index of a row is linear
in the row of the result, and if nothing else depends on the row but conditions and integers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import tvm_ffi
from tvm import ir, s_tir, sym, tirx

from deploykit.compiler.decisions import Declined
from deploykit.compiler.operators.anchors.integer import BEFORE
from deploykit.compiler.schedules.kernel.stages import Axis, Nest, Stage, read, scalars_of
from deploykit.compiler.tir.rewriting import Buffer, Expr, call_name, collect, is_zero, sequence, substitute
from deploykit.compiler.tir.values import const, dtype_of, static

IMAGE, ROW = 0, 1
"""The axes of images and of rows in a result."""

PADDING = "deploykit.padding"
"""Annotation of a convolution: all begins, then all ends (`ConvShape`)."""

_KEPT = frozenset(f"deploykit.{name}" for name in ("anchor", "strides", "dilation", "padding", "before", "dot"))
"""The annotations of a block that say the same of a row."""

_COMPARISONS = (tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.EQ, tirx.NE)

Range = tuple[int, int]
"""The first row, and the one after the last."""


@dataclass(frozen=True)
class Source:
    """How a kernel reads a parameter whose rows it takes, which are along `axis`. `image` says whether axis 0 has an
    index for each image."""

    axis: int
    image: bool


@dataclass(frozen=True)
class RowKernels:
    """The kernels for the rows of a result. `sources` are the parameters of which a row reads rows, by position;
    `of_row[r]` is the position in `kernels` of the kernel for row `r`; `needs[r]` are the rows that it reads of each
    source. `reach` gives `stride` and `stop` of each source: without padding, row `r` reads rows before
    `stride * r + stop`."""

    sources: Mapping[int, Source]
    kernels: tuple[tirx.PrimFunc, ...]
    of_row: tuple[int, ...]
    needs: tuple[Mapping[int, Range], ...]
    reach: Mapping[int, tuple[int, int]]
    sums: Buffer | None = None
    """For a reduction over all rows: the tensor of its partial results, which the first of the kernels clears, and the
    kernel for a row takes after the other operands. That for the last row takes the result, too."""


@dataclass(frozen=True)
class _Load:
    """A load of row `stride * row + low..high` of `source` along its `axis`, for `row` of the stage."""

    source: Buffer
    axis: int
    stride: int
    low: int
    high: int

    def reach(self, rows: Range) -> Range:
        """What it reads for rows of the stage, whether or not there are such rows."""
        return rows[0] * self.stride + self.low, (rows[1] - 1) * self.stride + self.high + 1


@dataclass(frozen=True)
class _RowStage:
    """A stage. `row` and `image` are the variables of these axes, None where the axis has one index."""

    stage: Stage
    row: ir.Var
    image: ir.Var | None
    loads: tuple[_Load, ...]

    @property
    def result(self) -> Buffer:
        return self.stage.outputs[0]


def row_kernels(func: tirx.PrimFunc) -> RowKernels | Declined:
    """The kernels for the rows of an unscheduled kernel, or the reason why there are none."""
    found = _read(func)
    return found if isinstance(found, Declined) else found.kernels()


def _read(func: tirx.PrimFunc) -> _Rows | Declined:
    nest = read(func)
    if isinstance(nest, Declined):
        return nest
    params = [param for param in func.params if tirx.is_buffer_var(param)]
    axes: dict[Buffer, int] = {params[-1]: ROW}
    images: dict[Buffer, bool] = {}
    found: list[_RowStage] = []
    for stage in reversed(nest.stages):
        if not isinstance(stage, Stage):
            return Declined("a part of it is one imperative block")
        read_stage = _stage(stage, axes, images, set(params[:-1]))
        if isinstance(read_stage, Declined):
            return read_stage
        found.append(read_stage)
    read_buffers = {load.source for each in found for load in each.loads} | {params[-1]}
    if any(each.result not in read_buffers for each in found):
        return Declined("it computes a tensor that its result does not need")
    if len({each.result for each in found}) < len(found) or params[-1] not in {each.result for each in found}:
        return Declined("it stores a tensor in several stages")
    return _Rows(nest, tuple(found), axes, images)


def _stage(
    stage: Stage, axes: dict[Buffer, int], images: dict[Buffer, bool], given: set[Buffer]
) -> _RowStage | Declined:
    """A stage, whose result has its rows along `axes`; notes where its operands have theirs."""
    store = stage.store
    if store is None or stage.guard is not None or stage.annotations.keys() - _KEPT:
        return Declined("a stage stores more than one tensor, or computes in another way than its definition says")
    result = store.buffer
    if result not in axes or len(store.indices) < 3:
        return Declined("a result has no rows of more than one element")
    own = {axis.var for axis in stage.axes}
    row, image = store.indices[axes[result]], store.indices[IMAGE]
    if row not in own:
        return Declined("a result is not stored row by row")
    if image not in own and not (is_zero(image) and static(result.shape[IMAGE]) == 1):
        return Declined("a result is not stored image by image")
    loads: list[_Load] = []
    for load in stage.loads:
        if load.source.same_as(result):
            continue
        places = [axis for axis, index in enumerate(load.indices) if row in collect(index, ir.Var)]
        of_image = [axis for axis, index in enumerate(load.indices) if image in collect(index, ir.Var)]
        if not places and not of_image and load.source in given and load.source not in axes:
            images.setdefault(load.source, False)
            continue
        if len(places) != 1 or axes.setdefault(load.source, places[0]) != places[0]:
            return Declined("it does not read one row of an operand for each row of its result")
        alone = static(load.source.shape[IMAGE]) == 1 and is_zero(load.indices[IMAGE])
        if places[0] == IMAGE or not (alone or (of_image == [IMAGE] and load.indices[IMAGE].same_as(image))):
            return Declined("it does not read one image of an operand for each image of its result")
        if images.setdefault(load.source, not alone) == alone:
            return Declined("it reads an operand in two ways")
        found = _linear(load, places[0], row, (*stage.axes, *stage.reduce))
        if isinstance(found, Declined):
            return found
        loads.append(found)
    return _RowStage(stage, row, image if image in own else None, tuple(loads))


def _linear(load: ir.TensorLoad, axis: int, row: ir.Var, axes: Sequence[Axis]) -> _Load | Declined:
    """Which rows a load reads, if that is linear in `row`."""
    if static(load.source.shape[axis]) is None:
        return Declined("the number of its rows is not fixed")
    index, known = load.indices[axis], sym.Analyzer()
    zero = tirx.IntImm(dtype_of(row), 0)
    stride = static(known.simplify(substitute(index, {row: row + 1}) - index))
    rest = known.simplify(substitute(index, {row: zero}))
    if stride is None or stride < 1 or collect(rest, ir.TensorLoad):
        return Declined("the rows that it reads are not linear in the row of its result")
    others = [each for each in axes if each.var in collect(rest, ir.Var)]
    if any(each.static is None or each.static < 1 for each in others):
        return Declined("the number of rows that it reads is not fixed")
    for each in others:
        known.bind(each.var, ir.Range(tirx.IntImm(dtype_of(each.var), 0), each.extent))
    bound = known.const_int_bound(rest)
    if static(rest) is not None:
        return _Load(load.source, axis, stride, int(rest), int(rest))
    if not -(2**31) < bound.min_value <= bound.max_value < 2**31:
        return Declined("the rows that it reads have no bounds")
    return _Load(load.source, axis, stride, bound.min_value, bound.max_value)


@dataclass(frozen=True)
class _Rows:
    """A kernel. `stages` are in reverse order; `axes` are those of the rows of each buffer that has some; `images` says
    which buffers have an index for each image."""

    nest: Nest
    stages: tuple[_RowStage, ...]
    axes: Mapping[Buffer, int]
    images: Mapping[Buffer, bool]

    @cached_property
    def params(self) -> list[Buffer]:
        return [param for param in self.nest.func.params if tirx.is_buffer_var(param)]

    @property
    def conditional(self) -> bool:
        """Whether more than the places of loads depends on the row."""
        values = ((each, store.value) for each in self.stages for store in each.stage.stores)
        return any(each.row in collect(_hidden(value)[0], ir.Var) for each, value in values)

    def kernels(self) -> RowKernels | Declined:
        result = self.params[-1]
        rows = static(result.shape[ROW])
        if rows is None or rows < 2:
            return Declined("its result has a single row, or the number of its rows is not fixed")
        if any(static(n) is None for buffer in self.axes for n in buffer.shape[1:]):
            return Declined("the sizes of its rows are not fixed")
        sources = {
            position: Source(self.axes[param], self.images[param])
            for position, param in enumerate(self.params[:-1])
            if param in self.axes
        }
        conditional, known = self.conditional, dict[object, int]()
        kernels: list[tirx.PrimFunc] = []
        of_row: list[int] = []
        needs: list[Mapping[int, Range]] = []
        for row in range(rows):
            regions = self.regions(row)
            signature = self._signature(regions)
            if conditional or signature not in known:
                made = self.derived(regions)
                if scalars_of(made):
                    return Declined("it depends on the size of the batch")
                known[signature] = self._number(made, kernels)
            of_row.append(known[signature])
            needs.append({position: regions[self.params[position]] for position in sources})
        first, second = (self.regions(row, padded=True) for row in range(2))
        stops = {position: (first[self.params[position]][1], second[self.params[position]][1]) for position in sources}
        reach = {position: (later - stop, stop) for position, (stop, later) in stops.items()}
        return RowKernels(sources, tuple(kernels), tuple(of_row), tuple(needs), reach)

    def _number(self, made: tirx.PrimFunc, kernels: list[tirx.PrimFunc]) -> int:
        """The position of a kernel among `kernels`, to which it is added if it is new."""
        for number, other in enumerate(kernels):
            if tvm_ffi.structural_equal(made, other):
                return number
        kernels.append(made)
        return len(kernels) - 1

    def regions(self, row: int, *, padded: bool = False) -> dict[Buffer, Range]:
        """The rows of each buffer that a row of the result needs. Those outside of a buffer, which the kernel does not
        read, are left out unless `padded`."""
        found: dict[Buffer, Range] = {self.params[-1]: (row, row + 1)}
        for each in self.stages:
            for load in each.loads:
                reach = load.reach(found[each.result])
                rows = reach if padded else _inside(reach, int(load.source.shape[load.axis]))
                old = found.get(load.source, rows)
                found[load.source] = min(old[0], rows[0]), max(old[1], rows[1])
        return found

    def _signature(self, regions: Mapping[Buffer, Range]) -> object:
        """What tells kernels of rows from each other, apart from conditions."""
        sizes = tuple(stop - first for first, stop in regions.values())
        loads = ((each.result, load) for each in self.stages for load in each.loads)
        return sizes, tuple(load.reach(regions[result])[0] - regions[load.source][0] for result, load in loads)

    def derived(self, regions: Mapping[Buffer, Range]) -> tirx.PrimFunc:
        """The kernel for one row of one image, given the rows of each buffer that it needs."""
        new = {buffer: self._resized(buffer, regions) for buffer in self.axes}
        stages = [_Writer(each, regions, new).nest() for each in reversed(self.stages)]
        temporaries = [new[buffer] for buffer in self.nest.temporaries]
        params = [new.get(param, param) for param in self.nest.func.params]
        return kernel_of(params, temporaries, stages, self.nest.func)

    def _resized(self, buffer: Buffer, regions: Mapping[Buffer, Range]) -> Buffer:
        """A buffer for the rows that are needed, of one image. A parameter whose rows are not next to each other keeps
        its shape, as it is a part of the whole tensor: it begins at the first row that is needed."""
        axis, shape = self.axes[buffer], list(buffer.shape)
        first, stop = regions[buffer]
        if axis == ROW or buffer not in self.params:
            shape[axis] = const(stop - first)
        if self.images.get(buffer, True):
            shape[IMAGE] = const(1)
        return tirx.decl_buffer(shape, dtype_of(buffer), buffer.name, layout=None)


class _Writer:
    """Writes a stage for some rows of one image."""

    def __init__(self, row_stage: _RowStage, regions: Mapping[Buffer, Range], new: Mapping[Buffer, Buffer]) -> None:
        self.row, self.stage, self.regions, self.new = row_stage.row, row_stage.stage, regions, new
        self.loads, self.result = row_stage.loads, row_stage.result
        first, stop = regions[self.result]
        self.first = first
        extents = {self.row: const(stop - first)} | ({row_stage.image: const(1)} if row_stage.image is not None else {})
        self.axes = [replace(axis, extent=_like(axis, extents.get(axis.var, axis.extent))) for axis in self.stage.axes]
        self.known = sym.Analyzer()
        for axis in (*self.axes, *self.stage.reduce):
            self.known.bind(axis.var, ir.Range(tirx.IntImm(dtype_of(axis.var), 0), axis.extent))

    def nest(self) -> tirx.Stmt:
        """The loops of the stage around its block."""
        init = None if self.stage.init is None else self.written(self.stage.init)
        body = self.written(self.stage.body)
        stage = replace(self.stage, axes=tuple(self.axes), body=body, init=init, annotations=self.annotations())
        return loops_of(stage)

    def annotations(self) -> dict[str, object]:
        """Those of the stage; padding is what is left of it."""
        notes = dict(self.stage.annotations)
        if PADDING in notes or BEFORE in notes:
            (load,) = self.loads
            reach, inside = load.reach(self.regions[self.result]), self.regions[load.source]
            before, after = inside[0] - reach[0], reach[1] - inside[1]
            if PADDING in notes:
                padding = [int(n) for n in notes[PADDING]]
                padding[0], padding[len(padding) // 2] = before, max(after, 0)
                notes[PADDING] = padding
            if BEFORE in notes:
                notes[BEFORE] = [before, *(int(n) for n in notes[BEFORE][1:])]
        return notes

    def written(self, node: tirx.Stmt) -> tirx.Stmt:
        """A store, for the rows from `first` on, with the rows of operands counted from the first that is needed."""
        assert isinstance(node, tirx.BufferStore)
        return tirx.BufferStore(self.new[node.buffer], self.value(node.value), node.indices)

    def value(self, value: Expr) -> Expr:
        """An expression of the stage."""
        hidden, loads = _hidden(value)
        moved = substitute(hidden, {self.row: self.row + tirx.IntImm(dtype_of(self.row), self.first)})
        settled = _settled(moved, self.row, self.known)
        return substitute(settled, {found: self.load(load) for found, load in loads.items()})

    def load(self, load: ir.TensorLoad) -> ir.TensorLoad:
        source = load.source
        if source not in self.new:
            return load
        if source.same_as(self.result):
            return tirx.BufferLoad(self.new[source], load.indices)
        first = tirx.IntImm(dtype_of(self.row), self.first)
        indices = [substitute(index, {self.row: self.row + first}) for index in load.indices]
        axis = next(each.axis for each in self.loads if each.source.same_as(source))
        indices[axis] = sym.Analyzer().simplify(indices[axis] - self.regions[source][0])
        return tirx.BufferLoad(self.new[source], indices)


def loops_of(stage: Stage) -> tirx.Stmt:
    """The loops of a stage around its block."""
    axes: list[tuple[Axis, int]] = [(axis, tirx.IterVar.DataPar) for axis in stage.axes]
    axes += [(axis, tirx.IterVar.CommReduce) for axis in stage.reduce]
    loops = [ir.Var(axis.var.name.removeprefix("v_"), dtype_of(axis.var)) for axis, _ in axes]
    iters = [tirx.IterVar(ir.Range(tirx.IntImm(dtype_of(a.var), 0), a.extent), a.var, kind) for a, kind in axes]
    block = s_tir.SBlock(iters, [], [], stage.name, stage.body, stage.init, annotations=stage.annotations)
    statement: tirx.Stmt = s_tir.SBlockRealize(loops, True, block)
    for loop, (axis, _) in reversed(list(zip(loops, axes, strict=True))):
        statement = tirx.For(loop, tirx.IntImm(dtype_of(loop), 0), axis.extent, tirx.ForKind.SERIAL, statement)
    return statement


def kernel_of(
    params: Sequence[ir.Var], temporaries: Sequence[Buffer], stages: Sequence[tirx.Stmt], like: tirx.PrimFunc
) -> tirx.PrimFunc:
    """A kernel of stages, with the attributes of another one."""
    root = s_tir.SBlock([], [], [], "root", sequence(stages), alloc_buffers=list(temporaries))
    kernel = tirx.PrimFunc(list(params), s_tir.SBlockRealize([], True, root), None, like.attrs)
    return s_tir.renew_defs(kernel)


def _hidden(value: Expr) -> tuple[Expr, dict[ir.Var, ir.TensorLoad]]:
    """`value` with a variable in the place of each load, and the loads."""
    loads: dict[ir.Var, ir.TensorLoad] = {}

    def hide(load: ir.TensorLoad) -> Expr:
        found = ir.Var(f"load{len(loads)}", dtype_of(load))
        loads[found] = load
        return found

    return tvm_ffi.structural_map(value, (ir.TensorLoad, hide)), loads


def _inside(reach: Range, rows: int) -> Range:
    """The part of a range that lies among `rows`; the nearest row if there is none."""
    first, stop = max(reach[0], 0), min(reach[1], rows)
    nearest = min(max(reach[0], 0), rows - 1)
    return (first, stop) if first < stop else (nearest, nearest + 1)


def _like(axis: Axis, extent: Expr) -> Expr:
    number = static(extent)
    return extent if number is None else tirx.IntImm(dtype_of(axis.var), number)


def _settled(value: Expr, row: ir.Var, known: sym.Analyzer) -> Expr:
    """`value`, with the conditions decided that are the same for all elements of the row, and with integers that depend
    on the row alone as numbers."""

    def comparison(node: Expr) -> Expr:
        if row not in collect(node, ir.Var):
            return node
        simple = known.simplify(node)
        return simple if static(simple) is not None else sym.Analyzer().simplify(node)

    def both(node: tirx.And) -> Expr:
        if static(node.a) is not None:
            return node.b if static(node.a) else node.a
        return (node.a if static(node.b) else node.b) if static(node.b) is not None else node

    def choice(node: ir.Call) -> Expr:
        if call_name(node) != "if_then_else" or static(node.args[0]) is None:
            return node
        return node.args[1] if static(node.args[0]) else node.args[2]

    def converted(node: tirx.Cast) -> Expr:
        if not dtype_of(node.value).startswith("int") or row not in collect(node.value, ir.Var):
            return node
        return tirx.Cast(node.ty.dtype, known.simplify(node.value))

    rules = [(_COMPARISONS, comparison), (tirx.And, both), (ir.Call, choice), (tirx.Cast, converted)]
    result: Expr = tvm_ffi.structural_map(value, rules)
    return result
