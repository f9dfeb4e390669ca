"""The state of what a stage computes, element by element, at valid places and at places in the padding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import tvm_ffi
from tvm import ir, sym, tirx
from tvm.ir.prim import expr as prim

from deploykit.compiler.ragged.conversion.contents import Content, PaddedAxes, RaggedDim
from deploykit.compiler.ragged.conversion.places import ranges
from deploykit.compiler.ragged.conversion.states import (
    EXACT,
    LAST,
    LENGTH,
    VALID,
    State,
    along,
    binary,
    call,
    constant,
    converted,
    garbage,
    join,
    select,
    summed,
)
from deploykit.compiler.schedules.kernel.stages import Axis, Stage, analyzer
from deploykit.compiler.tir.extrema import operation_of
from deploykit.compiler.tir.rewriting import Buffer, Expr, call_name, collect, is_zero, substitute
from deploykit.compiler.tir.values import dtype_of


def is_moved(index: Expr) -> bool:
    """Whether an index is a position, and a number that is added to it or subtracted."""
    return isinstance(index, tirx.Add | tirx.Sub) and isinstance(index.a, ir.Var) and isinstance(index.b, tirx.IntImm)


@dataclass(frozen=True)
class StageAxes:
    """The axes of a stage: the one of the batch, and the ragged ones among its outer and its reduced axes. A stage
    without a batch has no ragged axes."""

    batch: Axis | None
    ragged: tuple[Axis, ...]
    reduced: tuple[Axis, ...]


def stage_axes(stage: Stage, dim: RaggedDim) -> StageAxes:
    batch = next((axis for axis in stage.axes if axis.extent.same_as(dim.batch)), None)
    if batch is None:
        return StageAxes(None, (), ())
    ragged = tuple(axis for axis in stage.axes if axis.extent.same_as(dim.extent))
    return StageAxes(batch, ragged, tuple(axis for axis in stage.reduce if axis.extent.same_as(dim.extent)))


class StageEvaluation:
    """Evaluates one stage, given the contents of the buffers that it reads."""

    def __init__(self, stage: Stage, dim: RaggedDim, contents: Mapping[Buffer, Content]) -> None:
        self.stage, self.dim, self.contents = stage, dim, contents
        self.axes = stage_axes(stage, dim)
        self.known: sym.Analyzer = analyzer((*stage.axes, *stage.reduce))
        self.indexing = False
        """Whether the expression that is evaluated is part of an index, where the size of a dim limits it."""

    def result(self, padded: frozenset[ir.Var]) -> State:
        """The state of the result where the indices `padded` lie in the padding."""
        stage = self.stage
        if any(axis.extent.same_as(self.dim.batch) for axis in stage.reduce):
            return garbage(f"it combines elements along '{self.dim.batch.name}'")
        if not stage.reduce:
            stores = stage.stores
            return join([self.value(store.value, padded) for store in stores])
        if stage.combine is None:
            if self.axes.reduced:
                return garbage(f"it searches along '{self.dim.extent.name}', where it may find padding")
            return join([self.value(store.value, padded) for store in stage.stores])
        operator = operation_of(stage.store.value) if stage.store is not None else tirx.Add
        state = self.value(stage.combine.source, padded)
        if not self.axes.reduced:
            return along(operator, state)
        if operator is tirx.Add and state.is_constant(1) and len(stage.reduce) == 1:
            behind = self.value(stage.combine.source, padded | {stage.reduce[0].var})
            if behind.is_constant(0):
                return LENGTH
        for some in list(product((False, True), repeat=len(self.axes.reduced)))[1:]:
            inside = {axis.var for axis, chosen in zip(self.axes.reduced, some, strict=True) if chosen}
            padding = self.value(stage.combine.source, padded | inside)
            combined = summed(operator, state, padding)
            if combined is None:
                return garbage(f"it combines elements along '{self.dim.extent.name}', and the padding is not masked")
            state = combined
        return state

    def value(self, expr: Expr, padded: frozenset[ir.Var]) -> State:
        """The state of an expression where the indices `padded` lie in the padding."""
        match expr:
            case tirx.IntImm() | tirx.FloatImm():
                return constant(float(expr.value))
            case ir.Var():
                if expr.same_as(self.dim.extent) and not self.indexing:
                    return garbage(f"it computes with the size of '{expr.name}', which padding changes")
                return VALID
            case tirx.Cast():
                return converted(self.value(expr.value, padded), dtype_of(expr))
            case tirx.Not():
                state = self.value(expr.a, padded)
                return constant(not state.value) if state.kind == "constant" else state
            case tirx.Select():
                return select(*(self.value(e, padded) for e in (expr.condition, expr.true_value, expr.false_value)))
            case ir.TensorLoad():
                return self.load(expr, padded)
            case prim.CmpExpr() if (truth := self.decided(expr, padded)) is not None:
                return constant(truth)
            case prim.BinaryOpExpr() | prim.CmpExpr() | tirx.And() | tirx.Or():
                return binary(type(expr), self.value(expr.a, padded), self.value(expr.b, padded))
            case ir.Call():
                if self.is_limit(expr):
                    return join(self.value(part, padded) for part in expr.args[1:])
                return call(call_name(expr), [self.value(argument, padded) for argument in expr.args])
        return join([VALID, *(self.value(part, padded) for part in collect(expr, ir.TensorLoad))])

    def decided(self, condition: Expr, padded: frozenset[ir.Var]) -> bool | None:
        """Whether a comparison holds; None if that is not known."""
        truth = self.ordered(condition, padded)
        return self.bounded(condition, padded) if truth is None else truth

    def ordered(self, condition: Expr, padded: frozenset[ir.Var]) -> bool | None:
        """Whether a comparison of positions holds because positions in the padding come after all valid ones; None if
        that does not decide it."""
        if collect(condition, ir.TensorLoad):
            return None
        used = set(collect(condition, ir.Var))
        ragged = [axis.var for axis in (*self.axes.ragged, *self.axes.reduced) if axis.var in used]
        inside, before = [var for var in ragged if var in padded], [var for var in ragged if var not in padded]
        if len(inside) != 1 or len(before) != 1:
            return None
        further = ir.Var("further", "int64")
        self.known.bind(further, ir.Range(tirx.IntImm("int64", 0), tirx.IntImm("int64", 1 << 40)))
        replaced = substitute(condition, {inside[0]: before[0] + 1 + further})
        if self.known.can_prove(replaced):
            return True
        return False if self.known.can_prove(tirx.Not(replaced)) else None

    def bounded(self, condition: Expr, padded: frozenset[ir.Var]) -> bool | None:
        """Whether a comparison of a position with the length of the instance holds; None if it is none."""
        inside = {tirx.LT: (0, True), tirx.GE: (0, False), tirx.GT: (1, True), tirx.LE: (1, False)}
        if type(condition) not in inside:
            return None
        side, truth = inside[type(condition)]
        position, length = (condition.a, condition.b) if side == 0 else (condition.b, condition.a)
        while isinstance(position, tirx.Cast) and dtype_of(position) in EXACT:
            position = position.value
        ragged = [axis.var for axis in (*self.axes.ragged, *self.axes.reduced) if position.same_as(axis.var)]
        if not ragged or self.value(length, padded) != LENGTH:
            return None
        return truth != (ragged[0] in padded)

    def is_limit(self, choice: ir.Call) -> bool:
        """Whether a choice gives an element of another position, or zero where the tensor ends."""
        if call_name(choice) != "if_then_else" or not isinstance(choice.args[1], ir.TensorLoad):
            return False
        condition, load, other = choice.args
        moved = [index for index in load.indices if is_moved(index)]
        if len(moved) != 1 or not (isinstance(other, tirx.FloatImm | tirx.IntImm) and float(other.value) == 0):
            return False
        simplest = self.known.simplify
        limits = (moved[0] < self.dim.extent, moved[0] >= 0)
        return any(tvm_ffi.structural_equal(simplest(condition), simplest(limit)) for limit in limits)

    def load(self, load: ir.TensorLoad, padded: frozenset[ir.Var]) -> State:
        """The state of an element that is read."""
        content = self.contents.get(load.source)
        if content is None:
            return VALID
        outer, self.indexing = self.indexing, True
        states = [self.value(index, padded) for index in load.indices]
        self.indexing = outer
        for state in states:
            if state.kind == "garbage":
                return state
        if any(self.is_sized(index) for index in load.indices):
            return garbage(f"it takes an index from the size of '{self.dim.extent.name}', which padding changes")
        if not content.is_ragged:
            return content.valid if not content.valid.is_own or self.is_own(load) else VALID
        assert content.batch is not None
        own = self.axes.batch
        if own is None or not load.indices[content.batch].same_as(own.var):
            hint = "" if own is None else ", as to sort or to select sequences"
            return garbage(f"it takes elements of other instances along '{self.dim.batch.name}'{hint}")
        places = [self.places(load.indices[axis], padded) for axis in content.ragged]
        found: list[State] = []
        for chosen in product(*places):
            inside: PaddedAxes = frozenset(axis for axis, out in zip(content.ragged, chosen, strict=True) if out)
            found.append(content.states[inside])
        if any(is_moved(load.indices[axis]) for axis in content.ragged) and not padded:
            return self.beyond(found)
        outside = not padded and len(found) > 1 and found[0].kind != "constant"
        if outside or any(state != found[0] for state in found[1:]):
            return garbage(f"it moves elements along '{self.dim.extent.name}', and a packed tensor holds no padding")
        return found[0]

    def beyond(self, found: Sequence[State]) -> State:
        """The state of an element that lies at a valid position, or behind the last one, where packed tensors have
        zeros. `found` are the states of such elements."""
        if not all(state.is_constant(0) for state in found[1:]):
            return garbage(f"it moves elements along '{self.dim.extent.name}', and the padding is not masked")
        return join((found[0], constant(0)))

    def is_sized(self, index: Expr) -> bool:
        """Whether an index depends on the size of the ragged dim by more than a limit that the size sets, and by more
        than being counted from the end. Loads in it are judged by themselves."""
        match index:
            case ir.TensorLoad() | tirx.IntImm() | tirx.FloatImm():
                return False
            case ir.Var():
                return bool(index.same_as(self.dim.extent))
            case tirx.Min() | tirx.Max():
                sides = [side for side in (index.a, index.b) if not self.is_size(side)]
                return any(map(self.is_sized, sides)) or not sides
            case tirx.Cast():
                return self.is_sized(index.value)
            case tirx.Select():
                return self.is_sized_choice(index.condition, index.true_value, index.false_value)
            case ir.Call() if call_name(index) == "if_then_else":
                return self.is_sized_choice(*index.args)
            case ir.Call():
                return any(map(self.is_sized, index.args))
            case tirx.Not():
                return self.is_sized(index.a)
            case prim.BinaryOpExpr() | prim.CmpExpr() | tirx.And() | tirx.Or():
                return self.is_sized(index.a) or self.is_sized(index.b)
        return True

    def is_sized_choice(self, condition: Expr, yes: Expr, no: Expr) -> bool:
        if self.is_from_end(condition, no):
            return self.is_sized(no)
        return any(map(self.is_sized, (condition, yes, no)))

    def is_from_end(self, condition: Expr, index: Expr) -> bool:
        """Whether a condition says that an index is counted from the end."""
        negative = isinstance(condition, tirx.LT) and is_zero(condition.b)
        return negative and bool(tvm_ffi.structural_equal(condition.a, index))

    def is_size(self, expr: Expr) -> bool:
        """Whether an expression is computed from dims alone."""
        own = {axis.var for axis in (*self.stage.axes, *self.stage.reduce)}
        return not collect(expr, ir.TensorLoad) and own.isdisjoint(collect(expr, ir.Var))

    def is_own(self, access: ir.TensorLoad | tirx.BufferStore) -> bool:
        """Whether an element of a tensor with a batch is one of the instance that the stage computes."""
        buffer = access.source if isinstance(access, ir.TensorLoad) else access.buffer
        indices = zip(access.indices, buffer.shape, strict=True)
        batch = [index for index, extent in indices if extent.same_as(self.dim.batch)]
        return len(batch) == 1 and self.axes.batch is not None and bool(batch[0].same_as(self.axes.batch.var))

    def places(self, index: Expr, padded: frozenset[ir.Var]) -> tuple[bool, ...]:
        """Whether an index along a ragged axis may lie at a valid position (False) or in the padding (True)."""
        if is_zero(index):
            return (False,)
        ragged = (*self.axes.ragged, *self.axes.reduced)
        for axis in ragged:
            if index.same_as(axis.var):
                return (axis.var in padded,)
        for axis in ragged:
            below = axis.var not in padded and self.known.can_prove(index <= axis.var)
            if below and self.known.can_prove(index >= 0):
                return (False,)
        return (False,) if self.is_last(index, padded) else (False, True)

    def is_last(self, index: Expr, padded: frozenset[ir.Var]) -> bool:
        """Whether an index is at most that of the last valid position: limited to the size, and counted from the end if
        it is negative, which it is only without valid positions."""
        match index:
            case tirx.Min() | tirx.Max():
                limits = [side for side in (index.a, index.b) if self.is_size(side)]
                sides = [side for side in (index.a, index.b) if not self.is_size(side)]
                known = ranges(self.stage.axes, self.dim)
                kept = [known.can_prove(n >= 0 if isinstance(index, tirx.Min) else n <= 0) for n in limits]
                return kept == [True] and self.is_last(sides[0], padded)
            case tirx.Select() if self.is_from_end(index.condition, index.false_value):
                return self.is_last(index.false_value, padded)
            case ir.Call() if call_name(index) == "if_then_else" and self.is_from_end(index.args[0], index.args[2]):
                return self.is_last(index.args[2], padded)
        return self.value(index, padded) == LAST
