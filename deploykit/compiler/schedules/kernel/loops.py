"""Builders of loops, local buffers and vector expressions, which every rule uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tvm_ffi
from tvm import ir, tirx

from deploykit.compiler.schedules.kernel.stages import Axis
from deploykit.compiler.tir.rewriting import Buffer, Expr, collect, sequence, substitute
from deploykit.compiler.tir.values import as_index, const, dtype_of, static

Body = Callable[[Expr], tirx.Stmt]


def index_of(axis: Axis, value: Expr) -> Expr:
    """`value`, converted to the dtype of the axis that it replaces."""
    dtype = dtype_of(axis.var)
    return value if dtype_of(value) == dtype else value.astype(dtype)


def loop(name: str, extent: Expr | int, body: Body, kind: tirx.ForKind = tirx.ForKind.SERIAL) -> tirx.Stmt:
    """`for name in range(extent): body(name)`. With a constant extent of 0 there is no code, with 1 a single copy."""
    count = static(extent)
    if count == 0:
        return sequence([])
    if count == 1:
        return body(const(0))
    var = ir.Var(name, "int64")
    return tirx.For(var, const(0), as_index(extent), kind, body(var))


class Code:
    """Statements under construction, with names for values that are computed once."""

    def __init__(self) -> None:
        self._statements: list[tirx.Stmt] = []

    def let(self, name: str, value: Expr) -> Expr:
        """A name for an integer that is evaluated here. A constant or a variable is returned as it is."""
        if isinstance(value, ir.Var | tirx.IntImm):
            return value
        var = ir.Var(name, dtype_of(value))
        self.add(tirx.Bind(var, value))
        return var

    def add(self, *statements: tirx.Stmt) -> None:
        self._statements.extend(statements)

    def statement(self) -> tirx.Stmt:
        return sequence(self._statements)


def evaluated_once(body: tirx.Stmt) -> tirx.Stmt:
    """`body`, with every named value in a local buffer of one element.

    Simplification copies the value of a name to all its uses, so the code for LLVM would grow with the depth of the
    names. A local buffer prevents this and becomes a register in the end.
    """
    binds = collect(body, tirx.Bind)
    cells = {bind.var: local(bind.var.name, 1, dtype_of(bind.var)) for bind in binds}
    if not cells:
        return body

    def use(var: ir.Var, kind: tvm_ffi.DefRegionKind) -> Expr:
        cell = cells.get(var) if kind == tvm_ffi.DefRegionKind.NONE else None
        return var if cell is None else tirx.BufferLoad(cell, [const(0)])

    def block(statements: tirx.SeqStmt) -> tirx.Stmt:
        flat: list[tirx.Stmt] = []
        for statement in statements.seq:
            if isinstance(statement, tirx.Bind):
                cell = cells[statement.var]
                flat += [tirx.AllocBuffer(cell), tirx.BufferStore(cell, statement.value, [const(0)])]
            elif isinstance(statement, tirx.SeqStmt):
                flat += statement.seq
            else:
                flat.append(statement)
        return tirx.SeqStmt(flat)

    result: tirx.Stmt = tvm_ffi.structural_map(body, (tirx.SeqStmt, block), with_def_region_kind=(ir.Var, use))
    return result


def nested(axes: Sequence[Axis], body: tirx.Stmt, parallel: bool = False) -> tirx.Stmt:
    """`body` under loops over fresh copies of `axes`, the first one outermost. With `parallel`, the outermost is
    parallel.

    A parallel loop with few iterations absorbs the loops inside of it, until it has enough iterations for threads.
    """
    if parallel:
        count = _shared_out(axes)
        if count > 1:
            outer, inner = axes[:count], nested(axes[count:], body)
            return collapsed(outer, inner)
    fresh = [ir.Var(axis.var.name.removeprefix("v_"), dtype_of(axis.var)) for axis in axes]
    body = substitute(body, dict(zip((axis.var for axis in axes), fresh, strict=True)))
    for position, (axis, var) in reversed(list(enumerate(zip(axes, fresh, strict=True)))):
        kind = tirx.ForKind.PARALLEL if parallel and position == 0 else tirx.ForKind.SERIAL
        body = tirx.For(var, tirx.IntImm(dtype_of(var), 0), axis.extent, kind, body)
    return body


ENOUGH = 64
"""The known number of iterations that is enough for a parallel loop."""


def _shared_out(axes: Sequence[Axis]) -> int:
    """The number of leading axes that a parallel loop covers. A symbolic extent counts as 1."""
    known = 1
    for count, axis in enumerate(axes):
        if known >= ENOUGH:
            return count
        known *= axis.static or 1
    return len(axes)


def collapsed(axes: Sequence[Axis], body: tirx.Stmt) -> tirx.Stmt:
    """`body` under one parallel loop over all of `axes` together."""
    extents = [as_index(axis.extent) for axis in axes]
    total = extents[0]
    for extent in extents[1:]:
        total = total * extent

    def at(index: Expr) -> tirx.Stmt:
        code = Code()
        values: dict[ir.Var, Expr] = {}
        for axis, place in zip(axes, unravel(index, extents), strict=True):
            value = code.let(axis.var.name.removeprefix("v_"), place)
            values[axis.var] = index_of(axis, value)
        code.add(substitute(body, values))
        return code.statement()

    return loop("task", total, at, tirx.ForKind.PARALLEL)


def vectorized(lanes: int, body: Body) -> tirx.Stmt:
    """`body` for `lanes` consecutive indices, as vector operations."""
    return loop("lane", lanes, body, tirx.ForKind.VECTORIZED)


def unrolled(name: str, extent: int, body: Body, spelled: bool) -> tirx.Stmt:
    """`body` for every index, unrolled: `spelled` out here, else when the kernel is lowered."""
    if spelled:
        return sequence([body(const(index)) for index in range(extent)])
    return loop(name, extent, body, tirx.ForKind.UNROLLED)


def main_and_tail(name: str, extent: Expr | int, lanes: int, body: Body) -> list[tirx.Stmt]:
    """`body` over `range(extent)`: first in whole vectors, then for single elements."""
    count = static(extent)
    if lanes == 1 or (count is not None and count < lanes):
        return [loop(name, extent, body)]
    whole: Expr | int = tirx.floordiv(extent, const(lanes)) if count is None else count // lanes
    main = loop(name, whole, lambda outer: vectorized(lanes, lambda lane: body(outer * lanes + lane)))
    if count is not None and count % lanes == 0:
        return [main]
    rest: Expr | int = tirx.floormod(extent, const(lanes)) if count is None else count % lanes
    return [main, loop(f"{name}_tail", rest, lambda inner: body(whole * lanes + inner))]


def local(name: str, size: int, dtype: str) -> Buffer:
    """A buffer of `size` elements, which will be in registers or on the stack."""
    return tirx.decl_buffer((size,), dtype, name, scope="global")


def without_units(axes: Sequence[Axis]) -> tuple[tuple[Axis, ...], dict[ir.Var, Expr]]:
    """The axes whose extent is not 1, and the value 0 for the others."""
    units: dict[ir.Var, Expr] = {axis.var: tirx.IntImm(dtype_of(axis.var), 0) for axis in axes if axis.static == 1}
    return tuple(axis for axis in axes if axis.var not in units), units


def unravel(index: Expr, extents: Sequence[Expr]) -> list[Expr]:
    """The row-major coordinates of `index`, which must not be negative, in a box of `extents`. The first extent is not
    used."""
    coordinates: list[Expr] = []
    for position, extent in reversed(list(enumerate(extents))):
        if position == 0:
            coordinates.append(index)
        elif static(extent) == 1:
            coordinates.append(const(0))
        else:
            coordinates.append(tirx.truncmod(index, extent))
            index = tirx.truncdiv(index, extent)
    return coordinates[::-1]
