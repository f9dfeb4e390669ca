"""Sizes that must fit: the rest of an element count, checked reshapes, sizes that must agree."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import mul
from typing import TYPE_CHECKING

from deploykit.compiler.dims.conversion import expression, polynomial
from deploykit.compiler.dims.polynomial import ONE, Polynomial, factors
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.integers import all_plain, either, equal, floor_div, less, maximum

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr
    from deploykit.compiler.operators.building.context import Context
    from deploykit.compiler.operators.building.value import Value


def quotient_of_products(ctx: Context, total: Sequence[IntExpr], divisor: Sequence[IntExpr]) -> IntExpr:
    """`floor(prod(total) / prod(divisor))` with common factors cancelled; 0 if the divisor is 0."""
    if all_plain(total) and all_plain(divisor):
        known = ctx.product(divisor)
        return floor_div(ctx.product(total), known) if known else 0
    upper, above = _factors(total)
    lower, below = _factors(divisor)
    for factor in list(below):
        if factor in above:
            above.remove(factor)
            below.remove(factor)
    numerator = reduce(mul, above, Polynomial.constant(upper))
    denominator = reduce(mul, below, Polynomial.constant(lower))
    if denominator == ONE:
        return ctx.simplify(expression(numerator))
    bottom = expression(denominator)
    bottom = bottom if ctx.proves(bottom > 0) else maximum(bottom, 1)
    return ctx.simplify(floor_div(expression(numerator), bottom))


def _factors(sizes: Sequence[IntExpr]) -> tuple[int, list[Polynomial]]:
    content = 1
    parts: list[Polynomial] = []
    for size in sizes:
        number, found = factors(polynomial(size))
        content *= number
        parts.extend(part for part in found if part != ONE)
    return content, parts


def checked_reshape(ctx: Context, x: Value, shape: Sequence[IntExpr]) -> Value:
    """A view of `x` with `shape`. If it is not proved that the element counts agree, the run checks it.

    Raises `Unsupported` if they provably differ."""
    total, count = ctx.product(x.shape), ctx.product(shape)
    if not ctx.equal(total, count):
        ctx.require(equal(total, count), "{} elements cannot take a shape of {} elements", total, count)
    return ctx.reshape(x, shape)


def require_rank(ctx: Context, value: Value, *ranks: int) -> None:
    """Raises `Unsupported` for an operand with another number of axes."""
    if value.rank not in ranks:
        wanted = " or ".join(map(str, ranks))
        raise Unsupported(f"{ctx.name_of(value)} has {value.rank} axes; it must have {wanted}")


def only_integer(
    ctx: Context, value: Value, minimum: IntExpr | None = None, maximum: IntExpr | None = None, hint: str = "n"
) -> IntExpr:
    """The only element of an integer operand, read by `Context.ints`. Raises `Unsupported` if there are more."""
    count = ctx.length(value)
    if count != 1:
        raise Unsupported(f"{ctx.name_of(value)} has {count} elements; it must have one")
    return ctx.ints(value, minimum, maximum, hint)[0]


def require_equal(ctx: Context, what: str, a: IntExpr, b: IntExpr) -> None:
    """Require two sizes to agree; the run checks it if it is not proved. `what` starts the message."""
    if not ctx.equal(a, b):
        ctx.require(equal(a, b), f"{what}: {{}} and {{}}", a, b)


def require_source(ctx: Context, size: IntExpr, count: IntExpr) -> None:
    """Require an axis of `size` to have an element if `count` results are picked from it."""
    ctx.require(either(less(0, size), equal(count, 0)), "{} elements are picked from an axis of {}", count, size)
