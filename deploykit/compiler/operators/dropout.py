"""Dropout. Without training it returns its input.

In training, a uniform random number for each element decides whether it is dropped. If the seed and the sizes are
known, the numbers are drawn at import and equal those of ONNX's reference implementation; else each run draws new ones
(`random`).
(Source: ONNX operator Dropout, opset 13.)
"""

from __future__ import annotations

import numpy as np
from tvm import ir, tirx

from deploykit.compiler.operators.building.broadcast import elementwise
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.integers import all_plain
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.elementwise import like
from deploykit.compiler.operators.random.distributions import random_units

_MAXIMUM_DRAWN = 1 << 20
"""The most elements for which numbers are drawn at import, because they become part of the weights."""
_SEEDS = range(1 << 32)
"""The seeds that ONNX's reference implementation accepts."""


def dropout(
    ctx: Context,
    x: Value,
    ratio: Value | None = None,
    training: Value | None = None,
    *,
    seed: int | None = None,
    mask: str | None = None,
) -> tuple[Value, Value | None]:
    """`x` with a share `ratio` of its elements set to zero and the others scaled up by `1 / (1 - ratio)`. `ratio` is a
    scalar, by default one half. If the boolean scalar `training` is absent or false, the result is `x`. The second
    result tells which elements are kept; without training it is there only if `mask` gives its dtype."""
    if training is not None and _may_drop(ratio, training):
        return _drop(ctx, x, ctx.constant(0.5, "float32") if ratio is None else ratio, training, seed)
    if mask is None:
        return x, None
    return x, elementwise(ctx, "keep_all", lambda _: tirx.const(1, "bool"), x, dtype=mask)


def _may_drop(ratio: Value | None, training: Value) -> bool:
    if training.array is not None and not training.array.reshape(-1)[0]:
        return False
    return ratio is None or ratio.array is None or bool(ratio.array.reshape(-1)[0])


def _drop(ctx: Context, x: Value, ratio: Value, training: Value, seed: int | None) -> tuple[Value, Value]:
    shape = [n for n in x.shape if isinstance(n, int)]
    if seed is not None and seed in _SEEDS and all_plain(x.shape) and np.prod(shape) <= _MAXIMUM_DRAWN:
        numbers = ctx.constant(np.random.RandomState(seed).uniform(0, 1, shape), "float32")
    else:
        numbers = random_units(ctx, x.shape, "float32", seed)

    def keeps(draw: ir.Expr, probability: ir.Expr, trains: ir.Expr) -> ir.Expr:
        return tirx.any(tirx.Not(trains), draw >= tirx.Cast(draw.ty.dtype, probability))

    def scaled(v: ir.Expr, kept: ir.Expr, probability: ir.Expr, trains: ir.Expr) -> ir.Expr:
        grown = v / (like(v, 1) - tirx.Cast(v.ty.dtype, probability))
        return tirx.Select(kept, tirx.Select(trains, grown, v), like(v, 0))

    kept = elementwise(ctx, "keep", keeps, numbers, ratio, training, dtype="bool")
    return elementwise(ctx, "dropout", scaled, x, kept, ratio, training), kept
