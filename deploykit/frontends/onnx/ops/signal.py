"""Imports the ONNX operators HannWindow, HammingWindow, BlackmanWindow, MelWeightMatrix
(`compiler.operators.signal.tables`)."""

from __future__ import annotations

from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.signal import tables
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator

_WINDOWS = {"HannWindow": tables.HANN, "HammingWindow": tables.HAMMING, "BlackmanWindow": tables.BLACKMAN}


@operator(*_WINDOWS)
def window(ctx: Context, node: Node, size: Value) -> Value:
    dtype, periodic = node.dtype("output_datatype", "float32"), bool(node.int("periodic", 1))
    return tables.cosine_window(ctx, size, _WINDOWS[node.op_type], dtype, periodic=periodic)


@operator("MelWeightMatrix")
def mel_weight_matrix(
    ctx: Context, node: Node, bins: Value, length: Value, rate: Value, lower: Value, upper: Value
) -> Value:
    dtype = node.dtype("output_datatype", "float32")
    return tables.mel_weight_matrix(ctx, bins, length, rate, lower, upper, dtype)
