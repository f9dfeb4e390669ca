"""Replaces choices between float vectors by instructions that treat NaN correctly.

With the relaxed vectors of WebAssembly, LLVM turns a choice that looks like a minimum or a maximum into a relaxed
instruction, which may give any result when an operand is NaN or when both are zeros. This module replaces such choices
by the instructions of `VectorChoices`:

    max(a, b), min(a, b)    ->    maximum(b, a), minimum(b, a), which choose as C's `a > b ? a : b` does
    select(c, a, b)         ->    select(a, b, mask of c)
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import tvm_ffi
from tvm import tirx
from tvm.ir.prim import expr as prim

if TYPE_CHECKING:
    from collections.abc import Callable

    from tvm.ir import Expr

    from deploykit.compiler.codegen.native.cpus import VectorChoices

_REGISTER = {"float32": 4, "float64": 2}
"""The lanes of a vector register, by element dtype."""


def chosen(func: tirx.PrimFunc, by: VectorChoices) -> tirx.PrimFunc:
    """The function, with its choices between float vectors made by the instructions `by`."""
    extremum, select = partial(_extremum, by=by), partial(_select, by=by)
    return func.with_body(tvm_ffi.structural_map(func.body, [((prim.Max, prim.Min), extremum), (prim.Select, select)]))


def _extremum(expr: prim.Max | prim.Min, by: VectorChoices) -> Expr:
    name = by.maximum if isinstance(expr, prim.Max) else by.minimum
    return _by_registers(expr, lambda a, b: tirx.call_llvm_pure_intrin(str(a.ty.dtype), name, b, a), expr.a, expr.b)


def _select(expr: prim.Select, by: VectorChoices) -> Expr:
    if "x" not in str(expr.condition.ty.dtype):
        return expr
    dtype = str(expr.ty.dtype)
    integers = dtype.replace("float", "int")
    zero = tirx.const(0, integers.partition("x")[0]).astype(integers)
    mask = zero - tirx.Cast(integers, expr.condition)

    def choose(true: Expr, false: Expr, mask: Expr) -> Expr:
        bits = str(mask.ty.dtype)
        pair = (tirx.reinterpret(bits, value) for value in (true, false))
        chosen = tirx.call_llvm_pure_intrin(bits, by.select, *pair, mask)
        return tirx.reinterpret(str(true.ty.dtype), chosen)

    return _by_registers(expr, choose, expr.true_value, expr.false_value, mask)


def _by_registers(expr: Expr, function: Callable[..., Expr], *operands: Expr) -> Expr:
    """`function` applied to the operands, register by register; `expr` itself for scalars. Half a register is filled
    with the same elements again."""
    element, _, lanes = str(expr.ty.dtype).partition("x")
    width = _REGISTER.get(element, 0)
    if not lanes or width == 0:
        return expr
    if int(lanes) == width:
        return function(*operands)
    if 2 * int(lanes) == width:
        filled = [tirx.Shuffle([operand, operand], list(range(width))) for operand in operands]
        return tirx.Shuffle([function(*filled)], list(range(int(lanes))))
    if int(lanes) % width:
        return expr
    parts = [
        function(*(tirx.Shuffle([operand], list(range(first, first + width))) for operand in operands))
        for first in range(0, int(lanes), width)
    ]
    return tirx.Shuffle(parts, list(range(int(lanes))))
