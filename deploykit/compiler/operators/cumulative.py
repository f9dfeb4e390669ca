"""Running totals along an axis: CumSum, CumProd.

The axis is an operand; one that is computed at run time gives loops over data dims. `exclusive` leaves out an
element's own value, `reverse` runs from the end. Totals of float16 are kept in float32.
"""

from __future__ import annotations

from tvm import ir

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.errors import Unsupported
from deploykit.compiler.operators.integers import equal, from_end, is_plain, less, select
from deploykit.compiler.operators.value import Value


def around(ctx: Context, x: Value, operand: Value) -> tuple[IntExpr, IntExpr, IntExpr]:
    """How many elements are before, along and after the axis."""
    if x.rank == 0:
        raise Unsupported("a scalar has no axis to run along")
    axis = ctx.simplify(from_end(ctx.ints(operand, minimum=-x.rank, maximum=x.rank - 1, hint="axis")[0], x.rank))
    if is_plain(axis) and not 0 <= axis < x.rank:
        raise Unsupported(f"axis {axis} is outside of a tensor of rank {x.rank}")

    def size(i: int, condition: bool | ir.Expr) -> IntExpr:
        return select(condition, x.shape[i], 1)

    axes = range(x.rank)
    return (
        ctx.product([size(i, less(i, axis)) for i in axes]),
        ctx.product([size(i, equal(i, axis)) for i in axes]),
        ctx.product([size(i, less(axis, i)) for i in axes]),
    )
