"""ONNX: DFT, STFT (`compiler.operators.fourier`)."""

from __future__ import annotations

from tvm import ir, te

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.broadcast import load, store
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.errors import Unsupported
from deploykit.compiler.operators.expressions import compute
from deploykit.compiler.operators.fourier import Transform, along_runtime_axis, frame_length_of, transformed_of
from deploykit.compiler.operators.integers import (
    equal,
    floor_div,
    from_end,
    is_plain,
    maximum,
    select,
)
from deploykit.compiler.operators.layout import transpose
from deploykit.compiler.operators.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("DFT")
def dft_by_attribute(ctx: Context, node: Node, x: Value, length: Value | None = None) -> Value:
    return _dft(ctx, node, x, length, node.int("axis", 1))


@operator("DFT", since=20)
def dft(ctx: Context, node: Node, x: Value, length: Value | None = None, axis: Value | None = None) -> Value:
    where = -2 if axis is None else ctx.ints(axis, minimum=-x.rank, maximum=x.rank - 2, hint="axis")[0]
    return _dft(ctx, node, x, length, where)


def _dft(ctx: Context, node: Node, x: Value, length: Value | None, axis: IntExpr) -> Value:
    axis = ctx.simplify(from_end(axis, x.rank))
    parts = x.shape[-1]
    if not is_plain(parts) or parts not in (1, 2) or x.rank < 2:
        raise Unsupported("the last axis of the input of a Fourier transform must have the size 1 or 2")
    inverse, onesided = node.int("inverse", 0) == 1, node.int("onesided", 0) == 1
    samples = x.shape[-2]
    for i in range(x.rank - 1):
        samples = ctx.simplify(select(equal(axis, i), x.shape[i], samples))
    if length is not None:
        points = ctx.ints(length, minimum=1, hint="dft_length")[0]
    else:
        points = ctx.simplify((samples - 1) * 2 if inverse and onesided else samples)
    transform = Transform(points, samples, parts, inverse, onesided)
    if not is_plain(axis):
        return along_runtime_axis(ctx, x, transform, axis)
    if axis >= x.rank - 1:
        raise Unsupported(f"a Fourier transform along axis {axis} of a tensor of rank {x.rank}")
    order = [*(i for i in range(x.rank - 1) if i != axis), axis, x.rank - 1]
    y = transformed_of(ctx, transpose(ctx, x, order), transform)
    return transpose(ctx, y, [order.index(i) for i in range(x.rank)])


@operator("STFT")
def stft(
    ctx: Context, node: Node, signal: Value, step: Value, window: Value | None = None, length: Value | None = None
) -> Value:
    if signal.rank == 2:  # not in the specification, but ONNX Runtime takes it for a real signal, and models have it
        signal = ctx.reshape(signal, (*signal.shape, 1))
    batch, total, parts = signal.shape
    if not is_plain(parts) or parts not in (1, 2):
        raise Unsupported("the last axis of a signal must have the size 1 or 2")
    hop = ctx.ints(step, minimum=1, maximum=None, hint="frame_step")[0]
    size = frame_length_of(ctx, total, window, length)
    frames = ctx.simplify(maximum(floor_div(total - size, hop) + 1, 0))

    def build(t: te.Tensor, *weights: te.Tensor) -> te.Tensor:
        def element(b: ir.Expr, frame: ir.Expr, n: ir.Expr, part: ir.Expr) -> ir.Expr:
            value = load(t, signal.dtype, (b, frame * hop + n, part))
            return store(value * load(weights[0], signal.dtype, (n,)) if weights else value, signal.dtype)

        return compute((batch, frames, size, parts), element, name="frames")

    operands = [signal] if window is None else [signal, window]
    framed = ctx.kernel("frames", build, *operands, dtype=signal.dtype)
    return transformed_of(
        ctx, framed, Transform(size, size, parts, inverse=False, onesided=node.int("onesided", 1) == 1)
    )
