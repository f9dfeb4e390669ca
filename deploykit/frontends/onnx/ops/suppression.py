"""ONNX: NonMaxSuppression (`compiler.operators.suppression`)."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import ir, te, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.imperative import Array, Code, imperative, loops
from deploykit.compiler.operators.integers import expr, is_plain, maximum, minimum
from deploykit.compiler.operators.sizes import require_equal
from deploykit.compiler.operators.slicing import Piece, take
from deploykit.compiler.operators.sorting import descending, merge_sort
from deploykit.compiler.operators.suppression import Box, box_of, first, overlaps
from deploykit.compiler.operators.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("NonMaxSuppression")
def non_max_suppression(
    ctx: Context,
    node: Node,
    boxes: Value,
    scores: Value,
    most: Value | None = None,
    overlap: Value | None = None,
    score: Value | None = None,
) -> Value:
    batches, classes, count = scores.shape
    for given, needed in zip(boxes.shape, (batches, count, 4), strict=True):
        require_equal(ctx, "boxes and scores disagree", given, needed)
    limit: IntExpr = 0 if most is None else ctx.ints(most, hint="most")[0]
    limit = ctx.simplify(maximum(minimum(limit, count), 0)) if is_plain(limit) else limit
    capacity = ctx.product((batches, classes, limit if is_plain(limit) else count))
    filtered = score is not None
    thresholds = [overlap or ctx.constant(0, "float32"), *([score] if score is not None else [])]

    def write(code: Code, box: Array, points: Array, *rest: Array) -> None:
        *limits, chosen, found, order, scratch = rest
        share, lowest = first(limits[0], thresholds[0]), first(limits[-1], thresholds[-1])
        found[0] = 0
        with loops(code, (batches, classes)) as (b, c):
            merge_sort(code, order, scratch, count, lambda _, i, j: descending(points(b, c, i), points(b, c, j)))
            begin = code.cell("begin", found[0])
            with code.loop("k", count) as k:
                candidate = code.cell("candidate", order[k])
                free = code.cell("free", found[0] - begin.value < expr(limit))
                with code.when(tirx.Not(points(b, c, candidate.value) > lowest) if filtered else False):
                    free.value = False
                this = _corners(box, b, candidate.value, node)
                with code.loop("s", found[0] - begin.value) as s, code.when(free.value):
                    other = _corners(box, b, chosen(begin.value + s, 2), node)
                    with code.when(overlaps(this, other, share)):
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


def _corners(boxes: Array, batch: ir.Expr, index: ir.Expr, node: Node) -> Box:
    return box_of([boxes(batch, index, i) for i in range(4)], centred=bool(node.int("center_point_box", 0)))
