"""How products with weights in groups of few bits are represented in Relax.

Both are pure packed calls, which passes treat as opaque. The weights are constants in a format
(`operators.quantized.groups`): codes (rows, depth), scales (rows, groups), and minima if the format has them.

    deploykit.grouped_matmul(format, x, codes, scales, minima...)     x (..., M, depth) -> float32 (..., M, rows)
    deploykit.grouped_rows(format, indices, codes, scales, minima...)    the rows at indices, float32 (..., depth)

Indices are within the matrix: the caller has checked them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import ir, relax

MATMUL, ROWS = "deploykit.grouped_matmul", "deploykit.grouped_rows"


def matmul(format_: str, x: relax.Expr, weight: Sequence[relax.Constant], type_: relax.TensorType) -> relax.Call:
    """`x` times the transpose of a matrix."""
    return relax.call_pure_packed(MATMUL, ir.StringImm(format_), x, *weight, ty_args=[type_])


def rows(format_: str, indices: relax.Expr, weight: Sequence[relax.Constant], type_: relax.TensorType) -> relax.Call:
    """Rows of a matrix."""
    return relax.call_pure_packed(ROWS, ir.StringImm(format_), indices, *weight, ty_args=[type_])


@dataclass(frozen=True)
class GroupedCall:
    """A call of `function`: `MATMUL`, whose `operand` is `x`, or `ROWS`, whose `operand` are indices."""

    function: str
    format: str
    operand: relax.Expr
    weight: Sequence[relax.Constant]


def read(value: relax.Expr | None) -> GroupedCall | None:
    """What such a call says; None for any other value."""
    if not isinstance(value, relax.Call) or getattr(value.op, "name", "") != "relax.call_pure_packed":
        return None
    function, *given = value.args
    if not isinstance(function, relax.ExternFunc) or str(function.global_symbol) not in (MATMUL, ROWS):
        return None
    format_, operand, *weight = given
    return GroupedCall(str(function.global_symbol), str(format_.value), operand, weight)
