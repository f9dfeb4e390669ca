"""NonMaxSuppression: for each class, greedily selects the best-scored boxes that do not overlap a better one too much.

One kernel sorts the boxes of each class, selects and counts. The count is read as a data dim.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tvm import ir, te, tirx

from deploykit.compiler.operators.building.imperative import Array, Code, imperative, loops
from deploykit.compiler.operators.building.integers import expr, is_plain, maximum, minimum
from deploykit.compiler.operators.building.sizes import only_integer, require_equal, require_rank
from deploykit.compiler.operators.building.sorting import descending, merge_sort
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.slicing import Piece, take

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr
    from deploykit.compiler.operators.building.context import Context


def non_max_suppression(
    ctx: Context,
    boxes: Value,
    scores: Value,
    most: Value | None = None,
    overlap: Value | None = None,
    score: Value | None = None,
    *,
    centred: bool = False,
) -> Value:
    """The selected boxes, `[selected, 3]` in int64: batch, class and number of each.

    `boxes`, `[batches, boxes, 4]`, are two corners (y, x, y, x), or with `centred` (x, y, width, height). `scores` is
    `[batches, classes, boxes]`. At most `most` boxes of each class are selected, best scores first; by default none.
    Each has a score above `score`, if given. Its intersection over union with every box selected before it in its class
    is at most `overlap`, by default 0. `most`, `overlap` and `score` have one element."""
    for operand in (boxes, scores):
        require_rank(ctx, operand, 3)
    batches, classes, count = scores.shape
    for given, needed in zip(boxes.shape, (batches, count, 4), strict=True):
        require_equal(ctx, "boxes and scores disagree", given, needed)
    limit: IntExpr = 0 if most is None else only_integer(ctx, most, hint="most")
    limit = ctx.simplify(maximum(minimum(limit, count), 0)) if is_plain(limit) else limit
    capacity = ctx.product((batches, classes, limit if is_plain(limit) else count))
    filtered = score is not None
    thresholds = [overlap or ctx.constant(0, "float32"), *([score] if score is not None else [])]

    def write(code: Code, box: Array, points: Array, *rest: Array) -> None:
        *limits, chosen, found, order, scratch = rest
        share, lowest = _element(limits[0], thresholds[0]), _element(limits[-1], thresholds[-1])
        found[0] = 0
        with loops(code, (batches, classes)) as (b, c):
            merge_sort(code, order, scratch, count, lambda _, i, j: descending(points(b, c, i), points(b, c, j)))
            begin = code.cell("begin", found[0])
            with code.loop("k", count) as k:
                candidate = code.cell("candidate", order[k])
                free = code.cell("free", found[0] - begin.value < expr(limit))
                with code.when(tirx.Not(points(b, c, candidate.value) > lowest) if filtered else False):
                    free.value = False
                this = _box(box, b, candidate.value, centred=centred)
                with code.loop("s", found[0] - begin.value) as s, code.when(free.value):
                    other = _box(box, b, chosen(begin.value + s, 2), centred=centred)
                    with code.when(_overlaps(this, other, share)):
                        free.value = False
                with code.when(free.value):
                    for position, number in enumerate((b, c, candidate.value)):
                        chosen[found[0], position] = number
                    found[0] += 1

    outputs: list[tuple[Sequence[IntExpr], str]] = [((capacity, 3), "int64"), ((1,), "int64")]
    outputs += [((count,), "int64")] * 2

    def build(*tensors: te.Tensor) -> list[te.Tensor]:
        return imperative("suppression", tensors, outputs, write)

    chosen, found, *_ = ctx.kernel("suppression", build, boxes, scores, *thresholds, dtype=("int64",) * 4)
    (selected,) = ctx.ints(found, minimum=0, maximum=capacity, hint="selected")
    return take(ctx, chosen, [Piece(0, selected), Piece(0, 3)])


@dataclass(frozen=True)
class _Box:
    """A box, by its corners with the least and with the largest coordinates."""

    low: tuple[ir.Expr, ir.Expr]
    high: tuple[ir.Expr, ir.Expr]

    @property
    def area(self) -> ir.Expr:
        return (self.high[0] - self.low[0]) * (self.high[1] - self.low[1])


def _box(boxes: Array, batch: ir.Expr, number: ir.Expr, *, centred: bool) -> _Box:
    """A box from two corners (y1, x1, y2, x2), or from (x, y, width, height) around its centre."""
    numbers = [boxes(batch, number, i) for i in range(4)]
    if centred:
        x, y, width, height = numbers
        return _Box((y - height / 2, x - width / 2), (y + height / 2, x + width / 2))
    y1, x1, y2, x2 = numbers
    return _Box((tirx.min(y1, y2), tirx.min(x1, x2)), (tirx.max(y1, y2), tirx.max(x1, x2)))


def _overlaps(a: _Box, b: _Box, threshold: ir.Expr) -> ir.Expr:
    """Whether the intersection over union exceeds the threshold; never for boxes without area."""
    low = [tirx.max(p, q) for p, q in zip(a.low, b.low, strict=True)]
    high = [tirx.min(p, q) for p, q in zip(a.high, b.high, strict=True)]
    zero = tirx.const(0, "float32")
    common = tirx.max(high[0] - low[0], zero) * tirx.max(high[1] - low[1], zero)
    union = a.area + b.area - common
    share = common / tirx.Select(union > 0, union, tirx.const(1, "float32"))
    return tirx.all(common > 0, a.area > 0, b.area > 0, union > 0, share > threshold)


def _element(tensor: Array, value: Value) -> ir.Expr:
    """The only element of a value."""
    return tensor(*([0] * value.rank))
