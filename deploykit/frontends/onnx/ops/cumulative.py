"""ONNX: CumSum, CumProd (`compiler.operators.cumulative`)."""

from __future__ import annotations

from collections.abc import Callable

from tvm import ir, te, tirx

from deploykit.compiler.dtypes import storage_dtype
from deploykit.compiler.operators.broadcast import compute_dtype, load, store
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.cumulative import around
from deploykit.compiler.operators.imperative import Array, Code, imperative
from deploykit.compiler.operators.integers import expr
from deploykit.compiler.operators.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("CumSum")
def cumulative_sum(ctx: Context, node: Node, x: Value, axis: Value) -> Value:
    return _running(ctx, node, x, axis, 0, lambda a, b: a + b)


@operator("CumProd")
def cumulative_product(ctx: Context, node: Node, x: Value, axis: Value) -> Value:
    return _running(ctx, node, x, axis, 1, lambda a, b: a * b)


def _running(
    ctx: Context, node: Node, x: Value, axis: Value, identity: int, combine: Callable[[ir.Expr, ir.Expr], ir.Expr]
) -> Value:
    outer, length, inner = around(ctx, x, axis)
    exclusive, reverse = node.int("exclusive", 0), node.int("reverse", 0)
    total = ctx.product(x.shape)

    def scan(code: Code, source: Array, target: Array) -> None:
        with code.loop("o", outer) as o, code.loop("i", inner) as i:
            running = code.cell("running", tirx.const(identity, compute_dtype(x.dtype)))
            with code.loop("k", length) as k:
                at = (o * length + (expr(length) - 1 - k if reverse else k)) * inner + i
                before = running.value
                if exclusive:
                    target[at] = store(before, x.dtype)
                running.value = combine(before, load(source, x.dtype, [at]))
                if not exclusive:
                    target[at] = store(running.value, x.dtype)

    def build(t: te.Tensor) -> list[te.Tensor]:
        return imperative(node.op_type.lower(), [t], [((total,), storage_dtype(x.dtype))], scan)

    return ctx.reshape(ctx.kernel(node.op_type.lower(), build, ctx.reshape(x, (total,)), dtype=x.dtype), x.shape)
