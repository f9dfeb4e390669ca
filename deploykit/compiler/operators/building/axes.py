"""Axes as operators get them: integers, where negative ones count from the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.integers import from_end, is_plain
from deploykit.compiler.operators.building.value import Value

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr
    from deploykit.compiler.operators.building.context import Context


def from_front(axis: int, rank: int, name: str = "axis") -> int:
    """An axis of a tensor of `rank`, counted from the front. Raises `Unsupported` when out of range."""
    if not -rank <= axis < rank:
        raise Unsupported(f"{name} {axis} is outside of a tensor of rank {rank}")
    return axis % rank


def all_from_front(ctx: Context, axes: Value | Sequence[int], rank: int) -> list[IntExpr]:
    """Axes of a tensor of `rank`, counted from the front. Axes that are computed at run time are expressions.

    Raises `Unsupported` for constant axes out of range."""
    given: Sequence[IntExpr] = (
        ctx.ints(axes, minimum=-rank, maximum=rank - 1, hint="axis") if isinstance(axes, Value) else axes
    )
    for axis in given:
        if is_plain(axis) and not -rank <= axis < rank:
            raise Unsupported(f"axis {axis} is outside of a tensor of rank {rank}")
    return [ctx.simplify(from_end(axis, rank)) for axis in given]
