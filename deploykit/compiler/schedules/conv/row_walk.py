"""Helpers for rows and runs: coordinates of consecutive rows without divisions, and runs cut into vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import ir, tirx

from deploykit.compiler.schedules.kernel.loops import Code, index_of, local, loop, main_and_tail, unravel, vectorized
from deploykit.compiler.schedules.kernel.stages import Axis
from deploykit.compiler.tir.rewriting import Expr, sequence
from deploykit.compiler.tir.values import as_index, const, static


class Walk:
    """The coordinates of consecutive rows, kept in local cells. The first are found by division, the next by
    counting."""

    def __init__(self, code: Code, axes: Sequence[Axis], first: Expr) -> None:
        self._axes = axes
        self._cells = [local(f"at{i}", 1, "int64") for i in range(len(axes))]
        starts = unravel(first, [as_index(axis.extent) for axis in axes])
        for cell, start in zip(self._cells, starts, strict=True):
            code.add(tirx.AllocBuffer(cell), tirx.BufferStore(cell, start, [const(0)]))

    def values(self) -> dict[ir.Var, Expr]:
        return {
            axis.var: index_of(axis, tirx.BufferLoad(cell, [const(0)]))
            for axis, cell in zip(self._axes, self._cells, strict=True)
        }

    def advance(self) -> tirx.Stmt:
        """Advance to the next row."""
        statement: tirx.Stmt | None = None
        for axis, cell in zip(self._axes, self._cells, strict=True):
            value = tirx.BufferLoad(cell, [const(0)])
            onward = tirx.BufferStore(cell, value + 1, [const(0)])
            if statement is None:
                statement = onward
                continue
            back = tirx.BufferStore(cell, const(0), [const(0)])
            carry = tirx.IfThenElse(value == as_index(axis.extent), sequence([back, statement]), None)
            statement = sequence([onward, carry])
        return statement if statement is not None else sequence([])


def pieces(name: str, count: Expr, lanes: int, body: Callable[[Expr], tirx.Stmt]) -> list[tirx.Stmt]:
    """`body` for `count` consecutive indices: in whole vectors, then, if `count` is known, in halves of vectors."""
    known = static(count)
    if known is None or lanes == 1:
        return main_and_tail(name, count, lanes, body)
    whole = known // lanes
    statements: list[tirx.Stmt] = [_vectors(name, whole, lanes, body)] if whole else []
    done = whole * lanes
    while done < known:
        lanes //= 2
        if known - done >= lanes:
            statements.append(_vector(done, lanes, body))
            done += lanes
    return statements


def _vectors(name: str, count: int, lanes: int, body: Callable[[Expr], tirx.Stmt]) -> tirx.Stmt:
    return loop(name, count, lambda outer: vectorized(lanes, lambda lane: body(outer * lanes + lane)))


def _vector(start: int, lanes: int, body: Callable[[Expr], tirx.Stmt]) -> tirx.Stmt:
    return vectorized(lanes, lambda lane: body(const(start) + lane))
