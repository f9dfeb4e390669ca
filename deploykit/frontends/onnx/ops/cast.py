"""ONNX: Cast, CastLike, BitCast (`compiler.operators.cast`)."""

from __future__ import annotations

from tvm import ir, te, tirx

from deploykit.compiler.dtypes import storage_dtype
from deploykit.compiler.operators.cast import cast, width_of
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.conversion import convert
from deploykit.compiler.operators.errors import Unsupported
from deploykit.compiler.operators.expressions import compute
from deploykit.compiler.operators.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("Cast")
def cast_operator(ctx: Context, node: Node, x: Value) -> Value:
    return _cast(ctx, node, x, node.dtype("to"))


@operator("CastLike")
def cast_like(ctx: Context, node: Node, x: Value, target: Value) -> Value:
    return _cast(ctx, node, x, target.dtype)


def _cast(ctx: Context, node: Node, x: Value, dtype: str) -> Value:
    round_mode = node.choice("round_mode", ("up", "down", "nearest"), "up")
    return cast(ctx, x, dtype, saturate=bool(node.int("saturate", 1)), round_mode=round_mode)


@operator("BitCast")
def bit_cast(ctx: Context, node: Node, x: Value) -> Value:
    dtype = node.dtype("to")
    if width_of(x.dtype) != width_of(dtype):
        raise Unsupported(f"{x.dtype} has {width_of(x.dtype)} bits an element and {dtype} {width_of(dtype)}")

    def build(t: te.Tensor) -> te.Tensor:
        def element(*index: ir.Expr) -> ir.Expr:
            bits = tirx.Cast("uint8", t(*index)) if x.dtype == "bool" else t(*index)
            if dtype == "bool":
                return convert(bits, "bool")
            if width_of(dtype) < 8:
                return convert(bits, dtype) if "int" in dtype else convert(bits, "uint4")
            target = storage_dtype(dtype)
            return bits if str(bits.ty.dtype) == target else tirx.reinterpret(target, bits)

        return compute(x.shape, element, name="bitcast")

    return ctx.kernel("bitcast", build, x, dtype=dtype)
