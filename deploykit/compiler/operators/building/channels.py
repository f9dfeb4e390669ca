"""Values whose channels come last.

Integer convolutions compute their results with the channels last. Such a result is a `Value` of the usual shape (N, C,
...) that has no tensor of its own, but a value `last` (N, ..., C). Operators that do not depend on the order of axes
continue with the `last` values of their inputs. For any other operator the tensor is transposed, once, when it is
needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deploykit.compiler.operators.building.value import Value

if TYPE_CHECKING:
    from deploykit.compiler.operators.building.context import Context


def last_of(ctx: Context, value: Value) -> Value:
    """`value` (N, C, ...) with its channels last."""
    return value.last if value.last is not None else ctx.transpose(value, [0, *range(2, value.rank), 1])


def all_last(ctx: Context, values: Sequence[Value]) -> list[Value] | None:
    """Operands of an elementwise operator with their channels last; `None` if none of them has, or not all can."""
    rank = max((v.rank for v in values), default=0)
    if not any(v.last is not None and v.rank == rank for v in values):
        return None
    moved = [_moved(ctx, v, rank) for v in values]
    return None if any(v is None for v in moved) else [v for v in moved if v is not None]


def _moved(ctx: Context, value: Value, rank: int) -> Value | None:
    """An operand that broadcasts to `rank` axes, with its channels last; `None` if that is not possible."""
    if value.last is not None and value.rank == rank:
        return value.last
    large = [axis for axis, n in enumerate(value.shape) if not (isinstance(n, int) and n == 1)]
    if not large:
        return value
    if large == [value.rank - rank + 1]:
        return ctx.reshape(value, (value.shape[large[0]],))
    return None
