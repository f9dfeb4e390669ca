"""Storing sums that are in memory, next to each other, for CPUs with Helium."""

from __future__ import annotations

from collections.abc import Callable

from tvm import ir, sym, tirx

from deploykit.compiler.schedules.kernel.loops import loop
from deploykit.compiler.tir.requantization import Requantization, requantization_of
from deploykit.compiler.tir.rewriting import Buffer, Expr, substitute
from deploykit.compiler.tir.values import const, static

Store = Callable[[Expr, Expr], tirx.BufferStore]
"""The store of the finished value of a sum: of the sum, and its index."""


def run(name: str, *operands: Expr) -> tirx.Stmt:
    """A call of a function of `codegen.c.helium`."""
    return tirx.Evaluate(tirx.call_extern("int32", name, *operands))


def address(buffer: Buffer, offset: Expr) -> Expr:
    """The address of an element of a flat buffer."""
    return tirx.address_of(tirx.BufferLoad(buffer, [offset]))


def stored(store: Store, sums: Buffer, count: Expr) -> tirx.Stmt:
    """Store what becomes of the first `count` sums: as vectors, if they are requantised."""
    index = ir.Var("j", "int64")
    each = store(tirx.BufferLoad(sums, [index]), index)
    found = requantization_of(each.value)
    vectors = None if found is None else _requantized(each, found, sums, index, count)
    return vectors or loop("j", count, lambda j: store(tirx.BufferLoad(sums, [j]), j))


def _requantized(
    store: tirx.BufferStore, found: Requantization, sums: Buffer, index: ir.Var, count: Expr
) -> tirx.Stmt | None:
    """Requantisation in vectors, or `None` if results, factors or biases are not next to each other."""
    if not isinstance(found.total, ir.TensorLoad) or not found.total.source.same_as(sums):
        return None
    known = sym.Analyzer()

    def stride(offset: Expr) -> int | None:
        return static(known.simplify(substitute(offset, {index: index + 1}) - offset))

    def first(load: tirx.BufferStore | ir.TensorLoad) -> Expr:
        return known.simplify(substitute(load.indices[0], {index: const(0)}))

    factor, bias = found.factor, found.bias
    steps = [stride(node.indices[0]) for node in (store, factor, bias)]
    if steps not in ([1, 1, 1], [1, 0, 1]):
        return None
    scaled = address(factor.source, first(factor)) if steps[1] else tirx.BufferLoad(factor.source, [first(factor)])
    ends = [tirx.FloatImm("float32", end) for end in (found.low, found.high)]
    return run(
        "requantize_row" if steps[1] else "requantize_row_evenly",
        address(store.buffer, first(store)),
        sums,
        scaled,
        address(bias.source, first(bias)),
        count,
        *ends,
        tirx.IntImm("int32", found.zero),
    )
