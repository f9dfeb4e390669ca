"""A frontend without a file format: a transformer block of numpy arrays, said in the compiler's operators."""

from __future__ import annotations

from collections.abc import Mapping
from operator import add, mul

import numpy as np
from tvm import ir, relax, tirx

from deploykit.compiler.model import Dim, DimBounds, ImportedModel, Port
from deploykit.compiler.operators.activations import gelu
from deploykit.compiler.operators.building.broadcast import elementwise
from deploykit.compiler.operators.building.context import Context, Shared, Site, emit_function
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.layout import transpose
from deploykit.compiler.operators.matmul import matmul
from deploykit.compiler.operators.normalization import layer_normalization
from deploykit.compiler.operators.softmax import softmax
from deploykit.structure import Structure

Weights = Mapping[str, np.ndarray]

UNBOUNDED: DimBounds = {"batch": (1, None), "seq": (1, None)}


def load_block(weights: Weights, heads: int, dims: DimBounds = UNBOUNDED) -> ImportedModel:
    """`x`, `[batch, seq, width]`, to `y` of that shape."""
    shared = Shared()
    sizes = {name: _size(shared, name, bound) for name, bound in dims.items()}
    shape = (*(size.var if isinstance(size, Dim) else size for size in sizes.values()), weights["q"].shape[0])
    var = relax.Var(shared.unique("x"), relax.TensorType(shape, "float32"))
    ctx = Context(shared, relax.BlockBuilder())
    block, x = Block(ctx, weights, heads), Value("float32", shape, var=var)
    main = emit_function(ctx.builder, "main", [var], lambda: [ctx.tensor(block(x))])
    return ImportedModel(
        name="block",
        module=ir.IRModule({**dict(shared.library.get().functions), ir.GlobalVar("main"): main}),
        inputs=(Port("x", "float32", shape),),
        outputs=(Port("y", "float32", shape),),
        dims=tuple(size for size in sizes.values() if isinstance(size, Dim)),
        data_dims=tuple(shared.data_dims),
        requirements=tuple(shared.requirements),
        notes=(),
        inputs_as=(Structure("x", "tensor"),),
        outputs_as=(Structure("y", "tensor"),),
        reimport=lambda given: load_block(weights, heads, {**dims, **given}),
        files=(),
    )


def _size(shared: Shared, name: str, bound: int | tuple[int, int | None]) -> Dim | int:
    if isinstance(bound, int):
        return bound
    dim = Dim(name, tirx.Var(shared.unique(name), "int64"), *bound)
    shared.variables.add(dim.var)
    shared.facts.bind(dim.var, *bound)
    return dim


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
        """The builder, which calls what comes next by this name."""
        self.ctx.site = Site(name=name)
        return self.ctx
