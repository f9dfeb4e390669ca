"""Teams: invocations that compute a row together.

A team is a subgroup if the device has subgroups, else a workgroup; a team that is alone is a workgroup. The number of
its invocations (`size`) is only known when the shader runs. The invocations divide the elements of a row among them,
`size` neighbours at a time. They compute sums and the like together (`agreed`), after which all of them have the value.
An invocation cannot see what others of its team store.

`team_rows` takes consecutive stages that share their leading axes (softmax, normalisations, reductions along contiguous
elements, and of all elements). At least one of them must reduce a whole row to one value, and no invocation may read
elements that others stored. If there is one row, and it has more than `ALONE` elements, it takes only stages that
reduce it: the others have work for many teams. Temporaries with one value per row stay in the invocations; others are
in the memory of the device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TypeVar

from tvm import ir, sym, tirx

from deploykit.compiler.decisions import Declined
from deploykit.compiler.devices.gpu import Gpu
from deploykit.compiler.schedules.fallback import plain
from deploykit.compiler.schedules.kernel.access import Views, analyse, fuse, pinned, static_stride, values_of
from deploykit.compiler.schedules.kernel.finish import finish_of
from deploykit.compiler.schedules.kernel.loops import (
    Code,
    collapsed,
    index_of,
    local,
    loop,
    unravel,
    vectorized,
    without_units,
)
from deploykit.compiler.schedules.kernel.stages import Axis, Nest, Stage
from deploykit.compiler.schedules.reduction.blocks import BLOCK, blocks_of
from deploykit.compiler.schedules.reduction.row_kernels import Rows, rows_of
from deploykit.compiler.tir.extrema import operation_of
from deploykit.compiler.tir.rewriting import Buffer, Expr, call_name, collect, is_zero, sequence, substitute
from deploykit.compiler.tir.values import as_index, const, dtype_of

Term = TypeVar("Term", Expr, tirx.BufferStore)

LANE, SIZE = "tirx.team_lane", "tirx.team_size"
"""Operators without operands: the number of an invocation in its team, and the size of the team."""

AGREED: Mapping[object, str] = {
    tirx.Add: "tirx.team_add",
    tirx.Mul: "tirx.team_mul",
    tirx.Max: "tirx.team_max",
    tirx.Min: "tirx.team_min",
}
"""Operators that reduce a value over all invocations of a team; each invocation gets the result."""

SAME = "tirx.team_same"
"""An operator that gives each invocation of a team the operand of the first one. Its result is uniform: a condition on
it may enclose an agreement."""

_PURE, _READS_STATE = 1, 2
"""TVM's `CallEffectKind`. An agreement reads state, because its result depends on other invocations."""

for _operator, _effect in {
    LANE: _PURE,
    SIZE: _PURE,
    SAME: _READS_STATE,
    **dict.fromkeys(AGREED.values(), _READS_STATE),
}.items():
    ir.register_op_attr(_operator, "TCallEffectKind", _effect)
    ir.register_op_attr(_operator, "TScriptPrinterName", _operator.removeprefix("tirx."))
    ir.register_op_attr(_operator, "TVectorizable", value=True)

ALONE = 1 << 14
"""The most elements of a row that one team computes for the whole kernel."""

SHORT = 32
"""With fewer elements than this, a reduction is left to one invocation."""

FLOATS = ("float32", "float16")
"""The dtypes that vectors may have."""

DTYPES = (*FLOATS, "int32")
"""The dtypes that a team can reduce."""


@dataclass(frozen=True)
class Way:
    """A statement that computes something, at least for some sizes. `team`: each iteration of its parallel loop is for
    a team, else for an invocation."""

    body: tirx.Stmt
    team: bool = False


def lane() -> Expr:
    """The number of the invocation in its team."""
    return tirx.call_intrin("int64", LANE)


def agreed(operator: object, value: Expr) -> Expr:
    """The reduction of `value` over all invocations of the team."""
    return tirx.call_intrin(str(value.ty), AGREED[operator], value)


def same(value: Expr) -> Expr:
    """An integer that all invocations of the team have, in a form that the device knows to be the same for all."""
    return tirx.call_intrin(str(value.ty), SAME, value)


def shared_out(count: Expr, body: Callable[[Expr], tirx.Stmt]) -> tirx.Stmt:
    """`body(index)` for all of `count` indices, divided among the invocations of a team; neighbours take neighbours."""
    code = Code()
    own, size = code.let("own", lane()), code.let("size", tirx.call_intrin("int64", SIZE))
    steps = tirx.truncdiv(count + (size - 1) - own, size)
    code.add(loop("step", steps, lambda step: body(step * size + own)))
    return code.statement()


def once(statement: tirx.Stmt) -> tirx.Stmt:
    """A statement that only one invocation of a team runs."""
    return tirx.IfThenElse(lane() < 1, statement, None)


def team_rows(nest: Nest, position: int) -> Rows | Declined:
    """The longest run of stages from `position` on that a team can compute, or the reason why there is none."""
    declined = Declined("it reduces no rows of neighbours that are long enough")
    for stop in range(len(nest.stages), position, -1):
        run = nest.stages[position:stop]
        stages = [stage for stage in run if isinstance(stage, Stage)]
        if len(stages) < len(run) or not any(map(_reduces_a_row, stages)):
            continue
        others = (*nest.stages[:position], *nest.stages[stop:])
        rows = rows_of(stages, nest.temporaries, others, longest=1, least=0)
        if isinstance(rows, Declined):
            declined = rows
        elif not all(_agreeable(stage) for stage in rows.stages):
            declined = Declined(f"it reduces other types than {', '.join(DTYPES)}")
        elif not without_units(rows.axes)[0] and any(map(_has_work_for_many, rows.stages)):
            declined = Declined(f"one team would compute more than {ALONE} elements")
        elif not _apart(rows):
            declined = Declined("an invocation would read what others store")
        else:
            return rows
    return declined


def team(rows: Rows, views: Views, gpu: Gpu) -> tirx.Stmt:
    """A statement that computes `rows`, one row per iteration of the parallel loop."""
    own = set(rows.locals)
    lanes = gpu.lanes if all(_in_vectors(stage, gpu.lanes) for stage in rows.stages) else 1
    body = [_stage(stage, views, stage.outputs[0] in own, lanes) for stage in rows.stages]
    declared = [s for buffer in rows.locals for s in (tirx.AllocBuffer(buffer), *views.declarations(buffer))]
    axes, units = without_units(rows.axes)
    statement = substitute(sequence([*declared, *body]), units)
    return collapsed(axes, statement) if axes else statement


def _reduces_a_row(stage: Stage) -> bool:
    """Whether a stage reduces enough contiguous elements, or any that only one invocation would reduce otherwise."""
    reduce, units = without_units(stage.reduce)
    if stage.combine is None or not reduce:
        return False
    if _whole(stage) and prod(axis.static or SHORT for axis in reduce) >= SHORT:
        return True
    if (reduce[-1].static or SHORT) < SHORT:
        return False
    found = analyse([substitute(stage.combine.source, units)], reduce)
    return any(static_stride(access.strides[-1]) == 1 for access in found)


def _whole(stage: Stage) -> bool:
    """Whether a stage of a row reduces the row to one value."""
    return stage.combine is not None and not without_units(stage.axes)[0]


def _has_work_for_many(stage: Stage) -> bool:
    """Whether a stage of a row computes many elements."""
    return prod(axis.static or ALONE + 1 for axis in stage.axes) > ALONE


def _agreeable(stage: Stage) -> bool:
    return stage.store is not None and (not _whole(stage) or dtype_of(stage.store.buffer) in DTYPES)


def _apart(rows: Rows) -> bool:
    """Whether every invocation reads only those stored elements that it stored itself."""
    depth = len(rows.axes)
    stored = {buffer for stage in rows.stages for buffer in stage.outputs} - set(rows.locals)
    reduced = {stage.outputs[0] for stage in rows.stages if _whole(stage)} & stored
    for stage in rows.stages:
        accumulated = stage.store.buffer if stage.combine is not None and stage.store is not None else None
        loads = [load for load in stage.loads if not load.source.same_as(accumulated)]
        if any(load.source in reduced for load in loads):
            return False
        places = [load.indices for load in loads if load.source in stored]
        if not _whole(stage):
            places += [store.indices for store in stage.stores if store.buffer in stored]
        if any(not _in_order(indices[depth:], stage.reduce if _whole(stage) else stage.axes) for indices in places):
            return False
    return True


def _in_order(indices: Sequence[Expr], axes: Sequence[Axis]) -> bool:
    """Whether an element's index is the current position of the loop over `axes`."""
    loops, units = without_units(axes)
    used = [index for index in indices if not is_zero(index) and index not in units]
    return len(used) == len(loops) and all(i.same_as(a.var) for i, a in zip(used, loops, strict=True))


def _in_vectors(stage: Stage, lanes: int) -> bool:
    """Whether a stage of a row is a whole number of vectors, along which every access is constant or contiguous."""
    whole = _whole(stage)
    if stage.store is None or (stage.reduce and not whole):
        return False
    axes = stage.reduce if whole else stage.axes
    node: Expr | tirx.BufferStore = stage.store
    if stage.combine is not None:
        node = substitute(stage.combine.source, without_units(stage.axes)[1])
    found = analyse([node], axes)
    fixed = pinned([node.value if isinstance(node, tirx.BufferStore) else node], axes)
    fused = fuse(axes, found, fixed)
    if not fused:
        return True
    choices = [call for call in collect(node, ir.Call) if call_name(call) == "if_then_else"]
    nested = [load for outer in stage.loads for index in outer.indices for load in collect(index, ir.TensorLoad)]
    if len(fused) > 1 or (fused[0].axis.static or 1) % lanes or fixed or choices or nested:
        return False
    strides = [static_stride(access.strides[fused[0].inner]) for access in found]
    kept = stage.combine is not None or strides[0] == 1
    return kept and all(s in (0, 1) for s in strides) and all(dtype_of(a.buffer) in FLOATS for a in found)


def _stage(stage: Stage, views: Views, own: bool, lanes: int) -> tirx.Stmt:
    """The statement for a stage of a row, in vectors of `lanes`. `own`: every invocation keeps the result, else one
    invocation stores it."""
    if _whole(stage):
        return _reduced(stage, views, own, lanes)
    body: tirx.Stmt
    if stage.store is not None and not stage.reduce:
        axes, body = _fused(stage.axes, stage.store, [stage.store.value], views)
    else:
        axes, units = without_units(stage.axes)
        body = substitute(sequence(plain(replace(stage, axes=()), in_place=False)), units)
    if not axes:
        return body if own else once(body)
    return _over(axes, lanes, lambda values, _: substitute(body, values))


def _over(axes: Sequence[Axis], lanes: int, body: Callable[[dict[ir.Var, Expr], Expr], tirx.Stmt]) -> tirx.Stmt:
    """`body(values, lane)` for all values of `axes`, divided among the invocations in vectors of `lanes`."""
    extents = [as_index(axis.extent) for axis in axes]
    count: Expr = const(1)
    for extent in extents:
        count = count * extent

    def at(index: Expr, lane: Expr) -> tirx.Stmt:
        places = unravel(index * lanes + lane, extents)
        return body({axis.var: index_of(axis, place) for axis, place in zip(axes, places, strict=True)}, lane)

    vectors = sym.Analyzer().simplify(tirx.truncdiv(count, const(lanes)))
    return shared_out(vectors, lambda index: vectorized(lanes, lambda lane: at(index, lane)))


def _fused(axes: Sequence[Axis], node: Term, values: Sequence[Expr], views: Views) -> tuple[tuple[Axis, ...], Term]:
    """The fewest loops that cover `axes`, and `node` in terms of them."""
    found = analyse([node], axes)
    fused = fuse(axes, found, pinned(values, axes))
    loops, places = tuple(one.axis for one in fused), values_of(fused, axes)
    if isinstance(node, tirx.BufferStore):
        return loops, substitute(views.store(node), places)
    return loops, substitute(views.value(node), places)


def _reduced(stage: Stage, views: Views, own: bool, lanes: int) -> tirx.Stmt:
    """The value of a row: each invocation reduces its elements, then the team reduces the results."""
    combine = stage.combine
    assert combine is not None
    assert stage.store is not None
    cells, total = (local(name, n, dtype_of(stage.store.buffer)) for name, n in (("found", lanes), ("all", 1)))
    _, units = without_units(stage.axes)
    summand = substitute(combine.source, units)
    axes, whole = _fused(stage.reduce, summand, [summand], views)
    blocks = blocks_of(combine, dtype_of(stage.store.buffer), axes, BLOCK * SHORT * lanes)
    source = substitute(whole, blocks.places)

    def block(own: Buffer) -> list[tirx.Stmt]:
        def take(values: dict[ir.Var, Expr], lane: Expr) -> tirx.Stmt:
            return tirx.BufferStore(own, combine.operator(own[lane], substitute(source, values)), [lane])

        return [_over(blocks.inner, lanes, take)]

    found: Expr = cells[const(0)]
    for lane in range(1, lanes):
        found = combine.operator(found, cells[const(lane)])
    operator = operation_of(combine.operator(found, found))
    store = finish_of(stage, views)(total[const(0)], units)
    return sequence(
        [
            *blocks.accumulate(combine, [cells], block),
            tirx.AllocBuffer(total),
            tirx.BufferStore(total, agreed(operator, found), [const(0)]),
            store if own else once(store),
        ]
    )
