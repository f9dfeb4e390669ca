"""Values that are rounded to bfloat16 before anything reads them: shorter forms of what computes them.

    erf(x)     = x p(x^2)       for |x| < 3, with an error of up to 2.2e-5
    x / y      = x (1 / y)      where y is the same for all x of a vector, so that loops divide once; a subnormal y
                                below 2^-128, whose reciprocal overflows, counts as 0
    exp, exp2, tanh and sigmoid as in `fast_math`

Coefficients: minimax in the error of the function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import tvm_ffi
from tvm.ir import Call
from tvm.ir.prim import expr as prim

from deploykit.compiler.codegen.native import elementary
from deploykit.compiler.codegen.native.parts import clamped, const, named, polynomial
from deploykit.compiler.tir.values import dtype_of

if TYPE_CHECKING:
    from tvm.ir import Expr

_ERF = (
    *(1.1282684803009033, -0.3753148913383484, 0.11107933521270752, -0.02510286308825016),
    *(0.004235428757965565, -0.0005110371275804937, 4.106055712327361e-05, -1.94482504412008e-06),
    4.0742168749829943e-08,
)
_ERF_IS_ONE = 3.0


_FAST = ("tirx.exp", "tirx.exp2", "tirx.tanh", "tirx.sigmoid")


def shortened(value: Expr) -> Expr:
    """An expression of float32 with shorter forms of what it computes."""
    result: Expr = tvm_ffi.structural_map(value, [(Call, _call), (prim.Div, _division)])
    return result


def _call(call: Call) -> Expr:
    if dtype_of(call).partition("x")[0] != "float32":
        return call
    name = getattr(call.op, "name", "")
    if name == "tirx.erf":
        return named(call.args[0], erf)
    expansion = elementary.expand(call, fast=True) if name in _FAST else None
    return call if expansion is None else expansion


def erf(x: Expr) -> Expr:
    return named(
        clamped(x, -_ERF_IS_ONE, _ERF_IS_ONE), lambda y: named(y * y, lambda square: y * polynomial(square, _ERF))
    )


def _division(expr: prim.Div) -> Expr:
    if not isinstance(expr.b, prim.Broadcast) or not dtype_of(expr).startswith("float32"):
        return expr
    return expr.a * (const(1.0, expr.b) / expr.b)
