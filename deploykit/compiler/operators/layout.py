"""Operators that change only the order or the shape of the elements.

They are `transpose`, `reshape`, `flatten`, `squeeze` and `unsqueeze`. `shape_of` and `size_of` use only the shape.

All except transpositions are views. Shapes and axes that are computed at run time give shapes over data dims; the run
then checks that the element count fits. (Source: ONNX operators Transpose, Reshape, Flatten, Squeeze, Unsqueeze, Shape,
Size.)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from tvm import ir, tirx

from deploykit.compiler.dims.conversion import is_small
from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.dims.formulas import to_text
from deploykit.compiler.operators.building.axes import all_from_front
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.imperative import Array, Cell, Code, imperative
from deploykit.compiler.operators.building.integers import either, equal, expr, is_plain, maximum, negate, select
from deploykit.compiler.operators.building.sizes import checked_reshape, quotient_of_products, require_rank
from deploykit.compiler.operators.building.value import Value

if TYPE_CHECKING:
    from deploykit.compiler.operators.building.context import Context


def transpose(ctx: Context, x: Value, order: Sequence[int]) -> Value:
    """numpy.transpose. Constants are transposed at import."""
    if sorted(order) != list(range(x.rank)):
        raise Unsupported(f"{list(order)} is not an order of the axes of a tensor of rank {x.rank}")
    return ctx.transpose(x, order)


def reshape(ctx: Context, x: Value, shape: Value, *, zero_copies: bool = True) -> Value:
    """`x` with the sizes in the integer vector `shape`. One of them may be -1, and is then inferred from the element
    count.

    With `zero_copies`, a size of 0 stands for the size of `x` at the same axis."""
    if not shape.is_known:
        require_rank(ctx, shape, 1)
        return _reshape_at_run_time(ctx, x, shape, zero_copies=zero_copies)
    sizes = ctx.ints(shape)
    if zero_copies:
        sizes = [_unless(ctx, n, 0, x.shape[i]) if i < x.rank else n for i, n in enumerate(sizes)]
    return checked_reshape(ctx, x, _infer_minus_one(ctx, x, sizes))


def flatten(ctx: Context, x: Value, axis: int) -> Value:
    """`x` as a matrix: the axes before `axis` become its rows, the others its columns. `axis` may be the rank; a
    negative one counts from there."""
    if not -x.rank <= axis <= x.rank:
        raise Unsupported(f"axis {axis} is outside of a tensor of rank {x.rank}")
    axis = axis + x.rank if axis < 0 else axis
    return ctx.reshape(x, (ctx.product(x.shape[:axis]), ctx.product(x.shape[axis:])))


def shape_of(ctx: Context, x: Value, start: int = 0, end: int | None = None) -> Value:
    """The sizes of the axes `start:end` of `x` as an int64 vector."""
    return ctx.known(list(x.shape)[start:end])


def size_of(ctx: Context, x: Value) -> Value:
    """The number of elements of `x` as an int64 scalar."""
    return ctx.known(ctx.product(x.shape))


def squeeze(
    ctx: Context, x: Value, axes: Value | Sequence[int] | None = None, *, declared_rank: int | None = None
) -> Value:
    """`x` without `axes`, which have size 1; by default without all axes of size 1. `declared_rank` is the rank of the
    result, if the model declares it."""
    if isinstance(axes, Value) and not axes.is_known:
        require_rank(ctx, axes, 1)
        return _reshape_to(ctx, x, _squeezed_shape(ctx, x, axes, x.rank - ctx.length(axes)))
    given = [] if axes is None else all_from_front(ctx, axes, x.rank)
    where = given or _unit_axes(ctx, x, declared_rank)
    for i in where:
        ctx.require(equal(x.shape[i], 1), f"axis {i} to squeeze has size {{}}", x.shape[i])
    return ctx.reshape(x, [n for i, n in enumerate(x.shape) if i not in where])


def _unit_axes(ctx: Context, x: Value, declared_rank: int | None) -> list[IntExpr]:
    """The axes of size 1. A symbolic size is assumed to be larger, which the run checks, unless the declared rank of
    the result shows that it is 1."""
    ones: list[IntExpr] = [i for i, n in enumerate(x.shape) if is_plain(n) and n == 1]
    symbolic = [i for i, n in enumerate(x.shape) if not is_plain(n)]
    if declared_rank == x.rank - len(ones) - len(symbolic):
        return [*ones, *symbolic]
    for i in symbolic:
        larger = negate(equal(x.shape[i], 1))
        if not ctx.proves(larger):
            ctx.shared.notes.append(_choice_of_ranks(ctx, x, i, ones))
        ctx.require(larger, f"axis {i} has size 1, so that the rank of the result would change")
    return ones


def _choice_of_ranks(ctx: Context, x: Value, axis: int, ones: Sequence[IntExpr]) -> str:
    """A note on a size that must not be 1 because an operator leaves out all axes of size 1."""
    size, rank = to_text(x.shape[axis]), x.rank - len(ones)
    ways = ""
    if isinstance(x.shape[axis], ir.Var):
        ways = f": build for one of two ranks, {rank} with --dim {size}=2..N or {rank - 1} with --dim {size}=1"
    return (
        f"{ctx.site.operator} '{ctx.site.name}' leaves out all axes of size 1, so a run with {size} = 1 would change "
        f"the rank of its result, and is refused{ways}"
    )


def unsqueeze(ctx: Context, x: Value, axes: Value | Sequence[int]) -> Value:
    """`x` with new axes of size 1; `axes` are their positions in the result.

    Raises `Unsupported` if they are not distinct."""
    count = ctx.length(axes) if isinstance(axes, Value) else len(axes)
    rank = x.rank + count
    if isinstance(axes, Value) and not axes.is_known:
        require_rank(ctx, axes, 1)
        return _reshape_to(ctx, x, _unsqueezed_shape(ctx, x, axes, rank))
    where = all_from_front(ctx, axes, rank)
    if len(set(where)) != count:
        raise Unsupported(f"the axes {where} are not distinct")
    sizes = iter(x.shape)
    return ctx.reshape(x, [1 if i in where else next(sizes) for i in range(rank)])


def _infer_minus_one(ctx: Context, x: Value, sizes: Sequence[IntExpr]) -> list[IntExpr]:
    """Replace a -1, which may only be known at run time, by the size that the element count leaves."""
    unknown = [i for i, n in enumerate(sizes) if is_plain(n) and n == -1]
    if len(unknown) > 1:
        raise Unsupported("more than one size is -1")
    if unknown:
        rest = quotient_of_products(ctx, x.shape, [n for i, n in enumerate(sizes) if i != unknown[0]])
        return [rest if i == unknown[0] else n for i, n in enumerate(sizes)]
    maybe = [i for i, n in enumerate(sizes) if not is_plain(n) and not ctx.proves(n >= 0)]
    if not maybe:
        return list(sizes)
    known = [maximum(n, 1) if i in maybe else n for i, n in enumerate(sizes)]
    rest = quotient_of_products(ctx, x.shape, known)
    return [_unless(ctx, n, -1, rest) if i in maybe else n for i, n in enumerate(sizes)]


def _unless(ctx: Context, size: IntExpr, special: int, other: IntExpr) -> IntExpr:
    """`other` if `size` is `special`, else `size`. The choice can become long, because each of several reshapes may
    double it. Then the result is `size`, and the run checks that it is not `special`.
    """
    chosen = ctx.simplify(select(equal(size, special), other, size))
    if is_plain(chosen) or is_small(chosen):
        return chosen
    harmless = either(negate(equal(size, special)), equal(size, other))
    ctx.require(harmless, f"a size that must not be {special} is {{}}", size)
    return size


def _reshape_at_run_time(ctx: Context, x: Value, shape: Value, *, zero_copies: bool) -> Value:
    """A reshape to sizes that are only known at run time. A kernel completes them (0 copies a size, -1 is inferred),
    and they are read as dims. Each is bounded by the rest of the element count, so that their product is bounded by
    it."""
    count = ctx.length(shape)
    total = ctx.product(x.shape)

    def write(code: Code, given: Array, sizes: Array) -> None:
        known = code.cell("known", 1)
        for i in range(count):
            size = given[i]
            sizes[i] = (
                tirx.Select(tirx.EQ(size, expr(0)), expr(x.shape[i]), size) if zero_copies and i < x.rank else size
            )
            known.value *= tirx.Select(tirx.EQ(sizes[i], expr(-1)), expr(1), sizes[i])
        left = tirx.floordiv(expr(total), tirx.max(known.value, expr(1)))
        for i in range(count):
            with code.when(tirx.EQ(sizes[i], expr(-1))):
                sizes[i] = left

    full = ctx.proves(total >= 1)
    completed = ctx.kernel(
        "shape",
        lambda t: imperative("shape", [t], [((count,), "int64")], write),
        ctx.cast(shape, "int64"),
        dtype="int64",
    )
    sizes = ctx.ints(
        completed,
        minimum=1 if full else 0,
        maximum=(lambda before: quotient_of_products(ctx, [total], before)) if full else None,
        hint="size",
    )
    return checked_reshape(ctx, x, sizes)


def _squeezed_shape(ctx: Context, x: Value, axes: Value, rank: int) -> Value:
    """The sizes of the axes that are not among `axes`, which are only known at run time."""

    def write(code: Code, given: Array, shape: Array) -> None:
        position = code.cell("position", 0)
        for i, size in enumerate(x.shape):
            gone = _is_among(code, i, given, axes.shape[0], x.rank)
            with code.when(tirx.all(tirx.Not(gone.value), position.value < rank)):
                shape[position.value] = expr(size)
                position.value += 1

    return ctx.kernel("axes", lambda t: imperative("shape", [t], [((rank,), "int64")], write), axes, dtype="int64")


def _unsqueezed_shape(ctx: Context, x: Value, axes: Value, rank: int) -> Value:
    """The sizes of `x` with ones at `axes`, which are only known at run time."""

    def write(code: Code, given: Array, shape: Array) -> None:
        taken = code.cell("taken", 0)
        for i in range(rank):
            new = _is_among(code, i, given, axes.shape[0], rank)
            size: IntExpr = 1
            for k in reversed(range(x.rank)):
                size = select(equal(taken.value, k), x.shape[k], size)
            shape[i] = tirx.Select(new.value, expr(1), expr(size))
            taken.value += tirx.Select(new.value, expr(0), expr(1))

    return ctx.kernel("axes", lambda t: imperative("shape", [t], [((rank,), "int64")], write), axes, dtype="int64")


def _is_among(code: Code, axis: int, axes: Array, count: IntExpr, rank: int) -> Cell:
    found = code.cell("found", tirx.const(value=False, dtype="bool"))
    with code.loop("k", count) as k, code.when(tirx.any(axes[k] == axis, axes[k] == axis - rank)):
        found.value = True
    return found


def _reshape_to(ctx: Context, x: Value, shape: Value) -> Value:
    """`x` with the sizes in a tensor that is computed at run time. Each is a size of `x`, or 1."""
    return checked_reshape(ctx, x, ctx.ints(shape, minimum=0, maximum=reduce(maximum, x.shape, 1), hint="size"))
