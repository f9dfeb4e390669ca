"""Geometry of sliding windows (convolution, pooling) with symbolic sizes, and zero padding.

Per spatial axis of size `n`, with `e = (kernel - 1) * dilation + 1`:

* padding is as given, or such that there are `ceil(n / stride)` windows; that padding is split in two halves, with an
  odd element at the end (`SAME_UPPER`) or at the start (`SAME_LOWER`);
* the number of windows is `(n + padding - e) // stride + 1`. In ceil mode the division rounds up, but a window must
  start before the end padding.

(Source: ONNX operators Conv, MaxPool, AveragePool.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Literal, TypeAlias

from tvm import ir, te, tirx

from deploykit.compiler.dtypes import storage_dtype
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.expressions import compute
from deploykit.compiler.operators.building.integers import ceil_div, floor_div, maximum, minimum
from deploykit.compiler.operators.building.value import Value

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr
    from deploykit.compiler.operators.building.context import Context


Same: TypeAlias = Literal["SAME_UPPER", "SAME_LOWER"]
"""Padding for `ceil(n / stride)` windows, with an odd element at the end or at the start."""

LONGEST_REACH = 2**30 - 1
"""The furthest that strides, dilations and pads may lead along one axis: two of them fit 32 bits."""

MOST_TAPS = 2**24
"""The most elements of a window of constant size."""


@dataclass(frozen=True)
class Windows:
    """Windows over the spatial axes. Every field has one entry per axis; `counts` is the number of windows."""

    sizes: tuple[IntExpr, ...]
    kernel: tuple[IntExpr, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[IntExpr, ...]
    after: tuple[IntExpr, ...]
    counts: tuple[IntExpr, ...]

    @property
    def padded(self) -> bool:
        """Whether a window may reach outside of the data at its start or end."""
        return any(not (isinstance(p, int) and p == 0) for p in (*self.before, *self.after))


def windows(
    ctx: Context,
    sizes: Sequence[IntExpr],
    kernel: Sequence[IntExpr],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int] | Same,
    *,
    ceil_mode: bool = False,
) -> Windows:
    """Windows over spatial axes of `sizes`. `pads` is all the starts, then all the ends; the other sequences have one
    entry per axis.

    Raises `Unsupported` if no window fits."""
    rank = len(sizes)
    if len(kernel) != rank:
        raise Unsupported(f"a window of {len(kernel)} axes over data of {rank} spatial axes")
    check_reach(kernel, strides, dilations, () if isinstance(pads, str) else pads)
    extents = [ctx.simplify((k - 1) * d + 1) for k, d in zip(kernel, dilations, strict=True)]
    before: Sequence[IntExpr]
    after: Sequence[IntExpr]
    if isinstance(pads, str):
        counts = [ctx.simplify(ceil_div(n, s)) for n, s in zip(sizes, strides, strict=True)]
        missing = [_missing(ctx, *axis) for axis in zip(sizes, counts, extents, strides, strict=True)]
        before, after = split(ctx, missing, lower=pads == "SAME_LOWER")
    else:
        before, after = pads[:rank], pads[rank:]
        axes = zip(sizes, extents, strides, zip(before, after, strict=True), strict=True)
        counts = [window_count(ctx, *axis, ceil_mode=ceil_mode) for axis in axes]
        for axis, count in enumerate(counts):
            ctx.require(count >= 1, f"the window is larger than spatial axis {axis} of size {{}}", sizes[axis])
    return Windows(
        tuple(sizes), tuple(kernel), tuple(strides), tuple(dilations), tuple(before), tuple(after), tuple(counts)
    )


def check_reach(
    kernel: Sequence[IntExpr], strides: Sequence[int], dilations: Sequence[int], pads: Sequence[int]
) -> None:
    """Raises `Unsupported` for numbers that make no window, or whose products overflow."""
    for name, values, least in (("strides", strides, 1), ("dilations", dilations, 1), ("kernel_shape", kernel, 1)):
        for value in values:
            if isinstance(value, int) and value < least:
                raise Unsupported(f"{name} of {value}; the least is {least}")
    taps = prod(k for k in kernel if isinstance(k, int))
    if taps > MOST_TAPS:
        raise Unsupported(f"a window of {taps} elements; at most {MOST_TAPS} are supported")
    for name, values in (("strides", strides), ("dilations", dilations), ("pads", pads)):
        for value in values:
            if abs(value) > LONGEST_REACH:
                raise Unsupported(f"{name} of {value} lead beyond every tensor")


def window_count(
    ctx: Context, size: IntExpr, extent: IntExpr, stride: int, pads: tuple[IntExpr, IntExpr], *, ceil_mode: bool = False
) -> IntExpr:
    """The number of windows along one axis; `pads` is the padding before and after it."""
    before, after = pads
    room = size + before + after - extent
    if not ceil_mode:
        return ctx.simplify(floor_div(room, stride) + 1)
    return ctx.simplify(minimum(ceil_div(room, stride), floor_div(size + before - 1, stride)) + 1)


def split(ctx: Context, totals: Sequence[IntExpr], *, lower: bool) -> tuple[list[IntExpr], list[IntExpr]]:
    """The padding before and after each axis, given its total; `lower` puts an odd element before."""
    halves = [ctx.simplify(floor_div(total, 2)) for total in totals]
    rest = [ctx.simplify(total - half) for total, half in zip(totals, halves, strict=True)]
    return (rest, halves) if lower else (halves, rest)


def _missing(ctx: Context, size: IntExpr, count: IntExpr, extent: IntExpr, stride: int) -> IntExpr:
    """The total padding for `count` windows, where `count` is `ceil(size / stride)`."""
    if isinstance(extent, int) and extent == 1:
        return 0
    return ctx.simplify(maximum((count - 1) * stride + extent - size, 0))


def zero_padded(ctx: Context, x: Value, before: Sequence[IntExpr], shape: Sequence[IntExpr]) -> Value:
    """Zeros of spatial `shape`, with the spatial axes of `x` (N, C, ...) placed at `before`. Negative amounts crop."""
    sizes = x.shape[2:]

    def build(t: te.Tensor) -> te.Tensor:
        def element(n: ir.Expr, c: ir.Expr, *index: ir.Expr) -> ir.Expr:
            source = [i - b for i, b in zip(index, before, strict=True)]
            value = t(n, c, *source)
            inside = [bound for i, size in zip(source, sizes, strict=True) for bound in (i >= 0, i < size)]
            return tirx.if_then_else(tirx.all(*inside), value, tirx.const(0, storage_dtype(x.dtype)))

        return compute((*x.shape[:2], *shape), element, name="pad")

    return ctx.kernel("pad", build, x, dtype=x.dtype)
