"""Checks that indices are in range, as the standard requires for Gather, Scatter and similar operators.

Constant indices are checked when the model is imported, against the dims of the axis if it has any. Indices that
`ranges` proves to be in range need no check. All others are checked when the model runs, before the kernel that uses
them (`index_checks`). In any case, that kernel never leaves its tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from deploykit.compiler.operators.building.index_checks import check, shortened
from deploykit.compiler.operators.building.integers import both, less_equal
from deploykit.compiler.operators.building.ranges import range_of, within

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr
    from deploykit.compiler.operators.building.context import Context, Site
    from deploykit.compiler.operators.building.value import Value

LARGEST_INDEX = (1 << 40) - 1
"""`DK_MAX_EXTENT`."""


def checked_indices(ctx: Context, indices: Value, sizes: Sequence[IntExpr], position: int = 1) -> Value:
    """`indices` into axes of `sizes`, where negative ones count from the end. With several sizes, element `i` is an
    index into axis `i % len(sizes)`."""
    return checked(ctx, indices, [(0 - size, size - 1) for size in sizes], position)


def checked(
    ctx: Context,
    indices: Value,
    bounds: Sequence[tuple[IntExpr, IntExpr]],
    position: int = 1,
    what: str = "indices",
) -> Value:
    """Integers that are checked to lie within inclusive `bounds`; with several, element `i` within
    `bounds[i % len(bounds)]`. They are the operand `position` of the current operator, or made of it; errors call them
    `what`. Use the result instead of the operand. It may be of a narrower dtype.

    Raises `Unsupported` for constants out of bounds."""
    bounds = [(ctx.simplify(low), ctx.simplify(high)) for low, high in bounds]
    if indices.is_known:
        _require_known(ctx, indices, bounds)
        return indices
    known = range_of(indices)
    if all(within(ctx, known, low, high) for low, high in bounds):
        return indices
    if len({(str(low), str(high)) for low, high in bounds}) == 1:
        bounds = bounds[:1]
    indices = indices.narrow or indices
    indices = indices if indices.dtype in ("int32", "int64") else ctx.cast(indices, "int64")
    tensor = ctx.tensor(indices)
    key = (tensor, str(bounds))
    if key not in ctx.checked:
        ctx.checked[key] = ctx.builder.emit(check(tensor, bounds, _described(ctx.site, position, what)), "checked")
    return replace(indices, var=ctx.checked[key], last=None, narrow=None)


def _described(site: Site, position: int, what: str) -> str:
    name = site.operands[position] if position < len(site.operands) else ""
    return f"{site.operator} '{shortened(site.name)}': the {what} '{shortened(name)}'"


def _require_known(ctx: Context, indices: Value, bounds: Sequence[tuple[IntExpr, IntExpr]]) -> None:
    for column, (low, high) in enumerate(bounds):
        if indices.array is not None:
            own = indices.array.reshape(-1)[column :: len(bounds)]
            elements: Sequence[IntExpr] = [int(own.min()), int(own.max())] if own.size else []
        else:
            elements = list(indices.known_elements().reshape(-1)[column :: len(bounds)])
        for element in dict.fromkeys(elements) if indices.array is not None else elements:
            within_bounds = both(less_equal(low, element), less_equal(element, high))
            ctx.require(within_bounds, "index {} is outside of {}..{}", element, low, high)
