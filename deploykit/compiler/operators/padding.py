"""Pad and CenterCropPad.

A negative amount crops. Cropping comes first: `reflect`, `edge` and `wrap` repeat only elements that stay.
(Source: ONNX operators Pad, CenterCropPad.)
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import ir, te, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.expressions import compute
from deploykit.compiler.operators.building.imperative import Array, Code, imperative
from deploykit.compiler.operators.building.integers import (
    all_of,
    all_plain,
    both,
    clamp,
    expr,
    floor_mod,
    is_plain,
    less,
    less_equal,
    maximum,
    select,
)
from deploykit.compiler.operators.building.sizes import require_equal
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.filling import element_of, stored

_MODES = ("constant", "reflect", "edge", "wrap")


def pad(
    ctx: Context,
    x: Value,
    amounts: Value,
    axes: Value | None = None,
    *,
    mode: str = "constant",
    value: Value | None = None,
) -> Value:
    """numpy.pad of `axes`, which may count from the end and by default are all. `amounts` has the elements to add
    before each axis, then those after each; negative amounts crop. `value` is a scalar, by default 0.

    Raises `Unsupported` for a mode other than constant, reflect, edge and wrap."""
    if axes is not None and not axes.is_known:
        amounts, axes = _by_axis(ctx, x.rank, amounts, axes), None
    where = range(x.rank) if axes is None else [int(n) for n in ctx.ints(axes, -x.rank, x.rank - 1, "axis")]
    given = ctx.ints(amounts, hint="pad")
    if len(given) != 2 * len(where):
        raise Unsupported(f"{len(given)} amounts for {len(where)} axes")
    before: list[IntExpr] = [0] * x.rank
    after: list[IntExpr] = [0] * x.rank
    for axis, front, back in zip(where, given, given[len(where) :], strict=False):
        before[axis], after[axis] = front, back
    shape = [ctx.simplify(maximum(n + b + a, 0)) for n, b, a in zip(x.shape, before, after, strict=True)]
    return _pad_to(ctx, x, shape, before, mode, value)


def center_crop_pad(ctx: Context, x: Value, sizes: Value, axes: Sequence[int]) -> Value:
    """`x` with its `axes`, which count from the front, cropped or padded with zeros to `sizes`, on both sides equally.
    An odd element is cropped or added after."""
    shape = list(x.shape)
    before: list[IntExpr] = [0] * x.rank
    given = ctx.ints(sizes, minimum=0, hint="size")
    if len(given) != len(axes):
        raise Unsupported(f"{len(given)} sizes for {len(axes)} axes")
    for axis, size in zip(axes, given, strict=True):
        shape[axis] = size
        before[axis] = _half(ctx, size - x.shape[axis])
    return _pad_to(ctx, x, shape, before, "constant")


def _pad_to(
    ctx: Context, x: Value, shape: Sequence[IntExpr], before: Sequence[IntExpr], mode: str, value: Value | None = None
) -> Value:
    """`x` in a result of `shape`, with `before` elements in front of it."""
    if mode not in _MODES:
        raise Unsupported(f"mode '{mode}'; the modes are {', '.join(_MODES)}")
    axes = [_Axis(ctx, n, m, b) for n, m, b in zip(x.shape, shape, before, strict=True)]
    if all(axis.untouched for axis in axes):
        return x
    if mode != "constant":
        for axis in axes:
            ctx.require(less_equal(1, axis.kept), "an empty axis cannot be padded by its own elements")
    fixed = stored(0, x.dtype) if value is None else None if value.array is None else element_of(value.array)

    def build(t: te.Tensor, *fill: te.Tensor) -> te.Tensor:
        def element(*index: ir.Expr) -> ir.Expr:
            places = [axis.place(i) for axis, i in zip(axes, index, strict=True)]
            if mode != "constant":
                return t(*(axis.repeated(p, mode) for axis, p in zip(axes, places, strict=True)))
            inside = all_of(axis.holds(p) for axis, p in zip(axes, places, strict=True))
            source = t(*(axis.crop + p for axis, p in zip(axes, places, strict=True)))
            filler = fixed if fixed is not None else fill[0](*([0] * len(fill[0].shape)))
            return source if is_plain(inside) else tirx.if_then_else(inside, source, filler)

        return compute(shape, element, name="pad")

    operands = (x, value) if mode == "constant" and value is not None and fixed is None else (x,)
    return ctx.kernel("pad", build, *operands, dtype=x.dtype)


class _Axis:
    """One axis of size `size`, which becomes `result` with `before` elements in front."""

    def __init__(self, ctx: Context, size: IntExpr, result: IntExpr, before: IntExpr) -> None:
        self.untouched = is_plain(before) and before == 0 and ctx.equal(size, result)
        after = ctx.simplify(result - size - before)
        self.crop = ctx.simplify(maximum(-before, 0))
        self.front = ctx.simplify(maximum(before, 0))
        self.kept = ctx.simplify(size - self.crop - maximum(-after, 0))
        self.bounces_once = ctx.proves(both(less(before, self.kept), less(after, self.kept)))

    def place(self, index: ir.Expr) -> ir.Expr:
        """The position relative to the first element that stays."""
        return index - self.front

    def holds(self, place: ir.Expr) -> bool | ir.Expr:
        """Whether the element at `place` is one that stays."""
        return True if self.untouched else both(less_equal(0, place), less(place, self.kept))

    def repeated(self, place: ir.Expr, mode: str) -> ir.Expr:
        """The index of the element that is repeated at `place`."""
        if self.untouched:
            return place
        last = self.kept - 1
        if mode == "edge":
            return self.crop + clamp(place, 0, last)
        if mode == "wrap":
            return self.crop + floor_mod(place, maximum(self.kept, 1))
        if self.bounces_once:
            return self.crop + (last - tirx.abs(last - tirx.abs(place)))
        period = maximum(last * 2, 1)
        phase = floor_mod(place, period)
        return self.crop + select(less(last, phase), period - phase, phase)


def _by_axis(ctx: Context, rank: int, pads: Value, axes: Value) -> Value:
    """The amounts before and after every axis of `rank`, given those of axes that are only known at run time."""
    amounts, where = (ctx.cast(v, "int64") for v in (pads, axes))
    count = ctx.product(where.shape)
    require_equal(ctx, "pads has not two amounts for each axis", ctx.product(amounts.shape), count * 2)

    def write(code: Code, amounts: Array, where: Array, result: Array) -> None:
        for i in range(2 * rank):
            result[i] = expr(0)
        with code.loop("k", count) as k:
            axis = code.cell("axis", clamp(where[k], -rank, rank - 1))
            place = code.cell("place", select(axis.value < 0, axis.value + rank, axis.value))
            result[place.value] = amounts[k]
            result[place.value + rank] = amounts[k + count]

    flat = [ctx.reshape(v, (ctx.product(v.shape),)) for v in (amounts, where)]
    shape = ((2 * rank,), "int64")
    return ctx.kernel("pads_by_axis", lambda *t: imperative("pads_by_axis", t, [shape], write), *flat, dtype="int64")


def _half(ctx: Context, difference: IntExpr) -> IntExpr:
    """Half of the difference, rounded towards 0: the elements that are cropped or added in front."""
    if all_plain([difference]):
        return abs(difference) // 2 * (1 if difference > 0 else -1)
    return ctx.simplify(tirx.truncdiv(expr(difference), expr(2)))
