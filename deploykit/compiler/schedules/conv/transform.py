"""The transforms of Winograd tiles, `matrix @ tile @ matrix^T`, in registers: one vector of channels at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import tirx

from deploykit.compiler.operators.anchors.winograd import POINTS
from deploykit.compiler.schedules.kernel.loops import local, vectorized
from deploykit.compiler.tir.rewriting import Buffer, Expr, sequence
from deploykit.compiler.tir.values import const, dtype_of


def both_ways(
    matrix: Sequence[Sequence[int]],
    lanes: int,
    dtype: str,
    value: Callable[[Expr, Expr, Expr], Expr],
    put: Callable[[int, int, Expr, Expr], tirx.Stmt],
) -> tirx.Stmt:
    """`matrix @ value @ matrix^T`, where each element is a vector; `put` stores the results."""
    rows = len(matrix)
    half = local("half", rows * POINTS * lanes, dtype)
    statements: list[tirx.Stmt] = [tirx.AllocBuffer(half)]
    for q in range(POINTS):
        for a, factors in enumerate(matrix):
            statements.append(_weighted(factors, lanes, _down(value, q), _half(half, a, q, lanes)))
    for a in range(rows):
        for b, factors in enumerate(matrix):
            statements.append(_weighted(factors, lanes, _along(half, a, lanes), _result(put, a, b)))
    return sequence(statements)


def _weighted(
    factors: Sequence[int], lanes: int, value: Callable[[int, Expr], Expr], put: Callable[[Expr, Expr], tirx.Stmt]
) -> tirx.Stmt:
    """The sum of values times these factors, as a vector."""

    def element(lane: Expr) -> tirx.Stmt:
        total: Expr | None = None
        for index, factor in sorted(enumerate(factors), key=lambda item: abs(item[1]) != 1):
            if not factor:
                continue
            term = value(index, lane)
            if total is None:
                total = term if factor == 1 else term * tirx.const(factor, dtype_of(term))
            elif abs(factor) == 1:
                total = total + term if factor > 0 else total - term
            else:
                total = total + term * tirx.const(factor, dtype_of(term))
        assert total is not None, "no row of a transform's matrix is zero"
        return put(lane, total)

    return vectorized(lanes, element)


def _down(value: Callable[[Expr, Expr, Expr], Expr], q: int) -> Callable[[int, Expr], Expr]:
    return lambda index, lane: value(const(index), const(q), lane)


def _half(half: Buffer, a: int, q: int, lanes: int) -> Callable[[Expr, Expr], tirx.Stmt]:
    return lambda lane, result: tirx.BufferStore(half, result, [lane + (a * POINTS + q) * lanes])


def _along(half: Buffer, a: int, lanes: int) -> Callable[[int, Expr], Expr]:
    return lambda index, lane: tirx.BufferLoad(half, [lane + (a * POINTS + index) * lanes])


def _result(put: Callable[[int, int, Expr, Expr], tirx.Stmt], a: int, b: int) -> Callable[[Expr, Expr], tirx.Stmt]:
    return lambda lane, result: put(a, b, lane, result)
