"""Discrete Fourier transforms: `dft`, `stft`.

A transform of `length` points is a product with a matrix. Its rows are samples with their real and imaginary parts; its
columns are frequencies with their parts. The matrix is a constant if its size is known and moderate; else a kernel
computes it from `exp(i 2 pi (k n mod length) / length)`. The variants differ only in the matrix:

* samples beyond `length` have zero rows, and missing samples have no rows;
* the inverse has the opposite sign and the factor `1 / length`;
* the one-sided transform has only the columns up to `length / 2`. Its inverse has real results, and counts every
  frequency except 0 and `length / 2` twice.

If the axis is only known at run time, a kernel replaces the matrix product. (Source: ONNX operators DFT, STFT.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from tvm import ir, te, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.conversion import compute_dtype, load, store
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.expressions import compute, reduce_axis
from deploykit.compiler.operators.building.integers import (
    all_plain,
    equal,
    expr,
    floor_div,
    from_end,
    is_plain,
    maximum,
    select,
    truth,
)
from deploykit.compiler.operators.building.sizes import only_integer
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.layout import transpose
from deploykit.compiler.operators.matmul import matmul

MAXIMUM_CONSTANT = 1 << 21
"""The most elements of a constant matrix. A larger one is computed at run time instead of being stored as a weight."""


def dft(
    ctx: Context,
    x: Value,
    length: Value | None,
    axis: IntExpr,
    *,
    inverse: bool = False,
    onesided: bool = False,
) -> Value:
    """The transform of `length` points (default: the number of samples) along `axis` of `x`. The last axis of `x` holds
    real parts, or real and imaginary parts. The last axis of the result holds both, except for a one-sided inverse,
    which is real.

    Raises `Unsupported` for a last axis of another size, and if `axis` is the last one."""
    axis = ctx.simplify(from_end(axis, x.rank))
    parts = x.shape[-1]
    if not is_plain(parts) or parts not in (1, 2) or x.rank < 2:
        raise Unsupported("the last axis of the input of a Fourier transform must have the size 1 or 2")
    samples = x.shape[-2]
    for i in range(x.rank - 1):
        samples = ctx.simplify(select(equal(axis, i), x.shape[i], samples))
    if length is not None:
        points = only_integer(ctx, length, minimum=1, hint="dft_length")
    else:
        points = ctx.simplify((samples - 1) * 2 if inverse and onesided else samples)
    transform = _Transform(points, samples, parts, inverse, onesided)
    if not is_plain(axis):
        return _along_runtime_axis(ctx, x, transform, axis)
    if axis >= x.rank - 1:
        raise Unsupported(f"a Fourier transform along axis {axis} of a tensor of rank {x.rank}")
    order = [*(i for i in range(x.rank - 1) if i != axis), axis, x.rank - 1]
    y = _transformed(ctx, transpose(ctx, x, order), transform)
    return transpose(ctx, y, [order.index(i) for i in range(x.rank)])


def stft(
    ctx: Context,
    signal: Value,
    step: Value,
    window: Value | None = None,
    length: Value | None = None,
    *,
    onesided: bool = True,
) -> Value:
    """The transforms (batch, frames, bins, 2) of frames of `signal` (batch, samples, 1 or 2: real or complex).

    A frame starts every `step` samples and has `length` of them, which are multiplied by `window`."""
    batch, total, parts = signal.shape
    if not is_plain(parts) or parts not in (1, 2):
        raise Unsupported("the last axis of a signal must have the size 1 or 2")
    hop = only_integer(ctx, step, minimum=1, maximum=None, hint="frame_step")
    size = _frame_length(ctx, total, window, length)
    frames = ctx.simplify(maximum(floor_div(total - size, hop) + 1, 0))

    def build(t: te.Tensor, *weights: te.Tensor) -> te.Tensor:
        def element(b: ir.Expr, frame: ir.Expr, n: ir.Expr, part: ir.Expr) -> ir.Expr:
            value = load(t, signal.dtype, (b, frame * hop + n, part))
            return store(value * load(weights[0], signal.dtype, (n,)) if weights else value, signal.dtype)

        return compute((batch, frames, size, parts), element, name="frames")

    operands = [signal] if window is None else [signal, window]
    framed = ctx.kernel("frames", build, *operands, dtype=signal.dtype)
    return _transformed(ctx, framed, _Transform(size, size, parts, inverse=False, onesided=onesided))


def _frame_length(ctx: Context, total: IntExpr, window: Value | None, length: Value | None) -> IntExpr:
    """The samples of a frame: the given length, that of the window, or all `total` samples."""
    if window is None and length is None:
        return total
    if length is None:
        assert window is not None
        return window.shape[0]
    size = only_integer(ctx, length, minimum=1, maximum=total, hint="frame_length")
    if window is None:
        return size
    ctx.require(
        equal(size, window.shape[0]), "frame_length {} differs from the {} of the window", size, window.shape[0]
    )
    return window.shape[0]


@dataclass(frozen=True)
class _Transform:
    """A transform of `samples` with `parts` (1: real, 2: complex) to `bins`."""

    length: IntExpr
    samples: IntExpr
    parts: int
    inverse: bool
    onesided: bool

    @property
    def result_parts(self) -> int:
        return 1 if self.inverse and self.onesided else 2

    @property
    def bins(self) -> IntExpr:
        return floor_div(self.length, 2) + 1 if self.onesided and not self.inverse else self.length


def _transformed(ctx: Context, x: Value, transform: _Transform) -> Value:
    """The transform of (..., samples, parts) along its samples."""
    *outer, samples, parts = x.shape
    rows = ctx.reshape(x, (*outer, samples * parts))
    matrix = ctx.reshape(
        _matrix(ctx, transform, x.dtype),
        (samples * parts, transform.bins * transform.result_parts),
    )
    return ctx.reshape(matmul(ctx, rows, matrix), (*outer, transform.bins, transform.result_parts))


def _along_runtime_axis(ctx: Context, x: Value, transform: _Transform, axis: IntExpr) -> Value:
    """The transform of `x` along an axis that is only known at run time."""
    rank = x.rank
    shape = [ctx.simplify(select(equal(axis, i), transform.bins, x.shape[i])) for i in range(rank - 1)]
    shape.append(transform.result_parts)

    def build(t: te.Tensor, matrix: te.Tensor) -> te.Tensor:
        sample = reduce_axis(transform.samples, name="sample")
        part = reduce_axis(transform.parts, name="part")

        def element(*index: ir.Expr) -> ir.Expr:
            along = [truth(equal(axis, i)) for i in range(rank - 1)]
            where = [tirx.Select(c, sample, i) for c, i in zip(along, index, strict=False)]
            frequency = expr(0)
            for condition, i in zip(along, index, strict=False):
                frequency = tirx.Select(condition, i, frequency)
            factor = load(matrix, x.dtype, (sample, part, frequency, index[-1]))
            return te.sum(load(t, x.dtype, (*where, part)) * factor, axis=[sample, part])

        total = compute(shape, element, name="dft")
        return compute(shape, lambda *i: store(total(*i), x.dtype), name="dft_result")

    return ctx.kernel("dft", build, x, _matrix(ctx, transform, x.dtype), dtype=x.dtype)


def _matrix(ctx: Context, transform: _Transform, dtype: str) -> Value:
    """The matrix, (samples, parts, bins, result parts)."""
    shape = (transform.samples, transform.parts, ctx.simplify(transform.bins), transform.result_parts)
    if all_plain(shape) and ctx.product(shape) <= MAXIMUM_CONSTANT and is_plain(transform.length):
        return ctx.constant(_constant_matrix(transform), dtype)

    def element(sample: ir.Expr, part: ir.Expr, frequency: ir.Expr, result: ir.Expr) -> ir.Expr:
        length = expr(maximum(transform.length, 1))
        step = tirx.const(2 * math.pi if transform.inverse else -2 * math.pi, "float64") / tirx.Cast("float64", length)
        angle = tirx.Cast("float64", tirx.floormod(sample * frequency, length)) * step
        sine = tirx.Select(part == 0, tirx.sin(angle), -tirx.sin(angle))
        value = tirx.Select(part == result, tirx.cos(angle), sine)
        return store(tirx.Cast(compute_dtype(dtype), value * _weight(transform, sample)), dtype)

    return ctx.kernel("dft_matrix", lambda: compute(shape, element, name="dft_matrix"), dtype=dtype)


def _weight(transform: _Transform, sample: ir.Expr) -> ir.Expr:
    """The factor of a sample."""
    length = expr(maximum(transform.length, 1))
    zero, one, two = (tirx.const(n, "float64") for n in (0, 1, 2))
    if not transform.inverse:
        return tirx.Select(sample < length, one, zero)
    share = one / tirx.Cast("float64", length)
    if not transform.onesided:
        return tirx.Select(sample < length, share, zero)
    single = tirx.any(sample == 0, sample * 2 == length)
    return tirx.Select(sample * 2 <= length, tirx.Select(single, share, two * share), zero)


def _constant_matrix(transform: _Transform) -> np.ndarray:
    length, samples, bins = (int(n) for n in (transform.length, transform.samples, transform.bins))
    sample, frequency = np.arange(samples), np.arange(bins)
    sign = 2 if transform.inverse else -2
    angle = sign * np.pi * (np.outer(sample, frequency) % max(length, 1)) / max(length, 1)
    weight = (sample < length).astype(np.float64)
    if transform.inverse and transform.onesided:
        weight = np.where(sample * 2 <= length, 2.0, 0.0)
        weight[(sample == 0) | (sample * 2 == length)] = 1.0
    if transform.inverse:
        weight /= max(length, 1)
    parts = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    matrix = parts.transpose(2, 0, 3, 1) * weight[:, None, None, None]
    return matrix[:, : transform.parts, :, : transform.result_parts]
