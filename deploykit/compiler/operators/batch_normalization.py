"""BatchNormalization, with stored statistics or, in training mode, with those of the batch.

Constant statistics and parameters are folded into one scale and one shift per channel. Data is (N, C, ...); scale,
shift, mean and variance are (C,). (Source: ONNX operator BatchNormalization, opset 15.)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tvm import ir, te, tirx

from deploykit.compiler.operators.building.broadcast import elementwise
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.conversion import compute_dtype, load
from deploykit.compiler.operators.building.expressions import compute, reduce_axis
from deploykit.compiler.operators.building.sizes import checked_reshape, require_equal
from deploykit.compiler.operators.building.value import Value


def batch_normalization(
    ctx: Context, x: Value, scale: Value, shift: Value, *, mean: Value, variance: Value, epsilon: float
) -> Value:
    """`(x - mean) / sqrt(variance + epsilon) * scale + shift`."""
    channels = (x.shape[1] if x.rank > 1 else 1, *[1] * (x.rank - 2))
    arrays = [v.array for v in (scale, shift, mean, variance)]
    if all(a is not None for a in arrays) and x.dtype in ("float32", "float64"):
        for operand in (scale, shift, mean, variance):
            require_equal(ctx, "parameters and channels differ in number", ctx.product(operand.shape), channels[0])
        g, b, m, v = (np.asarray(a, np.float64).reshape(-1, *channels[1:]) for a in arrays)
        factor = g / np.sqrt(v + epsilon)
        folded = [ctx.constant(a, x.dtype) for a in (factor, b - m * factor)]
        return elementwise(ctx, "batch_normalization", lambda t, a, c: t * a + c, x, *folded)
    parameters = [checked_reshape(ctx, v, channels) for v in (scale, shift, mean, variance)]
    return elementwise(
        ctx,
        "batch_normalization",
        lambda t, g, b, m, v: (t - m) / tirx.sqrt(v + tirx.const(epsilon, str(v.ty.dtype))) * g + b,
        x,
        *parameters,
    )


def batch_normalization_in_training(
    ctx: Context, x: Value, scale: Value, shift: Value, *, mean: Value, variance: Value, epsilon: float, momentum: float
) -> tuple[Value, Value, Value]:
    """`batch_normalization` by the mean and population variance of the batch. Also returns the running statistics:
    `mean` and `variance` times `momentum`, plus those of the batch times `1 - momentum`."""
    batch_mean, batch_variance = _statistics(ctx, x, mean.dtype)

    def running(old: ir.Expr, new: ir.Expr) -> ir.Expr:
        return old * momentum + new * (1.0 - momentum)

    y = batch_normalization(ctx, x, scale, shift, mean=batch_mean, variance=batch_variance, epsilon=epsilon)
    return (
        y,
        elementwise(ctx, "running_mean", running, mean, batch_mean),
        elementwise(ctx, "running_variance", running, variance, batch_variance),
    )


def _statistics(ctx: Context, x: Value, dtype: str) -> tuple[Value, Value]:
    """The mean and population variance over all axes except the channels."""
    wide = compute_dtype(dtype)
    others = [n for i, n in enumerate(x.shape) if i != 1]
    count = tirx.Cast(wide, tirx.convert(ctx.product(others)))

    def build(t: te.Tensor) -> tuple[te.Tensor, te.Tensor]:
        def total(name: str, term: Callable[[ir.Expr, ir.Expr], ir.Expr]) -> te.Tensor:
            axes = [reduce_axis(n, name=f"r{i}") for i, n in enumerate(others)]
            return compute(
                (x.shape[1],),
                lambda c: te.sum(term(c, tirx.Cast(wide, load(t, x.dtype, [axes[0], c, *axes[1:]]))), axis=axes),
                name=name,
            )

        sums = total("sums", lambda _, value: value)
        mean = compute((x.shape[1],), lambda c: sums(c) / count, name="mean")
        squares = total("squares", lambda c, value: (value - mean(c)) * (value - mean(c)))
        variance = compute((x.shape[1],), lambda c: squares(c) / count, name="variance")
        return mean, variance

    result = ctx.kernel("statistics", build, x, dtype=(dtype, dtype))
    assert isinstance(result, tuple)
    return result[0], result[1]
