"""Imports the ONNX operators RandomUniform, RandomNormal, RandomUniformLike, RandomNormalLike, Bernoulli, Multinomial
(`compiler.operators.random.distributions`)."""

from __future__ import annotations

from collections.abc import Sequence

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.random import distributions
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("RandomUniform")
def random_uniform(ctx: Context, node: Node) -> Value:
    return _uniform(ctx, node, node.ints("shape"), "float32")


@operator("RandomUniformLike")
def random_uniform_like(ctx: Context, node: Node, x: Value) -> Value:
    return _uniform(ctx, node, x.shape, x.dtype)


@operator("RandomNormal")
def random_normal(ctx: Context, node: Node) -> Value:
    return _normal(ctx, node, node.ints("shape"), "float32")


@operator("RandomNormalLike")
def random_normal_like(ctx: Context, node: Node, x: Value) -> Value:
    return _normal(ctx, node, x.shape, x.dtype)


@operator("Bernoulli")
def bernoulli(ctx: Context, node: Node, p: Value) -> Value:
    return distributions.bernoulli(ctx, p, node.dtype("dtype", p.dtype), _seed(node))


@operator("Multinomial")
def multinomial(ctx: Context, node: Node, x: Value) -> Value:
    return distributions.multinomial(ctx, x, node.int("sample_size", 1), node.dtype("dtype", "int32"), _seed(node))


def _seed(node: Node) -> float | None:
    """The `seed` attribute, which all random operators have; None if it is not given."""
    return node.float("seed") if node.has("seed") else None


def _uniform(ctx: Context, node: Node, shape: Sequence[IntExpr], dtype: str) -> Value:
    dtype = node.dtype("dtype", dtype)
    return distributions.random_uniform(ctx, shape, dtype, node.float("low", 0.0), node.float("high", 1.0), _seed(node))


def _normal(ctx: Context, node: Node, shape: Sequence[IntExpr], dtype: str) -> Value:
    dtype = node.dtype("dtype", dtype)
    return distributions.random_normal(
        ctx, shape, dtype, node.float("mean", 0.0), node.float("scale", 1.0), _seed(node)
    )
