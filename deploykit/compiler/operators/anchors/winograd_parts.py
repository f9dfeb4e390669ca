"""Winograd convolutions as three kernels, which is how GPUs compute them (`anchors.winograd` has the method).

    points    [36, T, C]         B^T x B of every tile x and channel, for T tiles of all images
    products  [36, T, O]         for each of the 36 points, the matrix product with the transformed weights
    outputs   [N, *spatial, O]   A^T m A of every tile m of products, as far as the outputs exist

The tiles of an image are in row-major order, and so are the points of a tile. Outside of the images is zero. Elements
of points and outputs are defined as sums with the matrices, and counted as the operations of a transform of a whole
tile, which computes along one dim after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import te, tirx

from deploykit.compiler.operators.anchors.conv import OPERATIONS, ConvShape, simplified
from deploykit.compiler.operators.anchors.matmul import ANCHOR as PRODUCT
from deploykit.compiler.operators.anchors.winograd import INPUT, OUTPUT, OUTPUTS, POINTS

POINTS_ANCHOR, OUTPUTS_ANCHOR = "winograd_points", "winograd_outputs"
"""The anchors of the first and the last kernel."""


def tiles_of(spatial: Sequence[Any]) -> list[Any]:
    """The number of tiles along each dim of results."""
    return [simplified((extent + (OUTPUTS - 1)) // OUTPUTS) for extent in spatial]


def winograd_points(data: te.Tensor, turn_in: te.Tensor, spatial: Sequence[Any], *, shape: ConvShape) -> te.Tensor:
    """The points of all tiles of `data`, `[N, *, C]`, for results of the extents `spatial`; `turn_in` is `INPUT`."""
    p, q = (te.reduce_axis((0, POINTS), name=name) for name in "pq")
    down, across = tiles_of(spatial)

    def element(point: Any, tile: Any, c: Any) -> Any:
        corner = (tirx.floormod(tirx.floordiv(tile, across), down), tirx.floormod(tile, across))
        at = [n * OUTPUTS + tap - begin for n, tap, begin in zip(corner, (p, q), shape.begins, strict=True)]
        inside = [
            index >= 0 if before else index < size
            for index, size in zip(at, data.shape[1:-1], strict=True)
            for before in (True, False)
        ]
        image = tirx.floordiv(tile, down * across)
        value = tirx.if_then_else(tirx.all(*inside), data(image, *at, c), tirx.const(0, data.dtype))
        a, b = tirx.floordiv(point, POINTS), tirx.floormod(point, POINTS)
        return te.sum(value * turn_in(a, p) * turn_in(b, q), axis=[p, q])

    notes = {**shape.annotations(POINTS_ANCHOR), OPERATIONS: _operations(INPUT)}
    full = (POINTS * POINTS, simplified(data.shape[0] * down * across), data.shape[-1])
    return te.compute(full, element, name="points", attrs=notes)


def winograd_products(points: te.Tensor, packed: te.Tensor, *, channels: int) -> te.Tensor:
    """The products of all points with weights of `winograd_weight_array`, for `channels` output channels."""
    _, blocks, *_, depth, width = (int(extent) for extent in packed.shape)
    block, channel = te.reduce_axis((0, blocks), name="block"), te.reduce_axis((0, depth), name="c")

    def element(point: Any, tile: Any, o: Any) -> Any:
        a, b = tirx.floordiv(point, POINTS), tirx.floormod(point, POINTS)
        factor = packed(tirx.floordiv(o, width), block, a, b, channel, tirx.floormod(o, width))
        return te.sum(points(point, tile, block * depth + channel) * factor, axis=[block, channel])

    return te.compute((*points.shape[:2], channels), element, name="products", attrs=PRODUCT)


def winograd_outputs(products: te.Tensor, turn_out: te.Tensor, batch: Any, spatial: Sequence[Any]) -> te.Tensor:
    """The results, `[batch, *spatial, O]`, of the products; `turn_out` is `OUTPUT`."""
    a, b = (te.reduce_axis((0, POINTS), name=name) for name in "ab")
    down, across = tiles_of(spatial)

    def element(n: Any, y: Any, x: Any, o: Any) -> Any:
        tile = (n * down + tirx.floordiv(y, OUTPUTS)) * across + tirx.floordiv(x, OUTPUTS)
        factors = turn_out(tirx.floormod(y, OUTPUTS), a) * turn_out(tirx.floormod(x, OUTPUTS), b)
        return te.sum(products(a * POINTS + b, tile, o) * factors, axis=[a, b])

    notes = {"deploykit.anchor": OUTPUTS_ANCHOR, OPERATIONS: _operations(OUTPUT)}
    return te.compute((batch, *spatial, products.shape[-1]), element, name="conv", attrs=notes)


def _operations(matrix: Sequence[Sequence[int]]) -> int:
    """The operations for each result of `matrix @ tile @ matrix^T`, rounded: a vector of `POINTS` elements is
    multiplied with `matrix` once for each column of the tile, and once for each row of the result."""
    rows = len(matrix)
    terms = sum(factor != 0 for row in matrix for factor in row)
    scaled = sum(abs(factor) > 1 for row in matrix for factor in row)
    return round((terms - rows + scaled) * (POINTS + rows) / rows**2)
