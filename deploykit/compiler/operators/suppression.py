"""NonMaxSuppression: greedily, a class at a time, the best-scored boxes that overlap no better one too much.

One kernel sorts the boxes of each class, selects, and counts; the count is read as a data dim.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import ir, tirx

from deploykit.compiler.operators.imperative import Array
from deploykit.compiler.operators.value import Value


@dataclass(frozen=True)
class Box:
    """Corners of a box, in any order along each axis."""

    low: tuple[ir.Expr, ir.Expr]
    high: tuple[ir.Expr, ir.Expr]

    @property
    def area(self) -> ir.Expr:
        return (self.high[0] - self.low[0]) * (self.high[1] - self.low[1])


def box_of(numbers: Sequence[ir.Expr], *, centred: bool) -> Box:
    """A box from (y1, x1, y2, x2), or from (x, y, width, height) around a centre."""
    if centred:
        x, y, width, height = numbers
        return Box((y - height / 2, x - width / 2), (y + height / 2, x + width / 2))
    y1, x1, y2, x2 = numbers
    return Box((tirx.min(y1, y2), tirx.min(x1, x2)), (tirx.max(y1, y2), tirx.max(x1, x2)))


def overlaps(a: Box, b: Box, threshold: ir.Expr) -> ir.Expr:
    """Whether intersection over union exceeds the threshold; never for boxes without area."""
    low = [tirx.max(p, q) for p, q in zip(a.low, b.low, strict=True)]
    high = [tirx.min(p, q) for p, q in zip(a.high, b.high, strict=True)]
    zero = tirx.const(0, "float32")
    common = tirx.max(high[0] - low[0], zero) * tirx.max(high[1] - low[1], zero)
    union = a.area + b.area - common
    share = common / tirx.Select(union > 0, union, tirx.const(1, "float32"))
    return tirx.all(common > 0, a.area > 0, b.area > 0, union > 0, share > threshold)


def first(tensor: Array, value: Value) -> ir.Expr:
    return tensor(*([0] * value.rank))
