"""Loops over neighbouring elements, four at a time, by functions on vectors in C (`codegen.c.vectors`).

`in_fours` takes a store of one element and replaces each operation by a call on four lanes, with the same bits: sums,
products and limits of float32, sums and products of int32, roundings to integers, and loads of neighbouring elements or
of one that is the same for all lanes. It gives up on anything else.
"""

from __future__ import annotations

from collections.abc import Callable

import tvm_ffi
from tvm import ir, sym, tirx
from tvm.ir.prim import expr as prim

from deploykit.compiler.schedules.kernel.loops import loop
from deploykit.compiler.tir.rewriting import Expr, call_name, collect, sequence, substitute
from deploykit.compiler.tir.values import as_index, const, dtype_of, static

LANES = 4

_ARITHMETIC = {prim.Add: "add", prim.Sub: "sub", prim.Mul: "mul"}
_LIMITS = {prim.Min: "min", prim.Max: "max"}
_KINDS = {"float32": "f32x4", "int32": "i32x4", "int8": "i8x4", "uint8": "u8x4"}


class _NoVector(Exception):
    """An expression has no form with four lanes."""


def in_fours(name: str, count: Expr, store: Callable[[Expr], tirx.BufferStore]) -> tirx.Stmt | None:
    """`store(i)` for `count` neighbouring elements, or `None` if these have no form with four lanes."""
    index = ir.Var(name, "int64")
    try:
        four = _Lanes(index).stored(store(index))
    except _NoVector:
        return None
    known = static(count)
    whole = tirx.floordiv(as_index(count), const(LANES)) if known is None else const(known // LANES)
    rest = count - whole * LANES if known is None else const(known % LANES)
    main = loop(name, whole, lambda i: substitute(four, {index: i * LANES}))
    return sequence([main, loop(f"{name}_rest", rest, lambda i: store(whole * LANES + i))])


def row_of(count: Expr, store: Callable[[Expr], tirx.BufferStore]) -> tirx.Stmt:
    """`store(j)` for `count` neighbouring elements, in fours if they have such a form."""
    return in_fours("j", count, store) or loop("j", count, store)


class _Lanes:
    """Builds calls for the four elements from `index` on."""

    def __init__(self, index: ir.Var) -> None:
        self.index = index
        self.known = sym.Analyzer()

    def stored(self, store: tirx.BufferStore) -> tirx.Stmt:
        dtype, value = dtype_of(store.buffer), store.value
        if dtype not in _KINDS or self._stride(store.indices[0]) != 1:
            raise _NoVector
        if dtype in ("int8", "uint8"):
            if not isinstance(value, prim.Cast) or dtype_of(value.value) != "int32":
                raise _NoVector
            value = value.value
        target = tirx.address_of(tirx.BufferLoad(store.buffer, store.indices))
        return tirx.Evaluate(tirx.call_extern("int32", f"store_{_KINDS[dtype]}", target, self.value(value)))

    def value(self, expr: Expr) -> Expr:
        """Four lanes of an expression: integers of 8 bits have 32."""
        dtype = dtype_of(expr)
        if dtype not in _KINDS:
            raise _NoVector
        if self.index not in collect(expr, ir.Var):
            kind = "f32x4" if dtype == "float32" else "i32x4"
            return _call(f"same_{kind}", expr if dtype in ("float32", "int32") else expr.astype("int32"))
        match expr:
            case ir.TensorLoad():
                return self._load(expr)
            case prim.Cast():
                return self._cast(expr)
            case prim.Add() | prim.Sub() | prim.Mul() if dtype in ("float32", "int32"):
                return _call(f"{_ARITHMETIC[type(expr)]}_{_KINDS[dtype]}", self.value(expr.a), self.value(expr.b))
            case prim.Select() if _is_least(expr):
                return _call("at_least_f32x4", self.value(expr.false_value), self.value(expr.true_value))
            case prim.Min() | prim.Max() if _is_limit(expr):
                return _call(f"{_LIMITS[type(expr)]}_f32x4", self.value(expr.a), self.value(expr.b))
            case _:
                raise _NoVector

    def _load(self, load: ir.TensorLoad) -> Expr:
        if self._stride(load.indices[0]) != 1:
            raise _NoVector
        return _call(f"load_{_KINDS[dtype_of(load)]}", tirx.address_of(load))

    def _cast(self, cast: prim.Cast) -> Expr:
        operand, pair = cast.value, (dtype_of(cast.value), dtype_of(cast))
        match pair:
            case ("int32", "float32"):
                return _call("float_i32x4", self.value(operand))
            case ("int8" | "uint8", "int32"):
                return self.value(operand)
            case ("int32", "int8" | "uint8"):
                return _call(f"narrow_{_KINDS[pair[1]]}", self.value(operand))
            case ("float32", "int32") if isinstance(operand, ir.Call) and call_name(operand) == "nearbyint":
                return _call("round_f32x4", self.value(operand.args[0]))
            case _:
                raise _NoVector

    def _stride(self, offset: Expr) -> int | None:
        """The elements between those of two neighbouring lanes."""
        step = self.known.simplify(substitute(offset, {self.index: self.index + 1}) - offset)
        return static(step)


def _is_limit(expr: prim.Min | prim.Max) -> bool:
    """Whether a limit is a number, so that NaN and zeros of either sign give what they give one by one."""
    limit = expr.b
    if dtype_of(expr) != "float32" or not isinstance(limit, prim.FloatImm) or limit.value != limit.value:
        return False
    return limit.value != 0 or (isinstance(expr, prim.Max) and not str(limit.value).startswith("-"))


def _is_least(expr: prim.Select) -> bool:
    """Whether this is `x < c ? c : x`."""
    less, limit, x = expr.condition, expr.true_value, expr.false_value
    if dtype_of(expr) != "float32" or not isinstance(less, prim.LT) or not isinstance(limit, prim.FloatImm):
        return False
    return all(tvm_ffi.structural_equal(a, b) for a, b in ((less.a, x), (less.b, limit)))


def _call(name: str, *operands: Expr) -> Expr:
    kind = name.rpartition("_")[2]
    dtype = (
        "float32x4" if name.startswith("float_") or (kind == "f32x4" and not name.startswith("round_")) else "int32x4"
    )
    return tirx.call_extern(dtype, name, *operands)
