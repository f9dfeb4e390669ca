"""Sequences and optionals. The length of a sequence is known at import.

A position that is computed at run time is checked then, and picks among the items: the result has the sizes, and the
elements, of the one that it picks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tvm import ir, te, tirx

from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.errors import Unsupported
from deploykit.compiler.operators.expressions import compute
from deploykit.compiler.operators.integers import equal, from_end, select, truth
from deploykit.compiler.operators.strings import STRING
from deploykit.compiler.operators.value import SequenceValue, Value

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr


def chosen(ctx: Context, where: IntExpr, choices: Sequence[tuple[Value, ...]], dtype: str | None) -> SequenceValue:
    """Of several sequences of one length the one at a position."""
    return SequenceValue(tuple(picked_of(ctx, where, column) for column in zip(*choices, strict=True)), dtype)


def picked_of(ctx: Context, where: IntExpr, items: Sequence[Value]) -> Value:
    """Of several tensors the one at a position."""
    if all(v is items[0] for v in items):
        return items[0]
    if len({(v.dtype, v.rank) for v in items}) > 1 or any(v.dtype == STRING for v in items):
        raise Unsupported("a position computed at run time, in a sequence of strings or of different ranks or dtypes")
    shape = [_at(where, [v.shape[axis] for v in items]) for axis in range(items[0].rank)]
    shape = [ctx.simplify(n) for n in shape]

    def build(*tensors: te.Tensor) -> te.Tensor:
        def element(*index: ir.Expr) -> ir.Expr:
            result = tensors[-1](*index)
            for i, tensor in reversed(list(enumerate(tensors[:-1]))):
                result = tirx.if_then_else(truth(equal(where, i)), tensor(*index), result)
            return result

        return compute(shape, element, name="picked")

    return ctx.kernel("picked", build, *items, dtype=items[0].dtype)


def _at(where: IntExpr, sizes: Sequence[IntExpr]) -> IntExpr:
    result = sizes[-1]
    for i, size in reversed(list(enumerate(sizes[:-1]))):
        result = select(equal(where, i), size, result)
    return result


def position_of(ctx: Context, value: Value, count: int, last: int) -> IntExpr:
    """A position in a sequence of `count` items, counted from the front, at most `last`."""
    (position,) = ctx.ints(value, minimum=-count, maximum=last, hint="position")
    position = ctx.simplify(from_end(position, count))
    if isinstance(position, int) and not 0 <= position <= last:
        raise Unsupported(f"position {position} is outside of a sequence of {count}")
    return position
