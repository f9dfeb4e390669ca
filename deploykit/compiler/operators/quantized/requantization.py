"""Shortcuts for numbers that were dequantised and are quantised again.

The result is the integers that they came from, a product of integers that is scaled once instead of twice, or a table
of the result of a function for each 8-bit integer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from tvm import ir, te, tirx

from deploykit.compiler.operators.building.broadcast import elementwise
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.expressions import compute
from deploykit.compiler.operators.building.integers import is_plain
from deploykit.compiler.operators.building.moved import first_of
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


@dataclass(frozen=True)
class Single:
    """A constant scale above 0, a constant zero point, and the least and the greatest integer."""

    scale: np.float32
    zero: int
    ends: tuple[int, int]

    def quantized(self, number: float) -> int:
        """The integer of a number."""
        quotient = np.rint(np.float32(number) * (np.float32(1) / self.scale))
        return int(np.clip(quotient + np.float64(self.zero), *self.ends))


def single(scale: Value, zero: Value | None, dtype: str) -> Single | None:
    """The numbers with which a whole tensor becomes one of `dtype`, if they are constants and usual ones."""
    if scale.array is None or not is_single(scale) or not 0 < scale.array.reshape(()) < np.inf:
        return None
    if zero is not None and (zero.array is None or not is_single(zero)):
        return None
    shift = 0 if zero is None or zero.array is None else int(zero.array.reshape(()))
    return Single(np.float32(scale.array.reshape(())), shift, RANGES[dtype])


def unclipped(x: Value, by: Single) -> tuple[Value, Single]:
    """`x` without the clips that it ends with, and how it is quantised instead: the integers are clipped. A quotient
    is rounded to a greater integer only if it is greater, so that the result is the same, but for NaN: it becomes the
    least integer that is left."""
    while x.clipped is not None:
        low, high = sorted((by.quantized(x.clipped.low), by.quantized(x.clipped.high)))
        x, by = x.clipped.x, replace(by, ends=(low, high))
    return x, by


def requantized(ctx: Context, x: Value, by: Single, dtype: str) -> Value | None:
    """A product of integers, quantised from its sums with a single factor; `None` for other values."""
    if x.scaled is None:
        return None
    factor, bias = ((v / by.scale).astype(np.float32) for v in (x.scaled.factor, x.scaled.bias))

    def function(total: ir.Expr, by_: ir.Expr, addend: ir.Expr) -> ir.Expr:
        quotient = tirx.Cast("float32", total) * by_ + addend
        return quantized(quotient, tirx.const(by.zero, dtype), dtype, ends=by.ends)

    operands = [x.scaled.total, ctx.constant(factor), ctx.constant(bias)]
    return elementwise(ctx, "requantize", function, *operands, dtype=dtype)
