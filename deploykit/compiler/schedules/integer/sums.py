"""Storing rows of sums that are in memory, by functions on rows (`devices.row_functions`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tvm import ir, sym, tirx

from deploykit.compiler.devices.row_functions import RowFunctions
from deploykit.compiler.schedules.kernel.loops import loop
from deploykit.compiler.schedules.kernel.pointers import address, run
from deploykit.compiler.schedules.pointwise.rows import row_of
from deploykit.compiler.tir.requantization import Requantization, requantization_of
from deploykit.compiler.tir.rewriting import Buffer, Expr, substitute
from deploykit.compiler.tir.values import const, static


@dataclass(frozen=True)
class Sums:
    """`rows` of `count` sums, each `between` elements behind the one before."""

    buffer: Buffer
    rows: Expr
    between: int
    count: Expr


Store = Callable[[Expr, Expr, Expr], tirx.BufferStore]
"""The store of the finished value of a sum: of the sum, its row, and its place in the row."""


def stored(store: Store, sums: Sums, functions: RowFunctions) -> tirx.Stmt:
    """Store what becomes of sums: as vectors, if they are requantised, or if their epilogue has a form in vectors."""

    def one(row: Expr, index: Expr) -> tirx.BufferStore:
        return store(tirx.BufferLoad(sums.buffer, [row * sums.between + index]), row, index)

    row, index = ir.Var("i", "int64"), ir.Var("j", "int64")
    each = one(row, index)
    found = requantization_of(each.value)
    vectors = None if found is None else _requantized(each, found, sums, functions, row, index)
    return vectors or loop("i", sums.rows, lambda i: row_of(functions, sums.count, sums.between, partial(one, i)))


def _requantized(
    store: tirx.BufferStore,
    found: Requantization,
    sums: Sums,
    functions: RowFunctions,
    row: ir.Var,
    index: ir.Var,
) -> tirx.Stmt | None:
    """Requantisation in vectors, or `None` if results, factors or biases are not next to each other."""
    if not isinstance(found.total, ir.TensorLoad) or not found.total.source.same_as(sums.buffer):
        return None
    known = sym.Analyzer()
    nodes: list[tuple[Buffer, Expr]] = [(store.buffer, store.indices[0])]
    nodes += [(load.source, load.indices[0]) for load in (found.factor, found.bias)]

    def strides(var: ir.Var) -> list[Expr]:
        return [known.simplify(substitute(offset, {var: var + 1}) - offset) for _, offset in nodes]

    along, across = [static(step) for step in strides(index)], strides(row)
    if along not in ([1, 1, 1], [1, 0, 1]) or any(static(step) != 0 for step in across[1:]):
        return None
    ends = [tirx.FloatImm("float32", end) for end in (found.low, found.high)]

    def rows(i: Expr, start: Expr, count: Expr) -> tirx.Stmt:
        firsts = [known.simplify(substitute(offset, {row: i, index: const(0)})) for _, offset in nodes]
        results, factor, bias = (address(buffer, at) for (buffer, _), at in zip(nodes, firsts, strict=True))
        if along[1] == 0:
            factor = tirx.BufferLoad(found.factor.source, [firsts[1]])
        of = "_int16" if found.dtype == "int16" else ""
        name = functions.name(f"requantize_rows{'' if along[1] else '_evenly'}{of}")
        given = (results, start, const(sums.between), count, factor, bias, sums.count)
        return run(name, *given, *ends, tirx.IntImm("int32", found.zero))

    if static(sums.rows) == 1 or known.can_prove_equal(across[0], sums.count):
        return rows(const(0), sums.buffer, sums.rows)
    return loop("i", sums.rows, lambda i: rows(i, address(sums.buffer, i * sums.between), const(1)))
