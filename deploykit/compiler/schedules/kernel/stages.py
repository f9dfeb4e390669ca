"""A PrimFunc as a list of stages, which is the form that rules work on.

`read` takes apart a PrimFunc made of TE blocks, as fusion leaves it. Each block under the root becomes a `Stage` if it
is a perfect nest of zero-based loops bound one to one to the block's axes. Other blocks (bodies of `te.extern`) become
`Opaque` statements, which are kept as they are. A kernel that is a single extern block is declined.

A block with the annotation `deploykit.guarded` stores under a condition, which becomes the `guard` of its stage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tvm import ir, s_tir, sym, tirx
from tvm.ir.prim import expr as prim

from deploykit.compiler.decisions import Declined
from deploykit.compiler.tir.extrema import maximum, minimum
from deploykit.compiler.tir.rewriting import Buffer, Expr, call_name, collect, is_zero, substitute
from deploykit.compiler.tir.values import at_place

GUARDED = "deploykit.guarded"
"""Annotation of a block whose body is `if condition: store`."""


@dataclass(frozen=True)
class Axis:
    """A zero-based loop over `extent`."""

    var: ir.Var
    extent: Expr

    @property
    def static(self) -> int | None:
        """The extent if it is constant, else None."""
        return int(self.extent) if isinstance(self.extent, tirx.IntImm) else None


@dataclass(frozen=True)
class Combine:
    """A reduction: `output = operator(output, source)`, starting from `identity`."""

    operator: Callable[[Expr, Expr], Expr]
    source: Expr
    identity: Expr


@dataclass(frozen=True)
class Stage:
    """One TE block: for all `axes`, run `init` if there are `reduce` axes, then for all `reduce`, run `body`."""

    name: str
    axes: tuple[Axis, ...]
    reduce: tuple[Axis, ...]
    body: tirx.Stmt
    init: tirx.Stmt | None
    annotations: Mapping[str, Any]
    epilogue: tirx.BufferStore | None = None
    """For a reduction: a store that replaces storing the reduced value. It is over `axes`, and its loads of the buffer
    that `body` stores to stand for the value."""
    guard: Expr | None = None
    """The condition under which the stage, or its epilogue, stores."""

    @property
    def store(self) -> tirx.BufferStore | None:
        """The store, if the body is a single one."""
        return self.body if isinstance(self.body, tirx.BufferStore) else None

    @cached_property
    def outputs(self) -> tuple[Buffer, ...]:
        """The buffers that the stage writes."""
        if self.epilogue is not None:
            return (self.epilogue.buffer,)
        return _unique(store.buffer for store in collect(self.body, tirx.BufferStore))

    @property
    def stores(self) -> tuple[tirx.BufferStore, ...]:
        """All stores of the body and the epilogue."""
        extra = [] if self.epilogue is None else [self.epilogue]
        return (*collect(self.body, tirx.BufferStore), *extra)

    @property
    def touched(self) -> tuple[Buffer, ...]:
        """The buffers that the stage reads or writes."""
        return (*self.outputs, *(load.source for load in self.loads))

    @cached_property
    def loads(self) -> tuple[ir.TensorLoad, ...]:
        """All loads of the body and the epilogue, including those of a reduction's own value."""
        extra = [] if self.epilogue is None else collect(self.epilogue, ir.TensorLoad)
        return (*collect(self.body, ir.TensorLoad), *extra)

    @property
    def pointwise(self) -> bool:
        """Whether this stage computes each element of one buffer, at the index of its axes, from other buffers."""
        store = self.store
        if store is None or self.guard is not None or self.reduce:
            return False
        return at_place(store.indices, [axis.var for axis in self.axes])

    @cached_property
    def combine(self) -> Combine | None:
        """The reduction of this stage, if it is a single store of the form `out = op(out, source)`; else None."""
        store = self.store
        if store is None or not self.reduce or not isinstance(self.init, tirx.BufferStore):
            return None
        value = store.value
        operator = _COMBINERS.get(call_name(value) if isinstance(value, ir.Call) else type(value))
        if operator is None or not isinstance(value, ir.Call | prim.BinaryOpExpr):
            return None
        a, b = value.args if isinstance(value, ir.Call) else (value.a, value.b)
        for own, source in ((a, b), (b, a)):
            if isinstance(own, ir.TensorLoad) and own.source.same_as(store.buffer):
                if any(load.source.same_as(store.buffer) for load in collect(source, ir.TensorLoad)):
                    return None
                return Combine(operator, source, self.init.value)
        return None


@dataclass(frozen=True)
class Opaque:
    """A statement that rules treat as a whole."""

    body: tirx.Stmt

    @cached_property
    def touched(self) -> tuple[Buffer, ...]:
        """All buffers that the statement mentions."""
        return _unique(var for var in collect(self.body, ir.Var) if tirx.is_buffer_var(var))


@dataclass(frozen=True)
class Nest:
    """A kernel: its PrimFunc, the buffers it allocates, and its stages in order."""

    func: tirx.PrimFunc
    temporaries: tuple[Buffer, ...]
    stages: tuple[Stage | Opaque, ...]


_COMBINERS: dict[type | str, Callable[[Expr, Expr], Expr]] = {
    tirx.Add: tirx.Add,
    tirx.Mul: tirx.Mul,
    tirx.Max: tirx.Max,
    tirx.Min: tirx.Min,
    "maximum": maximum,
    "minimum": minimum,
}


def read(func: tirx.PrimFunc) -> Nest | Declined:
    """The stages of `func`, or the reason why it has none."""
    root = func.body
    if not isinstance(root, s_tir.SBlockRealize) or len(root.block.iter_vars) or root.block.init is not None:
        return Declined("it is not made of blocks")
    body = root.block.body
    statements = list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]
    if not any(collect(statement, s_tir.SBlockRealize) for statement in statements):
        return Declined("it is one imperative block")
    if any(isinstance(s, tirx.Bind | tirx.AllocBuffer | tirx.DeclBuffer) for s in statements):
        return Declined("it declares values between its blocks")
    stages = tuple(_stage(statement) or Opaque(statement) for statement in statements)
    return Nest(func, tuple(root.block.alloc_buffers), stages)


def _stage(statement: tirx.Stmt) -> Stage | None:
    loops: list[Axis] = []
    while isinstance(statement, tirx.For):
        if not is_zero(statement.min) or statement.annotations or statement.kind != tirx.ForKind.SERIAL:
            return None
        loops.append(Axis(statement.loop_var, statement.extent))
        statement = statement.body
    if not isinstance(statement, s_tir.SBlockRealize) or not _is_true(statement.predicate):
        return None
    block = statement.block
    if len(block.alloc_buffers) or len(block.match_buffers) or collect(block.body, (s_tir.SBlockRealize, tirx.For)):
        return None
    axes: list[Axis] = []
    reduce: list[Axis] = []
    constants: dict[ir.Var, Expr] = {}
    remaining = {loop.var for loop in loops}
    for iter_var, value in zip(block.iter_vars, statement.iter_values, strict=True):
        if isinstance(value, ir.Var) and value in remaining:
            remaining.remove(value)
            target = reduce if iter_var.iter_type == _REDUCE else axes
            target.append(Axis(iter_var.var, iter_var.dom.extent))
        elif is_zero(value):
            constants[iter_var.var] = value
        else:
            return None
    if remaining or any(iter_var.iter_type not in (_SPATIAL, _REDUCE) for iter_var in block.iter_vars):
        return None
    body, init = block.body, block.init
    if constants:
        body = substitute(body, constants)
        init = None if init is None else substitute(init, constants)
    if (init is None) != (not reduce) and not (constants and init is not None):
        return None
    if init is not None and not reduce:
        return None
    guard, body = _guard(body) if GUARDED in block.annotations else (None, body)
    return Stage(block.name_hint, tuple(axes), tuple(reduce), body, init, dict(block.annotations), guard=guard)


def _guard(body: tirx.Stmt) -> tuple[Expr, tirx.Stmt]:
    assert isinstance(body, tirx.IfThenElse)
    return body.condition, body.then_case


_SPATIAL = tirx.IterVar.DataPar
_REDUCE = tirx.IterVar.CommReduce


def scalars_of(func: tirx.PrimFunc) -> list[ir.Var]:
    """The parameters that are not buffers, then the variables of the buffers' shapes in order of first appearance."""
    buffers = [param for param in func.params if tirx.is_buffer_var(param)]
    plain = [param for param in func.params if not tirx.is_buffer_var(param)]
    shapes = [var for buffer in buffers for extent in buffer.shape for var in collect(extent, ir.Var)]
    return list(dict.fromkeys([*plain, *shapes]))


def analyzer(axes: Iterable[Axis]) -> sym.Analyzer:
    """An analyzer that knows the ranges of `axes`."""
    bound = sym.Analyzer()
    for axis in axes:
        zero = tirx.IntImm(str(axis.extent.ty.dtype), 0)
        bound.bind(axis.var, ir.Range(zero, axis.extent))
    return bound


def _is_true(value: Expr) -> bool:
    return isinstance(value, tirx.IntImm) and int(value) == 1


def _unique(buffers: Iterable[Buffer]) -> tuple[Buffer, ...]:
    return tuple(dict.fromkeys(buffers))
