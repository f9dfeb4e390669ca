"""Shortcuts for numbers that were dequantised and are quantised again.

The result is the integers that they came from, a product of integers that is scaled once instead of twice, or a table
of the result of a function for each 8-bit integer.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tvm import ir, te, tirx

from deploykit.compiler.operators.building.broadcast import elementwise
from deploykit.compiler.operators.building.channels import first_of
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.expressions import compute
from deploykit.compiler.operators.building.integers import is_plain
from deploykit.compiler.operators.building.value import Quantized, Table, Value, constant
from deploykit.compiler.operators.quantized.numbers import RANGES, quantized


def is_single(parameter: Value) -> bool:
    """Whether a scale or zero point applies to a whole tensor."""
    return all(is_plain(n) and n == 1 for n in parameter.shape)


def dequantized(source: Quantized) -> Value:
    """The constant, in float32, that `source` represents."""
    x, scale, zero = (None if v is None else v.array for v in (source.x, source.scale, source.zero))
    assert x is not None
    assert scale is not None

    def along(parameter: np.ndarray) -> np.ndarray:
        if source.whole:
            return parameter.reshape(())
        return parameter.reshape([-1 if axis == source.axis % x.ndim else 1 for axis in range(x.ndim)])

    shifted = x.astype(np.int32) if zero is None else x.astype(np.int32) - along(zero).astype(np.int32)
    return replace(constant(shifted.astype(np.float32) * along(scale)), quantized=source)


def codes(source: Quantized) -> Table | None:
    """The number that each 8-bit integer represents, if one constant scale and zero point determine it; else None."""
    if source.x.dtype not in ("int8", "uint8") or not source.whole or source.scale.dtype != "float32":
        return None
    if source.scale.array is None or (source.zero is not None and source.zero.array is None):
        return None
    low, high = RANGES[source.x.dtype]
    each = replace(source, x=constant(np.arange(low, high + 1).astype(source.x.dtype)))
    return Table(source.x, replace(dequantized(each), quantized=None, inexact=True))


def looked_up(ctx: Context, index: Value, entries: Value) -> Value:
    """The table entry of each element of `index`."""
    if index.last is not None:
        return first_of(looked_up(ctx, index.last, entries))
    low = RANGES[index.dtype][0]

    def build(x: te.Tensor, table: te.Tensor) -> te.Tensor:
        return compute(index.shape, lambda *i: table(tirx.Cast("int64", x(*i)) - low), name="look_up")

    return ctx.kernel("look_up", build, index, entries, dtype=entries.dtype)


def same(source: Quantized, scale: Value, zero: Value | None, dtype: str) -> bool:
    """Whether quantising with these parameters gives the integers of `source`."""
    if source.x.dtype != dtype or not source.whole or not is_single(scale):
        return False
    for given, own in ((scale, source.scale), (zero, source.zero)):
        a, b = (np.zeros(1) if v is None else v.array for v in (given, own))
        if a is None or b is None or a.reshape(-1)[0] != b.reshape(-1)[0]:
            return False
    return True


def requantized(ctx: Context, x: Value, scale: Value, zero: Value | None, dtype: str) -> Value | None:
    """A product of integers, quantised from its sums with a single factor; `None` for other values. Clips that
    quantisation implies anyway are left out."""
    if scale.array is None or (zero is not None and zero.array is None) or not scale.array.all():
        return None
    if not is_single(scale) or (zero is not None and not is_single(zero)):
        return None
    step = float(scale.array.reshape(()))
    shift = 0 if zero is None or zero.array is None else int(zero.array.reshape(()))
    low, high = RANGES[dtype]
    first, last = (low - shift + 0.5) * step, (high - shift - 0.5) * step
    while x.clipped is not None and x.clipped.low <= first and x.clipped.high >= last:
        x = x.clipped.x
    if x.scaled is None:
        return None
    factor, bias = ((v / np.float32(step)).astype(np.float32) for v in (x.scaled.factor, x.scaled.bias))

    def function(total: ir.Expr, by: ir.Expr, addend: ir.Expr) -> ir.Expr:
        return quantized(tirx.Cast("float32", total) * by + addend, tirx.const(shift, dtype), dtype)

    operands = [x.scaled.total, ctx.constant(factor), ctx.constant(bias)]
    return elementwise(ctx, "requantize", function, *operands, dtype=dtype)
