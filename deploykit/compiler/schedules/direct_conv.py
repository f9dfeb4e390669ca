"""Convolutions straight from the data, for machines without vectors or caches.

Takes the `direct` anchor with weights packed `[groups, tiles, C, *kernel, rows]` (`anchors.packed_conv.packed_conv`).
For each output position, the `rows` channels of a tile are summed together, so that each element of the data is loaded
once for all of them. Taps outside of the data are left out of the loops. Nothing is copied; the epilogue is applied
before storing. One unit of parallel work is a tile of channels of one image.

Declines other convolutions.
"""

from __future__ import annotations

from typing import Any

from tvm import ir, tirx

from deploykit.compiler.schedules.access import Views, offset_of
from deploykit.compiler.schedules.device import Device
from deploykit.compiler.schedules.finish import finish_of
from deploykit.compiler.schedules.guards import clipped
from deploykit.compiler.schedules.inline import ANCHOR
from deploykit.compiler.schedules.loops import as_index, const, dtype_of, loop, nested, static, unravel
from deploykit.compiler.schedules.nest import Expr, Stage, collect, replace_loads, sequence, substitute
from deploykit.compiler.schedules.tile import Tile, each_vector, step, zero


def tile_rows(device: Device, channels: int) -> int:
    """Output channels that are summed together, for `channels` of a group: as few filled-up ones as possible."""
    tallest = max(1, min(channels, device.vector_registers // 4))
    return min(range(max(1, tallest // 2), tallest + 1), key=lambda r: (-channels % r / channels > 0.05, -r))


def direct_conv(stage: Stage, views: Views, device: Device) -> list[Any] | str:
    """Statements that compute `stage`, or why it is not a convolution with packed weights."""
    if stage.annotations.get(ANCHOR) != "direct":
        return "no convolution with packed weights"
    combine = stage.combine
    if combine is None or not isinstance(combine.source, tirx.Mul):
        return "its sum is not one of products"
    packed = collect(combine.source.b, ir.TensorLoad)[0].source
    groups, tiles, rows = (int(packed.shape[dim]) for dim in (0, 1, -1))
    image, output, *spatial = stage.axes
    channels = as_index(output.extent) // groups
    finish = finish_of(stage, views)
    sums_of = Tile(rows, 1, 1, dtype_of(packed if stage.store is None else stage.store.buffer))
    uneven = static(channels) is None or int(channels) % rows != 0
    taps = [axis.var for axis in stage.reduce]

    def channel_tile(index: Expr) -> Any:
        n, group, tile = unravel(index, [const(0), const(groups), const(tiles)])
        first = group * channels + tile * rows
        lead = {image.var: n, output.var: first}
        sums = sums_of.scratch()

        def take(source: Expr) -> Any:
            def weight(row: Expr) -> Expr:
                offset = offset_of(packed, [group, tile, *taps, row])
                value = tirx.BufferLoad(views.flat(packed), [offset])
                return replace_loads(source.b, lambda load: value if load.source.same_as(packed) else load)

            return step(sums_of, sums, weight, lambda _: views.value(source.a))

        def store(row: Expr, at: Expr) -> Any:
            put = substitute(finish(tirx.BufferLoad(sums, [at]), {}), {**lead, output.var: first + row})
            return tirx.IfThenElse(tile * rows + row < channels, put, None) if uneven else put

        steps = [
            tirx.AllocBuffer(sums),
            zero(sums_of, sums),
            substitute(clipped(stage.reduce, combine.source, combine.identity, take), lead),
            each_vector(sums_of, lambda row, _column, at: store(row, at)),
        ]
        return nested(spatial, sequence(steps))

    total = as_index(image.extent) * (groups * tiles)
    return [loop("tile", total, channel_tile, tirx.ForKind.PARALLEL if device.parallel else tirx.ForKind.SERIAL)]
