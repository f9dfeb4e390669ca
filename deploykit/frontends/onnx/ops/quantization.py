"""ONNX: QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear (`compiler.operators.quantization`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from tvm import ir, te, tirx

from deploykit.compiler.dtypes import is_narrow_float
from deploykit.compiler.operators.axes import from_front
from deploykit.compiler.operators.broadcast import compute_dtype, elementwise, load, store
from deploykit.compiler.operators.channels import first_of
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.elementwise import like
from deploykit.compiler.operators.errors import Unsupported
from deploykit.compiler.operators.expressions import compute
from deploykit.compiler.operators.integers import equal, expr
from deploykit.compiler.operators.quantization import (
    INTEGERS,
    RANGES,
    alike,
    codes_of,
    dequantized,
    float_of,
    is_integer,
    is_single,
    looked_up,
    number_of,
    quantized,
    requantized,
    rounded,
    without_zero_point,
)
from deploykit.compiler.operators.reduce_axes import MAXIMUM, MINIMUM, reduce_axes
from deploykit.compiler.operators.value import Quantized, Value, constant
from deploykit.frontends.onnx import folding
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator

_Position: TypeAlias = Callable[[Sequence[ir.Expr]], list[ir.Expr]]


@operator("QuantizeLinear")
def quantize_linear(ctx: Context, node: Node, x: Value, scale: Value, zero_point: Value | None = None) -> Value:
    dtype = zero_point.dtype if zero_point is not None else node.dtype("output_dtype", "uint8")
    if dtype not in RANGES and not is_narrow_float(dtype):
        raise Unsupported(f"{dtype} is not a quantised dtype")
    if x.quantized is not None and alike(x.quantized, scale, zero_point, dtype):
        return x.quantized.x
    precision = node.float_dtype("precision", scale.dtype)
    saturate = node.int("saturate", 1) == 1
    if x.table is not None and x.table.heavy and is_single(scale) and (zero_point is None or is_single(zero_point)):
        entries = quantize_linear(ctx, node, x.table.entries, scale, zero_point)
        assert isinstance(entries, Value)
        return looked_up(ctx, x.table.index, entries)
    if dtype in INTEGERS and precision == x.dtype == "float32":
        again = requantized(ctx, x, scale, zero_point, dtype)
        if again is not None:
            return again
    if x.last is not None and is_single(scale) and (zero_point is None or is_single(zero_point)):
        inner = quantize_linear(ctx, node, replace(x.last, inexact=x.inexact), scale, zero_point)
        assert isinstance(inner, Value)
        return first_of(inner)
    granularity = _Granularity(ctx, node, x)
    inverse = x.inexact and precision == x.dtype == "float32" and scale.array is not None and bool(scale.array.all())
    if inverse and scale.array is not None:
        scale = ctx.constant(np.float32(1) / scale.array)
    parameters = _Parameters(granularity, scale, zero_point)

    def build(*tensors: te.Tensor) -> te.Tensor:
        def element(*index: ir.Expr) -> ir.Expr:
            value = float_of(load(tensors[0], x.dtype, index))
            step, shift = parameters.at(tensors[1:], index)
            factor = tirx.Cast(value.ty.dtype, step)
            quotient = rounded(value * factor if inverse else value / factor, precision)
            return quantized(quotient, shift, dtype, saturate=saturate)

        return compute(x.shape, element, name="quantize")

    return ctx.kernel("quantize", build, x, *parameters.operands, dtype=dtype)


@operator("DequantizeLinear")
def dequantize_linear(ctx: Context, node: Node, x: Value, scale: Value, zero_point: Value | None = None) -> Value:
    source = Quantized(x, scale, zero_point, node.int("axis", 1))
    dtype = node.dtype("output_dtype", scale.dtype)
    inputs = [v for v in (x, scale, zero_point) if v is not None]
    if all(v.is_constant for v in inputs):
        if dtype == "float32" and not node.int("block_size", 0) and is_integer(x):
            return dequantized(source)
        folded = folding.evaluate(node, inputs)
        if folded is not None:
            return constant(folded[0])
    if x.last is not None and source.whole:
        inner = dequantize_linear(ctx, node, x.last, scale, zero_point)
        assert isinstance(inner, Value)
        return replace(first_of(inner), quantized=source, inexact=True, table=codes_of(source))
    granularity = _Granularity(ctx, node, x)
    parameters = _Parameters(granularity, scale, zero_point)

    def build(*tensors: te.Tensor) -> te.Tensor:
        def element(*index: ir.Expr) -> ir.Expr:
            step, shift = parameters.at(tensors[1:], index)
            value = without_zero_point(load(tensors[0], x.dtype, index), shift)
            return store(tirx.Cast(compute_dtype(dtype), value) * step, dtype)

        return compute(x.shape, element, name="dequantize")

    y = ctx.kernel("dequantize", build, x, *parameters.operands, dtype=dtype)
    if node.int("block_size", 0):
        return replace(y, inexact=True)
    return replace(y, quantized=source, inexact=True, table=codes_of(source))


class _Granularity:
    """Which element of a scale or zero point belongs to an element of `x`."""

    def __init__(self, ctx: Context, node: Node, x: Value) -> None:
        self._ctx, self._x = ctx, x
        self._block = node.int("block_size", 0)
        self._axis = node.int("axis", 1)

    def position(self, parameter: Value) -> _Position:
        """Raises `Unsupported` when the parameter's shape fits none of the granularities."""
        if is_single(parameter):
            return lambda _: [expr(0)] * parameter.rank
        rank = self._x.rank
        axis = from_front(self._axis, rank)
        if not self._block and parameter.rank == 1:
            size, length = parameter.shape[0], self._x.shape[axis]
            self._ctx.require(equal(size, length), f"{{}} scales for axis {axis} of size {{}}", size, length)
            return lambda index: [index[axis]]
        if parameter.rank != rank or not self._block:
            raise Unsupported(f"a scale of rank {parameter.rank} for a tensor of rank {rank}, block size {self._block}")
        last = expr(parameter.shape[axis]) - 1

        def blocked(index: Sequence[ir.Expr]) -> list[ir.Expr]:
            return [
                tirx.min(tirx.floordiv(v, expr(self._block)), last) if i == axis else v for i, v in enumerate(index)
            ]

        return blocked


class _Parameters:
    """Scale and zero point of a kernel: operands, or numbers in its code where they are single constants."""

    def __init__(self, granularity: _Granularity, scale: Value, zero: Value | None) -> None:
        given = [v for v in (scale, zero) if v is not None]
        self._positions = [granularity.position(v) for v in given]
        self._given = given
        self._numbers = [number_of(v) for v in given]
        self.operands = [v for v, number in zip(given, self._numbers, strict=True) if number is None]

    def at(self, tensors: Sequence[te.Tensor], index: Sequence[ir.Expr]) -> tuple[ir.Expr, ir.Expr | None]:
        """Scale and zero point of an element; `tensors` are the operands."""
        remaining = iter(tensors)
        values = [
            number if number is not None else load(next(remaining), v.dtype, position(index))
            for v, number, position in zip(self._given, self._numbers, self._positions, strict=True)
        ]
        return values[0], values[1] if len(values) > 1 else None


@operator("DynamicQuantizeLinear")
def dynamic_quantize_linear(ctx: Context, node: Node, x: Value) -> tuple[Value, ...]:
    """uint8 with a range that holds all elements and zero."""
    everything = range(x.rank)
    greatest = reduce_axes(ctx, "greatest", [x], everything, MAXIMUM, keepdims=False)
    least = reduce_axes(ctx, "least", [x], everything, MINIMUM, keepdims=False)

    def scale_of(high: ir.Expr, low: ir.Expr) -> ir.Expr:
        span = tirx.max(high, like(high, 0)) - tirx.min(low, like(low, 0))
        return tirx.Select(tirx.EQ(span, like(span, 0)), like(span, 1), span) / like(span, 255)

    scale = elementwise(ctx, "scale", scale_of, greatest, least)
    zero_point = elementwise(
        ctx,
        "zero_point",
        lambda low, s: quantized(-tirx.min(low, like(low, 0)) / s, None, "uint8"),
        least,
        scale,
        dtype="uint8",
    )
    y = elementwise(ctx, "quantize", lambda v, s, z: quantized(v / s, z, "uint8"), x, scale, zero_point, dtype="uint8")
    return y, scale, zero_point
