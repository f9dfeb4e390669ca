"""ONNX: HannWindow, HammingWindow, BlackmanWindow, MelWeightMatrix (`compiler.operators.signal`)."""

from __future__ import annotations

from deploykit.compiler.operators import signal
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator

_WINDOWS = {"HannWindow": signal.HANN, "HammingWindow": signal.HAMMING, "BlackmanWindow": signal.BLACKMAN}


@operator(*_WINDOWS)
def window(ctx: Context, node: Node, size: Value) -> Value:
    dtype, periodic = node.dtype("output_datatype", "float32"), bool(node.int("periodic", 1))
    return signal.cosine_window(ctx, size, _WINDOWS[node.op_type], dtype, periodic=periodic)


@operator("MelWeightMatrix")
def mel_weight_matrix(
    ctx: Context, node: Node, bins: Value, length: Value, rate: Value, lower: Value, upper: Value
) -> Value:
    dtype = node.dtype("output_datatype", "float32")
    return signal.mel_weight_matrix(ctx, bins, length, rate, lower, upper, dtype)
