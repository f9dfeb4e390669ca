"""Loops over neighbouring elements, four at a time, by functions on vectors in C (`codegen.c.vectors`), where the store
of an element has a form for all lanes (`lanes`)."""

from __future__ import annotations

from collections.abc import Callable

from tvm import ir, tirx

from deploykit.compiler.schedules.kernel.loops import loop
from deploykit.compiler.schedules.pointwise.lanes import stored
from deploykit.compiler.tir.rewriting import Expr, sequence, substitute
from deploykit.compiler.tir.values import as_index, const, static

LANES = 4


def in_fours(name: str, count: Expr, store: Callable[[Expr], tirx.BufferStore]) -> tirx.Stmt | None:
    """`store(i)` for `count` neighbouring elements, or `None` if these have no form with four lanes."""
    index = ir.Var(name, "int64")
    four = stored(index, store(index), _Fours())
    if four is None:
        return None
    known = static(count)
    whole = tirx.floordiv(as_index(count), const(LANES)) if known is None else const(known // LANES)
    rest = count - whole * LANES if known is None else const(known % LANES)
    main = loop(name, whole, lambda i: substitute(four, {index: i * LANES}))
    return sequence([main, loop(f"{name}_rest", rest, lambda i: store(whole * LANES + i))])


class _Fours:
    """Values are calls that give four lanes."""

    def same(self, kind: str, element: Expr) -> Expr:
        return _call(f"same_{kind}x4", element)

    def load(self, kind: str, first: ir.TensorLoad) -> Expr:
        return _call(f"load_{kind}x4", tirx.address_of(first))

    def apply(self, operation: str, *operands: Expr) -> Expr:
        return _call(f"{operation}x4", *operands)

    def store(self, kind: str, first: ir.TensorLoad, value: Expr) -> tirx.Stmt:
        return tirx.Evaluate(tirx.call_extern("int32", f"store_{kind}x4", tirx.address_of(first), value))


def _call(name: str, *operands: Expr) -> Expr:
    kind = name.rpartition("_")[2]
    dtype = (
        "float32x4" if name.startswith("float_") or (kind == "f32x4" and not name.startswith("round_")) else "int32x4"
    )
    return tirx.call_extern(dtype, name, *operands)
