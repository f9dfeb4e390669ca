"""Imports the ONNX operators Gather, GatherElements, GatherND, OneHot, ArrayFeatureExtractor
(`compiler.operators.indexing`)."""

from __future__ import annotations

from deploykit.compiler.operators import indexing
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.sizes import only_integer
from deploykit.compiler.operators.building.value import Value
from deploykit.frontends.onnx.attributes import ML
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("Gather")
def gather(ctx: Context, node: Node, x: Value, indices: Value) -> Value:
    return indexing.gather(ctx, x, indices, node.axis(x.rank, 0))


@operator("GatherElements")
def gather_elements(ctx: Context, node: Node, x: Value, indices: Value) -> Value:
    return indexing.gather_elements(ctx, x, indices, node.axis(x.rank, 0))


@operator("GatherND")
def gather_nd(ctx: Context, node: Node, x: Value, indices: Value) -> Value:
    return indexing.gather_nd(ctx, x, indices, node.int("batch_dims", 0))


@operator("OneHot")
def one_hot(ctx: Context, node: Node, indices: Value, depth: Value, values: Value) -> Value:
    size = only_integer(ctx, ctx.cast(depth, "int64"), minimum=0, hint="depth")
    return indexing.one_hot(ctx, indices, size, values, node.axis(indices.rank + 1, -1))


@operator("ArrayFeatureExtractor", domain=ML)
def array_feature_extractor(ctx: Context, node: Node, x: Value, indices: Value) -> Value:
    return indexing.features(ctx, x, indices)
