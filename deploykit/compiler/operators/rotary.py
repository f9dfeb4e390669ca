"""Rotary position embedding: RotaryEmbedding, as one elementwise kernel over the input in its own layout.

Each pair of channels of a head is rotated by the angle of its position. A pair is two neighbours (`interleaved`), or
two channels that are half of the rotated channels apart. The channels after the rotated ones are copied. A run with
positions outside of the caches is refused. (Source: ONNX operator RotaryEmbedding, opset 23.)
"""

from __future__ import annotations

from tvm import ir, te, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.conversion import load, store
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.expressions import compute
from deploykit.compiler.operators.building.indices import checked
from deploykit.compiler.operators.building.integers import clamp, equal, expr, floor_div, floor_mod, is_plain, minimum
from deploykit.compiler.operators.building.sizes import require_rank
from deploykit.compiler.operators.building.value import Value


def rotary_embedding(
    ctx: Context,
    x: Value,
    cosines: Value,
    sines: Value,
    positions: Value | None = None,
    *,
    interleaved: bool = False,
    turned: int | None = None,
    heads: int | None = None,
) -> Value:
    """`x` (batch, heads, length, size), or (batch, length, heads * size) with the number of `heads`, rotated by the
    angles of its positions.

    `cosines` and `sines` are (positions, turned / 2) with `positions` (batch, length), else (batch or 1, length,
    turned / 2). The first `turned` channels of a head are rotated, by default all. Raises `Unsupported` for an input of
    another rank."""
    require_rank(ctx, x, 3, 4)
    for cache in (cosines, sines):
        require_rank(ctx, cache, 3 if positions is None else 2)
    size = _head_size(ctx, x, heads)
    span: IntExpr = size if turned is None else turned
    half = ctx.simplify(floor_div(span, 2))
    ctx.require(equal(half * 2, span), "an odd number of channels, {}, cannot be turned in pairs", span)
    for cache in (cosines, sines):
        ctx.require(equal(cache.shape[-1], half), "the caches hold {} angles, {} are needed", cache.shape[-1], half)
    if positions is not None:
        require_rank(ctx, positions, 2)
        last = ctx.simplify(minimum(cosines.shape[0], sines.shape[0]) - 1)
        positions = checked(ctx, positions, [(0, last)], position=3)

    def build(t: te.Tensor, cosine: te.Tensor, sine: te.Tensor, *where: te.Tensor) -> te.Tensor:
        def angle(cache: te.Tensor, value: Value, batch: ir.Expr, place: ir.Expr, pair: ir.Expr) -> ir.Expr:
            if not where:
                shared = is_plain(value.shape[0]) and value.shape[0] == 1
                return load(cache, value.dtype, (expr(0) if shared else batch, place, pair))
            position = tirx.Cast("int64", where[0](batch, place))
            return load(cache, value.dtype, (expr(clamp(position, 0, value.shape[0] - 1)), pair))

        def element(*index: ir.Expr) -> ir.Expr:
            batch, place = index[0], index[2] if x.rank == 4 else index[1]
            channel = index[-1] if x.rank == 4 else expr(floor_mod(index[-1], size))
            pair, first = _pair(channel, half, interleaved=interleaved)
            step: IntExpr = 1 if interleaved else half
            partner = index[-1] + expr(tirx.Select(first, expr(step), expr(0 - step)))
            own = load(t, x.dtype, index)
            other = load(t, x.dtype, (*index[:-1], partner))
            cos, sin = (angle(c, v, batch, place, pair) for c, v in ((cosine, cosines), (sine, sines)))
            rotated = tirx.Select(first, cos * own - sin * other, cos * own + sin * other)
            return store(rotated, x.dtype)

        def chosen(*index: ir.Expr) -> ir.Expr:
            channel = index[-1] if x.rank == 4 else expr(floor_mod(index[-1], size))
            return tirx.if_then_else(channel < span, element(*index), t(*index))

        partial = not ctx.equal(span, size)
        return compute(x.shape, chosen if partial else element, name="rotary")

    operands = [v for v in (x, cosines, sines, positions) if v is not None]
    return ctx.kernel("rotary_embedding", build, *operands, dtype=x.dtype)


def _head_size(ctx: Context, x: Value, heads: int | None) -> IntExpr:
    if heads is None:
        return x.shape[-1]
    if heads < 1:
        raise Unsupported(f"channels that are split into {heads} heads")
    size = ctx.simplify(floor_div(x.shape[-1], heads))
    ctx.require(equal(size * heads, x.shape[-1]), f"{{}} channels do not split into {heads} heads", x.shape[-1])
    return size


def _pair(channel: ir.Expr, half: IntExpr, *, interleaved: bool) -> tuple[ir.Expr, ir.Expr]:
    """The number of the pair that a channel belongs to, and whether the channel is its first member."""
    if interleaved:
        return expr(floor_div(channel, 2)), floor_mod(channel, 2) == 0
    first = channel < half
    return channel - tirx.Select(first, expr(0), expr(half)), first
