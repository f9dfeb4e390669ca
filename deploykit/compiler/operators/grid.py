"""Sampling by a field of positions: GridSample, AffineGrid, over any number of spatial axes.

GridSample is an imperative kernel: for each position it finds the elements that count, one (nearest), two (linear) or
four (cubic) an axis, and their weights; then it adds them up for every channel. Positions list the innermost axis first
and run from -1 to 1, which are the centres of the outermost elements (`align_corners`) or their edges. What lies
outside is zero, the nearest element, or the mirror image, for each element of a cubic kernel that reaches there.
(Source: ONNX operators GridSample, opset 16, and AffineGrid, opset 20.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce
from operator import mul

from tvm import ir, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.broadcast import compute_dtype, load, store
from deploykit.compiler.operators.imperative import Array, Code
from deploykit.compiler.operators.integers import expr
from deploykit.compiler.operators.sampling import (
    clamped,
    cubic_weight,
    floor_index,
    inside,
    linear_weight,
    near,
    number,
    reflected,
    size_as,
)


@dataclass(frozen=True)
class Sampler:
    """How positions are read: `sizes` are those of the spatial axes of the data."""

    sizes: tuple[IntExpr, ...]
    mode: str
    padding: str
    align: bool

    def borders(self, like: ir.Expr, axis: int) -> tuple[ir.Expr, ir.Expr]:
        """Where an axis starts and ends, in elements."""
        edge = number(like, 0 if self.align else 0.5)
        return -edge, size_as(like, self.sizes[axis]) - number(like, 1) + edge

    def position(self, given: ir.Expr, axis: int) -> ir.Expr:
        """A position from -1 to 1 in elements, moved to within the padding's reach."""
        low, high = self.borders(given, axis)
        place = (given + number(given, 1)) * number(given, 0.5) * (high - low) + low
        place = tirx.nearbyint(place) if self.mode == "nearest" else place
        if self.padding == "reflection":
            place = reflected(place, low, high)
        if self.padding == "border" and self.mode != "cubic":
            place = tirx.max(tirx.min(place, size_as(given, self.sizes[axis]) - number(given, 1)), number(given, 0))
        return near(place, self.sizes[axis])

    @property
    def taps(self) -> int:
        return {"nearest": 1, "linear": 2, "cubic": 4}[self.mode]

    def index(self, place: ir.Expr, tap: int) -> ir.Expr:
        """The integer position of a tap, which may lie outside."""
        return floor_index(place) + (tap - 1 if self.mode == "cubic" else tap)

    def weight(self, distance: ir.Expr) -> ir.Expr:
        return cubic_weight(distance) if self.mode == "cubic" else linear_weight(distance)

    def source(self, index: ir.Expr, axis: int) -> ir.Expr:
        """The element that is read for an integer position; it lies outside only where zeros are."""
        if self.padding == "zeros":
            return index
        if self.padding == "reflection":
            place = tirx.Cast("float32", index)
            index = floor_index(reflected(place, *self.borders(place, axis)))
        return clamped(index, self.sizes[axis])


def weighted_sum(
    code: Code,
    sampler: Sampler,
    dtype: str,
    read: Callable[[Sequence[ir.Expr]], ir.Expr],
    taps: tuple[Array, Array],
) -> ir.Expr:
    """The elements chosen, each times its weights, as an element of `dtype`; of a single one, itself."""
    chosen, weights = taps

    def element(at: Sequence[ir.Expr]) -> ir.Expr:
        place = [chosen[axis * sampler.taps + tap] for axis, tap in enumerate(at)]
        value = read(place)
        if sampler.padding != "zeros":
            return value
        return tirx.if_then_else(inside(place, sampler.sizes), value, tirx.const(0, value.ty.dtype))

    if sampler.mode == "nearest":
        return element([expr(0)] * len(sampler.sizes))
    wide = compute_dtype(dtype) if compute_dtype(dtype).startswith("float") else "float32"
    total = code.cell("total", tirx.const(0, wide))
    with ExitStack() as loops:
        at = [loops.enter_context(code.loop(f"t{i}", sampler.taps)) for i in range(len(sampler.sizes))]
        factors = [weights[axis * sampler.taps + tap] for axis, tap in enumerate(at)]
        value = load(lambda *_: element(at), dtype, ())
        total.value = total.value + tirx.Cast(wide, reduce(mul, factors)) * tirx.Cast(wide, value)
    return store(total.value, dtype)
