"""Helpers for tensor expressions with int64 indices.

The functions of `te` give an index the dtype of its extent, which is int32 for a Python int, and an expression cannot
combine such an index with a symbolic size. Operators use the functions of this module instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tvm import ir, te, tirx

from deploykit.compiler.operators.building.integers import expr, exprs

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr


def compute(
    shape: Iterable[IntExpr], element: Callable[..., Any], name: str, attrs: Mapping[str, Any] | None = None
) -> te.Tensor:
    """A tensor whose element at an index is `element(*index)`."""
    return te.compute(exprs(shape), element, name=name, attrs=attrs)


def reduce_axis(extent: IntExpr, name: str) -> tirx.IterVar:
    """The axis of a reduction over `0..extent-1`."""
    return te.reduce_axis((expr(0), expr(extent)), name=name)


def double(value: ir.Expr | float) -> ir.Expr:
    """A number in float64."""
    return tirx.const(value, "float64") if isinstance(value, (int, float)) else tirx.Cast("float64", value)
