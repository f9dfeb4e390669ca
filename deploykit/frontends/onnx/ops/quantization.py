"""Imports the ONNX operators QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear
(`compiler.operators.quantized.quantization`).

A DequantizeLinear of constants is folded here, except if the operator itself dequantises them at import. Constant
integers of 2 and 4 bits become those of 8 bits, which products of integers take.
"""

from __future__ import annotations

import numpy as np

from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.value import Value, constant
from deploykit.compiler.operators.quantized import quantization
from deploykit.frontends.onnx import folding
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("QuantizeLinear")
def quantize_linear(ctx: Context, node: Node, x: Value, scale: Value, zero_point: Value | None = None) -> Value:
    return quantization.quantize_linear(
        ctx,
        x,
        scale,
        zero_point,
        dtype=zero_point.dtype if zero_point is not None else node.dtype("output_dtype", "uint8"),
        precision=node.float_dtype("precision", scale.dtype),
        axis=node.int("axis", 1),
        block_size=node.int("block_size", 0),
        saturate=node.int("saturate", 1) == 1,
    )


@operator("DequantizeLinear")
def dequantize_linear(ctx: Context, node: Node, x: Value, scale: Value, zero_point: Value | None = None) -> Value:
    dtype, block_size = node.dtype("output_dtype", scale.dtype), node.int("block_size", 0)
    x, zero_point = _of_8_bits(x), None if zero_point is None else _of_8_bits(zero_point)
    inputs = [v for v in (x, scale, zero_point) if v is not None]
    own = quantization.is_dequantized_at_import(x, scale, zero_point, dtype, block_size)
    if all(v.is_constant for v in inputs) and not own:
        folded = folding.evaluate(node, inputs)
        if folded is not None:
            return constant(folded[0])
    return quantization.dequantize_linear(
        ctx, x, scale, zero_point, dtype=dtype, axis=node.int("axis", 1), block_size=block_size
    )


def _of_8_bits(x: Value) -> Value:
    if x.array is None or x.dtype not in ("int2", "uint2", "int4", "uint4"):
        return x
    return constant(x.array.astype(np.uint8 if x.dtype.startswith("u") else np.int8))


@operator("DynamicQuantizeLinear")
def dynamic_quantize_linear(ctx: Context, node: Node, x: Value) -> tuple[Value, ...]:
    return quantization.dynamic_quantize_linear(ctx, x)
