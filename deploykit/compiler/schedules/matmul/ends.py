"""Products whose depth, or whose columns, end at a place that depends on the row, as in a product with a triangle.

A term of such a sum is `if_then_else(k < end(row), left * right, 0)`, where `end` is affine in one axis of the rows.
The rows of a register tile have different ends. So their steps are split as an operation is in CoRa (Fegade et al.,
MLSys 2022):

    for k < least end of the rows                      the *whole* steps, as in any product
    for k < greatest end of the rows                   each row takes part up to its own end

A row does not take part in a step beyond its end: a product with a 0 would be NaN if the other factor is infinite.

A stage with the guard `column < end(row)` stores the columns of a row up to an end. Its tiles do not reach beyond the
panel with the last column of their rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tvm import ir, tirx

from deploykit.compiler.dims.conversion import as_expr, expression, polynomial
from deploykit.compiler.dims.polynomial import Polynomial
from deploykit.compiler.schedules.kernel.stages import Axis
from deploykit.compiler.tir.rewriting import Expr, call_name, collect, is_zero, substitute


@dataclass(frozen=True)
class Ends:
    """The first step of the depth, or the first column, that a row does not have: `end`, over the axis `row`. It rises
    from row to row, or falls."""

    row: ir.Var
    end: Expr
    rising: bool

    def over(self, rows: ir.Var, values: Mapping[ir.Var, Expr]) -> Ends:
        """The ends over the variable `rows`, with the axes replaced by `values`."""
        return Ends(rows, substitute(self.end, values), self.rising)

    def at(self, row: Expr) -> Expr:
        """The end for a row."""
        return substitute(self.end, {self.row: row})

    def between(self, first: Expr, last: Expr) -> tuple[Expr, Expr]:
        """The least and the greatest end of the rows from `first` to `last`."""
        ends = self.at(first), self.at(last)
        return ends if self.rising else ends[::-1]


def parts_of(source: Expr, axes: tuple[Axis, ...], depth: ir.Var) -> tuple[Expr, Ends | None]:
    """The product that a sum adds, and the ends of its rows if it has some."""
    if not isinstance(source, ir.Call) or call_name(source) != "if_then_else":
        return source, None
    condition, value, other = source.args
    ends = ends_of(condition, axes, depth) if _is_nothing(other) else None
    return (source, None) if ends is None else (value, ends)


def _is_nothing(value: Expr) -> bool:
    return is_zero(value) or (isinstance(value, tirx.FloatImm) and value.value == 0)


def ends_of(condition: Expr, axes: tuple[Axis, ...], depth: ir.Var) -> Ends | None:
    """The ends of an axis, if the condition is `depth < end`."""
    if not isinstance(condition, tirx.LT | tirx.LE) or collect(condition, ir.TensorLoad):
        return None
    room = polynomial(condition.b) - polynomial(condition.a)
    room += Polynomial.constant(1 if isinstance(condition, tirx.LE) else 0)
    end = room + Polynomial.variable(depth)
    rows = [axis.var for axis in axes if axis.var in end.variables]
    if depth in end.variables or len(rows) != 1:
        return None
    step = (end - _at(end, rows[0])).value()
    return None if not step else Ends(rows[0], as_expr(expression(end)), step > 0)


def _at(end: Polynomial, row: ir.Var) -> Polynomial:
    """The end of the row before."""
    before = row - tirx.IntImm(str(row.ty.dtype), 1)
    return polynomial(substitute(as_expr(expression(end)), {row: before}))
