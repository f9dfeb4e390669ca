"""A frontend without a file format: a transformer block of numpy arrays, built from the compiler's operators."""

from __future__ import annotations

from collections.abc import Mapping
from operator import add, mul

import numpy as np

from deploykit.compiler.model import DimBounds, ImportedModel, Port
from deploykit.compiler.operators.activations import gelu
from deploykit.compiler.operators.building.broadcast import elementwise
from deploykit.compiler.operators.building.context import Context, Site
from deploykit.compiler.operators.building.model import ModelBuilder, Values
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.layout import transpose
from deploykit.compiler.operators.matmul import matmul
from deploykit.compiler.operators.normalization import layer_normalization
from deploykit.compiler.operators.softmax import softmax

Weights = Mapping[str, np.ndarray]

UNBOUNDED: DimBounds = {"batch": (1, None), "seq": (1, None)}


def load_block(weights: Weights, heads: int, dims: DimBounds = UNBOUNDED) -> ImportedModel:
    """The block as a model from `x`, of shape `[batch, seq, width]`, to `y` of the same shape."""
    builder = ModelBuilder("block")
    sizes = [bound if isinstance(bound, int) else builder.dim(name, *bound) for name, bound in dims.items()]

    def body(ctx: Context, given: Values, _states: Values) -> tuple[Values, Values]:
        return {"y": Block(ctx, weights, heads)(given["x"])}, {}

    builder.function("main", [Port("x", "float32", (*sizes, weights["q"].shape[0]))], body)
    return builder.model()


class Block:
    def __init__(self, ctx: Context, weights: Weights, heads: int) -> None:
        self.ctx = ctx
        self.weights = {name: ctx.constant(array) for name, array in weights.items()}
        self.heads = heads

    def __call__(self, x: Value) -> Value:
        change = self.attention(self.norm("norm1", x))
        x = elementwise(self.at("x1"), "add", add, x, change)
        wide = self.linear("up", self.norm("norm2", x))
        change = self.linear("down", elementwise(self.at("gelu"), "gelu", gelu, wide))
        return elementwise(self.at("y"), "add", add, x, change)

    def attention(self, x: Value) -> Value:
        q, k, v = (self.heads_of(name, self.linear(name, x)) for name in "qkv")
        keys = transpose(self.at("keys"), k, [0, 1, 3, 2])
        dots = matmul(self.at("dots"), q, keys)
        scores = elementwise(self.at("scores"), "mul", mul, dots, self.ctx.constant(np.float32(q.shape[-1] ** -0.5)))
        weights = softmax(self.at("weights"), scores, 3)
        values = matmul(self.at("values"), weights, v)
        rows = transpose(self.at("rows"), values, [0, 2, 1, 3])
        return self.linear("out", self.at("joined").reshape(rows, x.shape))

    def heads_of(self, name: str, x: Value) -> Value:
        batch, seq, width = x.shape
        parts = self.at(f"{name}_parts").reshape(x, (batch, seq, self.heads, width // self.heads))
        return transpose(self.at(f"{name}_heads"), parts, [0, 2, 1, 3])

    def linear(self, name: str, x: Value) -> Value:
        product = matmul(self.at(name), x, self.weights[name])
        return elementwise(self.at(f"{name}_biased"), "add", add, product, self.weights[f"{name}_bias"])

    def norm(self, name: str, x: Value) -> Value:
        affine = self.weights[f"{name}_scale"], self.weights[f"{name}_shift"]
        return layer_normalization(self.at(name), x, *affine, axes=[2], epsilon=1e-5, statistics_dtype="float32")[0]

    def at(self, name: str) -> Context:
        """The context, which gives this name to the operators that follow."""
        self.ctx.site = Site(name=name)
        return self.ctx
