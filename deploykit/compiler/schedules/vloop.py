"""A kernel that runs once for each instance of a ragged batch: a vloop around a kernel for one instance.

    for place in range(batch):
        instance = order[place]
        start = offsets[instance]                       the first token of the instance
        square = squares[instance]                      for tensors with the ragged dim twice
        length = offsets[instance + 1] - start
        <the stages of a kernel for one instance>       extents may be `length`, indices may add `start`

The stages are those of any kernel with symbolic dims, so the rules for kernels schedule them (`scheduled`). Then the
kernel's own parallel loop and the vloop become one loop over all instances. It has as many iterations for each instance
as the longest one needs; those that an instance does not have end at once. A shorter instance may have more iterations,
as it is divided otherwise; then it does several in one. `order` begins with the longest instance, so
that threads get even shares. Each instance is computed by the same instructions as alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir, tirx

from deploykit.compiler.devices.cpu import Device
from deploykit.compiler.schedules.kernel.loops import evaluated_once
from deploykit.compiler.tir.rewriting import Buffer, Expr, collect, sequence, substitute
from deploykit.compiler.tir.values import as_index, const, dtype_of

VLOOP = "deploykit.vloop"
"""Annotation of the loop over instances: how many extents depend on the instance. The loop binds its own variables, the
extents last, and then the most that each of these extents is."""

NAMES = ("instance", "start", "square", "length")
"""What the loop binds for each instance, in this order."""

Schedule = Callable[[tirx.PrimFunc, Device], tuple[tirx.PrimFunc, Any]]


@dataclass(frozen=True)
class Instance:
    """The variables of a kernel for one instance: its number, its first token, the sum of the squared lengths before
    it, and its length. `offsets` holds the first token of every instance and, at the end, the number of tokens;
    `squares` the same for squared lengths; `order` the instances, the longest first."""

    number: ir.Var
    start: ir.Var
    square: ir.Var
    length: ir.Var
    offsets: Buffer
    squares: Buffer
    order: Buffer


@dataclass(frozen=True)
class View:
    """An instance's part of a packed tensor, which begins at the index `first` of that tensor."""

    buffer: Buffer
    first: Sequence[Expr]


def new_instance(batch: Expr) -> Instance:
    """Fresh variables and buffers for a kernel."""
    offsets = tirx.decl_buffer([batch + 1], "int64", "offsets", layout=None)
    squares = tirx.decl_buffer([batch + 1], "int64", "squares", layout=None)
    order = tirx.decl_buffer([batch], "int64", "order", layout=None)
    number, start, square, length = (ir.Var(name, "int64") for name in NAMES)
    return Instance(number, start, square, length, offsets, squares, order)


def vloop(root: tirx.Stmt, instance: Instance, batch: Expr, longest: Expr, views: Mapping[Buffer, View]) -> tirx.Stmt:
    """The body of a kernel that runs `root` for every instance. No instance is longer than `longest`. `views` are the
    instance's parts of packed tensors."""
    place = ir.Var("place", "int64")
    offsets, number = instance.offsets, instance.number
    squared = any(instance.square in collect(index, ir.Var) for view in views.values() for index in view.first)
    binds = [
        tirx.Bind(number, instance.order[place]),
        tirx.Bind(instance.start, offsets[number]),
        *([tirx.Bind(instance.square, instance.squares[number])] if squared else []),
        tirx.Bind(instance.length, offsets[number + 1] - offsets[number]),
        tirx.Bind(ir.Var("longest", "int64"), longest),
    ]
    declared = []
    for packed, view in views.items():
        first = tirx.address_of(tirx.BufferLoad(packed, list(view.first)))
        declared.append(tirx.DeclBuffer(view.buffer, data=first))
    body = tirx.SeqStmt([*binds, *declared, root])
    return tirx.For(place, const(0), batch, tirx.ForKind.SERIAL, body, annotations={VLOOP: 1})


def is_vloop(func: tirx.PrimFunc) -> bool:
    """Whether a kernel runs once for each instance."""
    return isinstance(func.body, tirx.For) and VLOOP in func.body.annotations


@dataclass(frozen=True)
class Vloop:
    """A kernel that runs once for each instance, taken apart. `own` are the values of each instance; `longest` gives
    the most that its extents are, and `most` the values of the variables for that. `alone` is the kernel for one
    instance. It takes what the whole kernel takes, then the buffers of `views`, then the values of the instance."""

    loop: tirx.For
    own: list[tirx.Bind]
    longest: dict[ir.Var, Expr]
    most: dict[ir.Var, Expr]
    views: list[tirx.DeclBuffer]
    alone: tirx.PrimFunc


def vloop_of(func: tirx.PrimFunc) -> Vloop:
    """The parts of a kernel for which `is_vloop` holds."""
    loop = func.body
    assert isinstance(loop, tirx.For)
    assert isinstance(loop.body, tirx.SeqStmt)
    *before, root = loop.body.seq
    binds = [statement for statement in before if isinstance(statement, tirx.Bind)]
    count = int(loop.annotations[VLOOP])
    own, bounds = binds[: len(binds) - count], binds[len(binds) - count :]
    longest = {extent.var: bound.value for extent, bound in zip(own[len(own) - count :], bounds, strict=True)}
    most = {bound.var: bound.value for bound in bounds}
    views = [statement for statement in before if isinstance(statement, tirx.DeclBuffer)]
    given = [*func.params, *(view.buffer for view in views), *(bind.var for bind in binds)]
    return Vloop(loop, own, longest, most, views, tirx.PrimFunc(given, root, None, func.attrs))


def scheduled(func: tirx.PrimFunc, device: Device, schedule: Schedule) -> tuple[tirx.PrimFunc, Any]:
    """A vloop scheduled for `device`, and what `schedule` says about the kernel for one instance."""
    found = vloop_of(func)
    loop, own, longest, most, views = found.loop, found.own, found.longest, found.most, found.views
    inner, choices = schedule(found.alone, device)
    parts = _parts(_with_room(inner.body, longest), func, views)
    kind = tirx.ForKind.PARALLEL if device.parallel else tirx.ForKind.SERIAL
    task = parts.task
    if task is None:
        body = sequence([*own, *views, *parts.declared, *parts.statements])
        whole = tirx.For(loop.loop_var, loop.min, loop.extent, kind, substitute(body, most))
        return func.with_body(sequence([*parts.shared, evaluated_once(whole)])), choices
    index, tasks = ir.Var("index", "int64"), as_index(task.extent)
    each = substitute(tasks, longest)
    place = tirx.Bind(loop.loop_var, tirx.truncdiv(index, each))
    first, turn = ir.Var("first", "int64"), ir.Var("turn", "int64")
    turns = tirx.truncdiv(tasks - first + (each - 1), each)
    part = tirx.Bind(task.loop_var, (first + turn * each).astype(dtype_of(task.loop_var)))
    there = tirx.For(turn, const(0), turns, tirx.ForKind.SERIAL, sequence([part, task.body]))
    start = tirx.Bind(first, tirx.truncmod(index, each))
    body = substitute(sequence([place, start, *own, *views, *parts.declared, there]), most)
    whole = tirx.For(index, const(0), loop.extent * each, kind, body)
    return func.with_body(sequence([*parts.shared, evaluated_once(whole)])), choices


@dataclass(frozen=True)
class _Parts:
    """The statements of a kernel for one instance: flat views of params of the whole kernel, flat views of the
    instance's own tensors, and the rest. `task` is the rest if that is one parallel loop of an extent known outside."""

    shared: list[tirx.Stmt]
    declared: list[tirx.Stmt]
    statements: list[tirx.Stmt]

    @property
    def task(self) -> tirx.For | None:
        first = self.statements[0]
        if len(self.statements) > 1 or not isinstance(first, tirx.For) or first.kind != tirx.ForKind.PARALLEL:
            return None
        return None if collect(first.extent, ir.TensorLoad) else first


def _parts(body: tirx.Stmt, func: tirx.PrimFunc, views: Sequence[tirx.DeclBuffer]) -> _Parts:
    whole = [param for param in func.params if tirx.is_buffer_var(param)]
    parts = _Parts([], [], [])
    for statement in statements_of(body):
        bases = collect(statement.data, ir.Var) if isinstance(statement, tirx.DeclBuffer) else []
        if any(base in whole for base in bases):
            parts.shared.append(statement)
        elif any(base.same_as(view.buffer) for base in bases for view in views):
            parts.declared.append(statement)
        else:
            parts.statements.append(statement)
    return parts


def _with_room(body: tirx.Stmt, most: Mapping[ir.Var, Expr]) -> tirx.Stmt:
    """`body`, with buffers allocated for the longest instance. Their strides stay those of the instance."""

    def allocated(statement: tirx.AllocBuffer) -> tirx.Stmt:
        buffer = statement.buffer
        if not any(var in most for extent in buffer.shape for var in collect(extent, ir.Var)):
            return statement
        elements: Expr = const(1)
        for extent in buffer.shape:
            elements = elements * as_index(substitute(extent, most))
        room = tirx.decl_buffer([elements], dtype_of(buffer), f"{buffer.name}_room", scope="global")
        return tirx.SeqStmt([tirx.AllocBuffer(room), tirx.DeclBuffer(buffer, data=room.data)])

    result: tirx.Stmt = tvm_ffi.structural_map(body, (tirx.AllocBuffer, allocated))
    return result


def statements_of(statement: tirx.Stmt) -> list[tirx.Stmt]:
    """The statements of a sequence, or the only one."""
    if isinstance(statement, tirx.SeqStmt):
        return [part for each in statement.seq for part in statements_of(each)]
    return [statement]
