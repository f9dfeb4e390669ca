"""Conversion of raw narrow floats to and from float32 by integer arithmetic on their bits."""

from __future__ import annotations

from tvm import ir, tirx


def decode(bits: ir.Expr, dtype: str) -> ir.Expr:
    """The float32 value of raw bits."""
    if dtype == "bfloat16":
        return tirx.reinterpret("float32", tirx.Cast("uint32", bits) << tirx.const(16, "uint32"))
    raise NotImplementedError(dtype)


def encode(value: ir.Expr, dtype: str) -> ir.Expr:
    """The raw bits of a float32 value, rounded to nearest even."""
    if dtype == "bfloat16":
        value = tirx.Cast("float32", value)
        bits = tirx.reinterpret("uint32", value)
        rounded = (bits + tirx.const(0x7FFF, "uint32") + ((bits >> tirx.const(16, "uint32")) & tirx.const(1, "uint32"))) >> tirx.const(16, "uint32")
        return tirx.Cast("uint16", tirx.Select(tirx.isnan(value), tirx.const(0x7FC0, "uint32"), rounded))
    raise NotImplementedError(dtype)
