"""Normalisations by statistics of the data itself.

The operators are LayerNormalization, RMSNormalization, InstanceNormalization, GroupNormalization,
MeanVarianceNormalization, LpNormalization and LRN.

Statistics are computed in float32, or in float64 for float64 data: first the mean, then the mean square of the
differences from it. Each is one reduction; the normalisation itself is elementwise. Axes are counted from the front.
(Source: the ONNX operators of these names.)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tvm import ir, te, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.building.broadcast import elementwise
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.conversion import compute_dtype, load, store
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.expressions import compute, reduce_axis
from deploykit.compiler.operators.building.integers import equal, expr, floor_div, floor_mod
from deploykit.compiler.operators.building.reduce_axes import SUM, count_of, reduce_axes
from deploykit.compiler.operators.building.sizes import checked_reshape
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.building.windows import MOST_TAPS
from deploykit.compiler.operators.elementwise import absolute, factor, like


def layer_normalization(
    ctx: Context,
    x: Value,
    scale: Value,
    shift: Value | None,
    *,
    axes: Collection[int],
    epsilon: float,
    statistics_dtype: str,
) -> tuple[Value, Value, Value]:
    """`(x - mean) / sqrt(variance + epsilon) * scale + shift` with statistics over `axes`; `scale` and `shift`
    broadcast to `x`. Returns the result, the mean and the inverse deviation. The latter two are in `statistics_dtype`,
    with `axes` of size 1."""
    mean = _mean(ctx, x, axes)
    inverse = _inverse_deviation(ctx, x, mean, axes, epsilon)
    y = _affine(ctx, "layer_normalization", x, mean, inverse, *(v for v in (scale, shift) if v is not None))
    return y, ctx.cast(mean, statistics_dtype), ctx.cast(inverse, statistics_dtype)


def rms_normalization(ctx: Context, x: Value, scale: Value, *, axes: Collection[int], epsilon: float) -> Value:
    """`x / sqrt(mean(x**2) + epsilon) * scale` with the mean over `axes`; `scale` broadcasts to `x`."""
    inverse = _mean_of_terms(
        ctx,
        "inverse_root_mean_square",
        [x],
        axes,
        lambda v: v * v,
        lambda mean: like(mean, 1) / tirx.sqrt(mean + like(mean, epsilon)),
    )
    return elementwise(ctx, "rms_normalization", lambda v, s, g: v * s * tirx.Cast(v.ty.dtype, g), x, inverse, scale)


def instance_normalization(ctx: Context, x: Value, scale: Value, shift: Value, *, epsilon: float) -> Value:
    """Normalise each channel of each batch element of `x` (N, C, ...) by its own statistics; `scale` and `shift` are
    (C,)."""
    affine = [ctx.reshape(v, (*v.shape, *[1] * (x.rank - 2))) for v in (scale, shift)]
    return _normalised(ctx, "instance_normalization", x, range(2, x.rank), epsilon, *affine)


def group_normalization(
    ctx: Context, x: Value, scale: Value, shift: Value, *, groups: int, epsilon: float, by_group: bool = False
) -> Value:
    """Normalise each of `groups` groups of neighbouring channels of `x` (N, C, ...) by its own statistics. `scale` and
    `shift` have one element per channel, or with `by_group` one per group."""
    batch, channels, *spatial = x.shape
    if groups < 1:
        raise Unsupported(f"{groups} groups of channels")
    ctx.require(equal(floor_mod(channels, groups), 0), f"{{}} channels cannot form {groups} groups", channels)
    members = ctx.simplify(floor_div(channels, groups))
    parameter = (groups, 1 if by_group else members, *[1] * len(spatial))
    affine = [checked_reshape(ctx, v, parameter) for v in (scale, shift)]
    grouped = ctx.reshape(x, (batch, groups, members, *spatial))
    y = _normalised(ctx, "group_normalization", grouped, range(2, grouped.rank), epsilon, *affine)
    return ctx.reshape(y, x.shape)


def mean_variance_normalization(ctx: Context, x: Value, axes: Collection[int]) -> Value:
    """`(x - mean) / (sqrt(variance) + 1e-9)` with statistics over `axes`."""
    mean = _mean(ctx, x, axes)
    inverse = _mean_of_terms(
        ctx,
        "inverse_deviation",
        [x, mean],
        axes,
        lambda v, m: (v - m) * (v - m),
        lambda variance: like(variance, 1) / (tirx.sqrt(variance) + like(variance, 1e-9)),
    )
    return _affine(ctx, "mean_variance_normalization", x, mean, inverse)


def lp_normalization(ctx: Context, x: Value, axis: int, p: int) -> Value:
    """`x` divided by its norm of order `p`, 1 or 2, along an axis. Where the norm is zero, the result is zero.

    Raises `Unsupported` for another order."""
    if p not in (1, 2):
        raise Unsupported(f"p={p}; only the norms 1 and 2 are defined")
    norm = reduce_axes(
        ctx,
        "norm",
        [x],
        [axis],
        SUM,
        prepare=absolute if p == 1 else lambda v: v * v,
        finish=lambda total: total if p == 1 else tirx.sqrt(total),
        dtype=compute_dtype(x.dtype),
    )
    return elementwise(
        ctx, "lp_normalization", lambda v, n: tirx.Select(tirx.EQ(n, like(n, 0)), like(n, 0), v / n), x, norm
    )


def local_response_normalization(ctx: Context, x: Value, size: int, *, alpha: float, beta: float, bias: float) -> Value:
    """`x / (bias + alpha / size * sum(x**2))**beta` of `x` (N, C, ...). The sum is over `size` neighbouring channels
    around the element; for an even size, one more comes after it than before.

    Raises `Unsupported` for a size out of range, and for data without a spatial axis."""
    if not 1 <= size <= MOST_TAPS:
        raise Unsupported(f"size is {size}; it must be from 1 to {MOST_TAPS}")
    if x.rank < 3:
        raise Unsupported(f"data of rank {x.rank}; it must have a batch, channels and at least one spatial axis")
    before = (size - 1) // 2
    channels: IntExpr = x.shape[1]

    def build(t: te.Tensor) -> te.Tensor:
        k = reduce_axis(size, name="k")

        def square(*index: ir.Expr) -> ir.Expr:
            channel = index[1] + k.var - before
            inside = tirx.all(channel >= 0, channel < channels)
            value = load(t, x.dtype, [index[0], channel, *index[2:]])
            return te.sum(tirx.if_then_else(inside, value * value, like(value, 0)), axis=k)

        total = compute(x.shape, square, name="squares")

        def element(*index: ir.Expr) -> ir.Expr:
            base = total(*index) * factor(total(*index), alpha / size) + like(total(*index), bias)
            return store(load(t, x.dtype, index) / _power(base, beta), x.dtype)

        return compute(x.shape, element, name="lrn")

    return ctx.kernel("lrn", build, x, dtype=x.dtype)


def _power(base: ir.Expr, exponent: float) -> ir.Expr:
    """A power of a positive number. The usual exponent 3/4 is computed by two square roots."""
    if exponent == 0.75:
        root = tirx.sqrt(base)
        return root * tirx.sqrt(root)
    return tirx.power(base, like(base, exponent))


def _mean_of_terms(
    ctx: Context,
    name: str,
    inputs: Sequence[Value],
    axes: Collection[int],
    term: Callable[..., ir.Expr],
    finish: Callable[[ir.Expr], ir.Expr] = lambda mean: mean,
) -> Value:
    """`finish` of the mean of `term(element of each input)` over `axes`, which stay as axes of size 1."""
    count = expr(count_of(ctx, inputs[0].shape, axes))
    dtype = compute_dtype(inputs[0].dtype)
    return reduce_axes(
        ctx,
        name,
        inputs,
        axes,
        SUM,
        prepare=term,
        finish=lambda total: finish(total / tirx.Cast(dtype, count)),
        dtype=dtype,
    )


def _mean(ctx: Context, x: Value, axes: Collection[int]) -> Value:
    return _mean_of_terms(ctx, "mean", [x], axes, lambda v: v)


def _inverse_deviation(ctx: Context, x: Value, mean: Value, axes: Collection[int], epsilon: float) -> Value:
    """`1 / sqrt(variance + epsilon)` with the population variance over `axes`."""
    return _mean_of_terms(
        ctx,
        "inverse_deviation",
        [x, mean],
        axes,
        lambda v, m: (v - m) * (v - m),
        lambda variance: like(variance, 1) / tirx.sqrt(variance + like(variance, epsilon)),
    )


def _normalised(ctx: Context, name: str, x: Value, axes: Collection[int], epsilon: float, *affine: Value) -> Value:
    """`(x - mean) / sqrt(variance + epsilon)`, then times the first of `affine` and plus the second."""
    mean = _mean(ctx, x, axes)
    return _affine(ctx, name, x, mean, _inverse_deviation(ctx, x, mean, axes, epsilon), *affine)


def _affine(ctx: Context, name: str, x: Value, mean: Value, inverse: Value, *affine: Value) -> Value:
    """`(x - mean) * inverse`, then times the first of `affine` and plus the second."""

    def function(v: ir.Expr, m: ir.Expr, s: ir.Expr, *scale_and_shift: ir.Expr) -> ir.Expr:
        y = (v - m) * s
        scale_and_shift = tuple(tirx.Cast(y.ty.dtype, parameter) for parameter in scale_and_shift)
        y = y * scale_and_shift[0] if scale_and_shift else y
        return y + scale_and_shift[1] if len(scale_and_shift) > 1 else y

    return elementwise(ctx, name, function, x, mean, inverse, *affine)
