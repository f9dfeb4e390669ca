"""Imports the ONNX operators DFT, STFT (`compiler.operators.signal.fourier`).

The axis of DFT is an attribute up to opset 19."""

from __future__ import annotations

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.sizes import only_integer
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.signal import fourier
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("DFT")
def dft_along_attribute(ctx: Context, node: Node, x: Value, length: Value | None = None) -> Value:
    return _dft(ctx, node, x, length, node.int("axis", 1))


@operator("DFT", since=20)
def dft(ctx: Context, node: Node, x: Value, length: Value | None = None, axis: Value | None = None) -> Value:
    where = -2 if axis is None else only_integer(ctx, axis, minimum=-x.rank, maximum=x.rank - 2, hint="axis")
    return _dft(ctx, node, x, length, where)


def _dft(ctx: Context, node: Node, x: Value, length: Value | None, axis: IntExpr) -> Value:
    inverse, onesided = node.int("inverse", 0) == 1, node.int("onesided", 0) == 1
    return fourier.dft(ctx, x, length, axis, inverse=inverse, onesided=onesided)


@operator("STFT")
def stft(
    ctx: Context, node: Node, signal: Value, step: Value, window: Value | None = None, length: Value | None = None
) -> Value:
    if signal.rank == 2:  # not in the specification, but models contain it and ONNX Runtime reads it as a real signal
        signal = ctx.reshape(signal, (*signal.shape, 1))
    return fourier.stft(ctx, signal, step, window, length, onesided=node.int("onesided", 1) == 1)
