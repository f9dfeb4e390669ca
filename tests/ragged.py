"""Models with ragged ports, made of ordinary ONNX models whose ports are declared ragged afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from operator import neg

import deploykit
from deploykit.compiler.model import DimBounds, ImportedModel, Padded, Port
from deploykit.compiler.operators.building.broadcast import elementwise
from deploykit.compiler.operators.building.context import Context, Site
from deploykit.compiler.operators.building.model import ModelBuilder, Values
from tests.frontends.onnx.harness import parse

Instance = tuple[int | str, ...]

TOKENS = """
    (float[tokens,4] x, int64[tokens] ids, int64[batch] lengths)
        => (float[tokens,4] y, int64[tokens] next, int64[batch] doubled)
    <float two = {2}, int64 one = {1}>
    { r = Relu(x)  y = Mul(r, two)  next = Add(ids, one)  doubled = Add(lengths, lengths) }
"""
"""y = 2 relu(x), next = ids + 1, doubled = 2 lengths."""

TOKEN_PORTS: Mapping[str, Instance] = {
    "x": ("lengths", 4),
    "ids": ("lengths",),
    "y": ("lengths", 4),
    "next": ("lengths",),
}

MATRICES = """
    (float[total] a, int64[batch] m, int64[batch] k) => (float[total] y, int64[batch] size)
    { y = Neg(a)  size = Mul(m, k) }
"""
"""y = -a of matrices [m, k], size = m k."""

MATRIX_PORTS: Mapping[str, Instance] = {"a": ("m", "k"), "y": ("m", "k")}


def ragged_model(text: str, instances: Mapping[str, Instance], dims: DimBounds | None = None) -> ImportedModel:
    """The model of an ONNX text, with the ports in `instances` declared ragged."""
    return declared(deploykit.load(parse(text), dims), instances)


def declared(model: ImportedModel, instances: Mapping[str, Instance]) -> ImportedModel:
    """The model with the ports in `instances` declared ragged."""
    signature = model.only
    inputs, outputs = (
        tuple(replace(port, instance=instances.get(port.name)) for port in ports)
        for ports in (signature.inputs, signature.outputs)
    )
    return replace(model, functions=(replace(signature, inputs=inputs, outputs=outputs),))


def token_model() -> ImportedModel:
    dims = {"batch": (0, 8), "tokens": (0, 64)}
    return ragged_model(TOKENS, TOKEN_PORTS, dims)


def matrix_model() -> ImportedModel:
    return ragged_model(MATRICES, MATRIX_PORTS, {"batch": (0, 8), "total": (0, 64)})


POOLED = """
    (float[batch,seq,4] x, int64[batch,seq] mask) => (float[batch,seq,4] y, float[batch,4] pooled)
    <float two = {2}, int64[1] last = {-1}, int64[1] rows = {1}>
    {
        r = Relu(x)  y = Mul(r, two)  ones = Cast<to = 1>(mask)  column = Unsqueeze(ones, last)
        kept = Mul(y, column)  pooled = ReduceSum<keepdims = 0>(kept, rows)
    }
"""
"""y = 2 relu(x), pooled = the sum of y over seq where the mask is 1."""

POOLED_TOKENS = """
    (float[tokens,4] x, int64[batch] lengths) => (float[tokens,4] y, float[batch,4] pooled)
    <float two = {2}, int64 none = {0}, int64 one = {1}, int64[1] first = {0}, int64[1] last = {-1}>
    {
        r = Relu(x)  y = Mul(r, two)
        ends = CumSum(lengths, none)  starts = Sub(ends, lengths)
        shape = Shape<start = 0, end = 1>(x)  tokens = Squeeze(shape, first)  token = Range(none, tokens, one)
        from = Unsqueeze(starts, last)  until = Unsqueeze(ends, last)
        after = GreaterOrEqual(token, from)  before = Less(token, until)  inside = And(after, before)
        weights = Cast<to = 1>(inside)  pooled = MatMul(weights, y)
    }
"""
"""What a conversion of `POOLED` gives."""


def pooled_model(text: str = POOLED_TOKENS, maximum: int | None = 24) -> ImportedModel:
    """The model that a conversion of `POOLED` gives, with a note of its padded form. Its number of operations is made
    up, to look like that of attention."""
    model = ragged_model(text, {"x": ("lengths", 4), "y": ("lengths", 4)}, {"batch": (0, 8), "tokens": (0, 96)})
    flops = "batch*(9*seq*seq + 20*seq + 3)"
    return replace(model, padded=(Padded("seq", "batch", "lengths", ("mask",), maximum, flops),))


def function_model() -> ImportedModel:
    """Two functions: `negate` of a ragged x gives y and the lengths doubled, `double` is dense."""
    builder = ModelBuilder("pair")
    tokens, batch, n = builder.dim("tokens", 0, 64), builder.dim("batch", 0, 8), builder.dim("n", 1, 4)

    def at(ctx: Context, name: str) -> Context:
        ctx.site = Site(name, name)
        return ctx

    def negate(ctx: Context, given: Values, _states: Values) -> tuple[Values, Values]:
        y = elementwise(at(ctx, "y"), "negative", neg, given["x"])
        return {"y": y, "doubled": elementwise(at(ctx, "doubled"), "doubled", lambda v: v + v, given["lengths"])}, {}

    def double(ctx: Context, given: Values, _states: Values) -> tuple[Values, Values]:
        return {"z": elementwise(at(ctx, "z"), "doubled", lambda v: v + v, given["x"])}, {}

    ports = [Port("x", "float32", (tokens, 4), ("lengths", 4)), Port("lengths", "int64", (batch,))]
    builder.function("negate", ports, negate)
    builder.function("double", [Port("x", "float32", (n,))], double)
    model = builder.model()
    first, second = model.functions
    outputs = tuple(replace(port, instance=("lengths", 4) if port.name == "y" else None) for port in first.outputs)
    return replace(model, functions=(replace(first, outputs=outputs), second))
