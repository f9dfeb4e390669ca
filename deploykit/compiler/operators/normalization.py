"""Normalisations by statistics of the data itself: LayerNormalization, RMSNormalization, InstanceNormalization,
GroupNormalization, MeanVarianceNormalization, LpNormalization, LRN.

Statistics are computed in float32, of float64 data in float64: the mean first, then the mean square of what is left.
Each is one reduction; the normalisation itself is elementwise.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tvm import ir, tirx

from deploykit.compiler.operators.broadcast import compute_dtype, elementwise
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.elementwise import like
from deploykit.compiler.operators.integers import expr
from deploykit.compiler.operators.reduce_axes import SUM, count_of, reduce_axes
from deploykit.compiler.operators.value import Value


def mean_of_terms(
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


def mean_of(ctx: Context, x: Value, axes: Collection[int]) -> Value:
    return mean_of_terms(ctx, "mean", [x], axes, lambda v: v)


def inverse_deviation(ctx: Context, x: Value, mean: Value, axes: Collection[int], epsilon: float) -> Value:
    """`1 / sqrt(variance + epsilon)` over `axes`, with the variance of the population."""
    return mean_of_terms(
        ctx,
        "inverse_deviation",
        [x, mean],
        axes,
        lambda v, m: (v - m) * (v - m),
        lambda variance: like(variance, 1) / tirx.sqrt(variance + like(variance, epsilon)),
    )


def normalise(ctx: Context, name: str, x: Value, axes: Collection[int], epsilon: float, *affine: Value) -> Value:
    """`(x - mean) / sqrt(variance + epsilon)`, then times the first and plus the second of `affine`."""
    mean = mean_of(ctx, x, axes)
    return apply(ctx, name, x, mean, inverse_deviation(ctx, x, mean, axes, epsilon), *affine)


def apply(ctx: Context, name: str, x: Value, mean: Value, inverse: Value, *affine: Value) -> Value:
    def function(v: ir.Expr, m: ir.Expr, s: ir.Expr, *scale_and_shift: ir.Expr) -> ir.Expr:
        y = (v - m) * s
        scale_and_shift = tuple(tirx.Cast(y.ty.dtype, parameter) for parameter in scale_and_shift)
        y = y * scale_and_shift[0] if scale_and_shift else y
        return y + scale_and_shift[1] if len(scale_and_shift) > 1 else y

    return elementwise(ctx, name, function, x, mean, inverse, *affine)


def power_of(base: ir.Expr, exponent: float) -> ir.Expr:
    """A power of a positive number; the usual 3/4 by two square roots."""
    if exponent == 0.75:
        root = tirx.sqrt(base)
        return root * tirx.sqrt(root)
    return tirx.power(base, like(base, exponent))
