"""The transforms of Winograd convolutions (`anchors.winograd_parts`): an invocation transforms a tile of some channels.

The rule takes the stages of points and of outputs. Neighbouring invocations have neighbouring channels. The tile is in
registers; where it reaches beyond the image, points take zeros, and outputs are not stored. The products between them
are computed in tiles like all products (`schedules.gpu.tile`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tvm import ir, tirx

from deploykit.compiler.decisions import Declined
from deploykit.compiler.devices.gpu import Gpu
from deploykit.compiler.operators.anchors.annotation import ANCHOR
from deploykit.compiler.operators.anchors.conv import ConvShape, output_size
from deploykit.compiler.operators.anchors.winograd import INPUT, OUTPUT, OUTPUTS, POINTS, TAPS
from deploykit.compiler.operators.anchors.winograd_parts import OUTPUTS_ANCHOR, POINTS_ANCHOR, tiles_of
from deploykit.compiler.schedules.conv.transform import both_ways
from deploykit.compiler.schedules.gpu.team import Way
from deploykit.compiler.schedules.kernel.access import Views
from deploykit.compiler.schedules.kernel.finish import finish_of
from deploykit.compiler.schedules.kernel.loops import Code, local, loop, unravel, vectorized
from deploykit.compiler.schedules.kernel.stages import Stage
from deploykit.compiler.tir.rewriting import Expr, collect, sequence
from deploykit.compiler.tir.values import as_index, const, dtype_of


def is_transform(stage: Stage) -> bool:
    """Whether the rule takes a stage."""
    return stage.annotations.get(ANCHOR) in (POINTS_ANCHOR, OUTPUTS_ANCHOR)


def transform(stage: Stage, views: Views, gpu: Gpu) -> list[Way] | Declined:
    """The way to compute `stage`, which must be a transform."""
    if stage.combine is None or stage.store is None:
        return Declined("its sum is not one of products")
    points = stage.annotations[ANCHOR] == POINTS_ANCHOR
    lanes = gpu.lanes
    return [Way(_points(stage, views, lanes) if points else _outputs(stage, views, lanes))]


def _points(stage: Stage, views: Views, lanes: int) -> tirx.Stmt:
    assert stage.store is not None
    shape = ConvShape.of_notes(stage.annotations, 1)
    source = next(load.source for load in stage.loads if len(load.source.shape) == 4)
    data, result, dtype = views.flat(source), views.flat(stage.store.buffer), dtype_of(source)
    height, width, channels = (as_index(extent) for extent in source.shape[1:])
    tiles = tiles_of([output_size(size, TAPS, shape, dim) for dim, size in enumerate((height, width))])
    count = as_index(stage.axes[1].extent)

    def compute(code: Code, tile: Expr, place: Sequence[Expr], channel: Expr) -> None:
        image, down, across = place
        y = code.let("y", down * OUTPUTS - shape.begins[0])
        x = code.let("x", across * OUTPUTS - shape.begins[1])
        first = code.let("first", ((image * height + y) * width + x) * channels + channel)

        def element(p: Expr, q: Expr, lane: Expr) -> Expr:
            inside = tirx.all(y + p >= 0, y + p < height, x + q >= 0, x + q < width)
            load = tirx.BufferLoad(data, [first + (p * width + q) * channels + lane])
            return tirx.if_then_else(inside, load, tirx.const(0, dtype))

        def put(a: int, b: int, lane: Expr, point: Expr) -> tirx.Stmt:
            place = (count * (a * POINTS + b) + tile) * channels + channel + lane
            return tirx.BufferStore(result, point, [place])

        code.add(_transformed(INPUT, lanes, dtype, element, put))

    return _each_tile(count, tiles, channels, lanes, compute)


def _outputs(stage: Stage, views: Views, lanes: int) -> tirx.Stmt:
    assert stage.combine is not None
    source = next(load.source for load in collect(stage.combine.source, ir.TensorLoad) if len(load.source.shape) == 3)
    products, dtype, finish = views.flat(source), dtype_of(source), finish_of(stage, views)
    batch, *spatial, channels = (as_index(axis.extent) for axis in stage.axes)
    tiles = tiles_of(spatial)
    count = batch * tiles[0] * tiles[1]

    def compute(code: Code, tile: Expr, place: Sequence[Expr], channel: Expr) -> None:
        image, down, across = place
        image, y, x = code.let("image", image), code.let("y", down * OUTPUTS), code.let("x", across * OUTPUTS)

        def element(a: Expr, b: Expr, lane: Expr) -> Expr:
            place = (count * (a * POINTS + b) + tile) * channels + channel + lane
            return tirx.BufferLoad(products, [place])

        outputs = local("outputs", OUTPUTS * OUTPUTS * lanes, dtype)

        def put(i: int, j: int, lane: Expr, output: Expr) -> tirx.Stmt:
            return tirx.BufferStore(outputs, output, [const((i * OUTPUTS + j) * lanes) + lane])

        def store(i: int, j: int, lane: Expr) -> tirx.Stmt:
            at = [image, y + i, x + j, channel + lane]
            output = tirx.BufferLoad(outputs, [const((i * OUTPUTS + j) * lanes) + lane])
            return finish(output, dict(zip((axis.var for axis in stage.axes), at, strict=True)))

        code.add(tirx.AllocBuffer(outputs), _transformed(OUTPUT, lanes, dtype, element, put))
        for i in range(OUTPUTS):
            row = sequence(
                [
                    tirx.IfThenElse(x + j < spatial[1], vectorized(lanes, partial(store, i, j)), None)
                    for j in range(OUTPUTS)
                ]
            )
            code.add(tirx.IfThenElse(y + i < spatial[0], row, None))

    return _each_tile(count, tiles, channels, lanes, compute)


def _each_tile(
    count: Expr,
    tiles: Sequence[Expr],
    channels: Expr,
    lanes: int,
    compute: Callable[[Code, Expr, Sequence[Expr], Expr], None],
) -> tirx.Stmt:
    """An invocation for each vector of channels of each of `count` tiles. `compute(code, tile, place, channel)` adds
    its statements; `place` is the image of the tile, and its row and column among `tiles`."""
    vectors = tirx.floordiv(channels, const(lanes))

    def task(index: Expr) -> tirx.Stmt:
        code = Code()
        number, vector = unravel(index, [count, vectors])
        tile, channel = code.let("tile", number), code.let("channel", vector * lanes)
        compute(code, tile, unravel(tile, [const(0), *tiles]), channel)
        return code.statement()

    return loop("task", count * vectors, task, tirx.ForKind.PARALLEL)


def _transformed(
    matrix: Sequence[Sequence[int]],
    lanes: int,
    dtype: str,
    element: Callable[[Expr, Expr, Expr], Expr],
    put: Callable[[int, int, Expr, Expr], tirx.Stmt],
) -> tirx.Stmt:
    """Load each `element(row, column, lane)` of a tile once, and `put` the elements of its transform."""
    tile = local("held", POINTS * POINTS * lanes, dtype)

    def held(p: Expr, q: Expr, lane: Expr) -> Expr:
        return tirx.BufferLoad(tile, [(p * POINTS + q) * lanes + lane])

    def hold(p: int, q: int, lane: Expr) -> tirx.Stmt:
        value = element(const(p), const(q), lane)
        return tirx.BufferStore(tile, value, [const((p * POINTS + q) * lanes) + lane])

    places = [(p, q) for p in range(POINTS) for q in range(POINTS)]
    loads = [vectorized(lanes, partial(hold, p, q)) for p, q in places]
    return sequence([tirx.AllocBuffer(tile), *loads, both_ways(matrix, lanes, dtype, held, put)])
