"""Imports the ONNX operators Scatter, ScatterElements, ScatterND, TensorScatter, MaxUnpool
(`compiler.operators.scatter`)."""

from __future__ import annotations

from collections.abc import Mapping
from operator import add, mul

from deploykit.compiler.operators import scatter
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.tir.extrema import maximum, minimum
from deploykit.frontends.onnx.attributes import axis_attribute
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator

_REDUCTIONS: Mapping[str, scatter.Combine | None] = {
    "none": None,
    "add": add,
    "mul": mul,
    "max": maximum,
    "min": minimum,
}


@operator("Scatter", "ScatterElements")
def scatter_elements(ctx: Context, node: Node, x: Value, indices: Value, updates: Value) -> Value:
    return scatter.scatter_elements(ctx, x, indices, updates, node.axis(x.rank, 0), _combine(node))


@operator("ScatterND")
def scatter_nd(ctx: Context, node: Node, x: Value, indices: Value, updates: Value) -> Value:
    return scatter.scatter_nd(ctx, x, indices, updates, _combine(node))


def _combine(node: Node) -> scatter.Combine | None:
    return _REDUCTIONS[node.choice("reduction", _REDUCTIONS, "none")]


@operator("TensorScatter")
def tensor_scatter(ctx: Context, node: Node, cache: Value, update: Value, starts: Value | None = None) -> Value:
    circular = node.choice("mode", ("linear", "circular"), "linear") == "circular"
    return scatter.tensor_scatter(ctx, cache, update, starts, node.axis(cache.rank, -2), circular=circular)


@operator("MaxUnpool")
def max_unpool(ctx: Context, node: Node, x: Value, indices: Value, output_shape: Value | None = None) -> Value:
    window = node.ints("kernel_shape")
    strides, pads = axis_attribute(node, "strides", len(window), 1), axis_attribute(node, "pads", 2 * len(window), 0)
    shape = None if output_shape is None else ctx.ints(output_shape, minimum=0, hint="size")
    return scatter.max_unpool(ctx, x, indices, window, strides, pads, shape)
