"""Reads the store of one element as operations on neighbouring elements, for functions on vectors in C.

`stored` takes a store of one element and replaces each operation by a call for all lanes, with the same bits: sums,
products and limits of float32, sums and products of int32, roundings to integers, and loads of neighbouring elements or
of one that is the same for all lanes. A `Form` writes the calls.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

import tvm_ffi
from tvm import ir, sym, tirx
from tvm.ir.prim import expr as prim

from deploykit.compiler.tir.rewriting import Expr, call_name, collect, substitute
from deploykit.compiler.tir.values import dtype_of, static

_ARITHMETIC = {prim.Add: "add", prim.Sub: "sub", prim.Mul: "mul"}
_LIMITS = {prim.Min: "min", prim.Max: "max"}
_KINDS = {"float32": "f32", "int32": "i32", "int8": "i8", "uint8": "u8"}

Value = TypeVar("Value")


class Form(Protocol[Value]):
    """How calls for all lanes are written. A kind is `f32`, `i32`, `i8` or `u8`; integers of 8 bits have 32 in
    values."""

    def same(self, kind: str, element: Expr) -> Value:
        """An element that is the same in all lanes, of 32 bits."""
        ...

    def load(self, kind: str, first: ir.TensorLoad) -> Value:
        """Neighbouring elements from `first` on."""
        ...

    def apply(self, operation: str, *operands: Value) -> Value:
        """An operation, such as `add_f32`."""
        ...

    def store(self, kind: str, first: ir.TensorLoad, value: Value) -> tirx.Stmt:
        """The store of neighbouring elements from `first` on, with all that it needs."""
        ...


def stored(index: ir.Var, store: tirx.BufferStore, form: Form[Value]) -> tirx.Stmt | None:
    """The store of elements from `index` on, or `None` if these have no such form."""
    try:
        return _Lanes(index, form).stored(store)
    except _NoVector:
        return None


class _NoVector(Exception):
    """An expression has no form for all lanes."""


class _Lanes(Generic[Value]):
    """Builds calls for the elements from `index` on."""

    def __init__(self, index: ir.Var, form: Form[Value]) -> None:
        self.index, self.form = index, form
        self.known = sym.Analyzer()

    def stored(self, store: tirx.BufferStore) -> tirx.Stmt:
        dtype, value = dtype_of(store.buffer), store.value
        if dtype not in _KINDS or self._stride(store.indices[0]) != 1:
            raise _NoVector
        if dtype in ("int8", "uint8"):
            if not isinstance(value, prim.Cast) or dtype_of(value.value) != "int32":
                raise _NoVector
            value = value.value
        target = tirx.BufferLoad(store.buffer, store.indices)
        return self.form.store(_KINDS[dtype], target, self.value(value))

    def value(self, expr: Expr) -> Value:
        """All lanes of an expression."""
        dtype = dtype_of(expr)
        if dtype not in _KINDS:
            raise _NoVector
        if self.index not in collect(expr, ir.Var):
            wide = expr if dtype in ("float32", "int32") else expr.astype("int32")
            return self.form.same("f32" if dtype == "float32" else "i32", wide)
        match expr:
            case ir.TensorLoad():
                return self._load(expr)
            case prim.Cast():
                return self._cast(expr)
            case prim.Add() | prim.Sub() | prim.Mul() if dtype in ("float32", "int32"):
                name = f"{_ARITHMETIC[type(expr)]}_{_KINDS[dtype]}"
                return self.form.apply(name, self.value(expr.a), self.value(expr.b))
            case prim.Select() if _is_least(expr):
                return self.form.apply("at_least_f32", self.value(expr.false_value), self.value(expr.true_value))
            case prim.Min() | prim.Max() if _is_limit(expr):
                return self.form.apply(f"{_LIMITS[type(expr)]}_f32", self.value(expr.a), self.value(expr.b))
            case _:
                raise _NoVector

    def _load(self, load: ir.TensorLoad) -> Value:
        if self._stride(load.indices[0]) != 1:
            raise _NoVector
        return self.form.load(_KINDS[dtype_of(load)], load)

    def _cast(self, cast: prim.Cast) -> Value:
        operand, pair = cast.value, (dtype_of(cast.value), dtype_of(cast))
        match pair:
            case ("int32", "float32"):
                return self.form.apply("float_i32", self.value(operand))
            case ("int8" | "uint8", "int32"):
                return self.value(operand)
            case ("int32", "int8" | "uint8"):
                return self.form.apply(f"narrow_{_KINDS[pair[1]]}", self.value(operand))
            case ("float32", "int32") if isinstance(operand, ir.Call) and call_name(operand) == "nearbyint":
                return self.form.apply("round_f32", self.value(operand.args[0]))
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
