"""Finds the requantisation of sums in expressions."""

from __future__ import annotations

from dataclasses import dataclass

from tvm import ir
from tvm.ir.prim import expr as prim

from deploykit.compiler.tir.rewriting import Expr, call_name
from deploykit.compiler.tir.values import dtype_of


@dataclass(frozen=True)
class Requantization:
    """`saturate(round(float32(total) * factor + bias) + zero)` of an int32 `total`, each step rounded to float32, ties
    to even at the end. `low` and `high` are the ends of the results before `zero` is added."""

    total: Expr
    factor: ir.TensorLoad
    bias: ir.TensorLoad
    low: int
    high: int
    zero: int
    dtype: str


def requantization_of(value: Expr) -> Requantization | None:
    """What `value` computes, if it is requantisation and nothing else."""
    zero = 0
    dtype = dtype_of(value)
    if dtype not in ("int8", "uint8", "int16") or not isinstance(value, prim.Cast):
        return None
    value = value.value
    if isinstance(value, prim.Add | prim.Sub) and isinstance(value.b, prim.IntImm):
        zero = int(value.b) if isinstance(value, prim.Add) else -int(value.b)
        value = value.a
    rounded = value.value if isinstance(value, prim.Cast) and dtype_of(value) == "int32" else None
    if not isinstance(rounded, ir.Call) or call_name(rounded) != "nearbyint":
        return None
    ends: list[int] = []
    value = rounded.args[0]
    for kind in (prim.Min, prim.Max):
        if not isinstance(value, kind) or not isinstance(value.b, prim.FloatImm) or value.b.value % 1:
            return None
        ends.append(int(value.b.value))
        value = value.a
    if not isinstance(value, prim.Add) or not isinstance(value.a, prim.Mul):
        return None
    total, factor, bias = value.a.a, value.a.b, value.b
    if (
        not isinstance(factor, ir.TensorLoad)
        or not isinstance(bias, ir.TensorLoad)
        or factor.source.same_as(bias.source)
    ):
        return None
    if not isinstance(total, prim.Cast) or dtype_of(total.value) != "int32" or dtype_of(total) != "float32":
        return None
    high, low = ends
    return Requantization(total.value, factor, bias, low, high, zero, dtype)
