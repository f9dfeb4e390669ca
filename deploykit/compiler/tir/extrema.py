"""Maxima and minima that are NaN if an operand is.

TIR's own `Max` and `Min` give the second operand if either operand is NaN. They are for integers, for bounds of
positions, and for results that are NaN anyway, such as the peak of a softmax. Values of a model take the functions
here.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tvm import ir, tirx

from deploykit.compiler.tir.rewriting import Expr, call_name
from deploykit.compiler.tir.values import dtype_of

if TYPE_CHECKING:
    from collections.abc import Callable

EXTREMA: dict[str, type] = {"maximum": tirx.Max, "minimum": tirx.Min}
"""Operators of two floats by name, and the class of expressions that they are for numbers."""

_PURE = 1
"""TVM's `CallEffectKind`."""

for _operator in EXTREMA:
    ir.register_op_attr(f"tirx.{_operator}", "TCallEffectKind", _PURE)
    ir.register_op_attr(f"tirx.{_operator}", "TScriptPrinterName", _operator)
    ir.register_op_attr(f"tirx.{_operator}", "TVectorizable", value=True)


def maximum(a: Expr, b: Expr) -> Expr:
    """The greater of two values; NaN if either is."""
    return _extremum("maximum", tirx.max, a, b)


def minimum(a: Expr, b: Expr) -> Expr:
    """The lesser of two values; NaN if either is."""
    return _extremum("minimum", tirx.min, a, b)


def operation_of(expr: Expr) -> type:
    """The class of an expression; for a call of `EXTREMA`, the class that it is for numbers."""
    return EXTREMA.get(call_name(expr), ir.Call) if isinstance(expr, ir.Call) else type(expr)


def _extremum(name: str, plain: Callable[[Expr, Expr], Expr], a: Expr, b: Expr) -> Expr:
    if not dtype_of(a).startswith("float"):
        return plain(a, b)
    for known, other in ((a, b), (b, a)):
        if isinstance(known, tirx.FloatImm) and not math.isnan(known.value):
            return plain(known, other)
    return tirx.call_intrin(dtype_of(a), f"tirx.{name}", a, b)
