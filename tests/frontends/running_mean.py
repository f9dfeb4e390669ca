"""A model with states, which no ONNX file can express: running means of several streams, in a projected space."""

from __future__ import annotations

from operator import add, truediv

import numpy as np

from deploykit.compiler.model import ImportedModel, Port
from deploykit.compiler.operators.building.broadcast import elementwise
from deploykit.compiler.operators.building.context import Context, Site
from deploykit.compiler.operators.building.model import ModelBuilder, Values
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.layout import transpose
from deploykit.compiler.operators.matmul import matmul

WIDTH, INNER = 6, 5


def weights(seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((WIDTH, INNER), dtype=np.float32)


def running_mean(weight: np.ndarray, maximum: int | None = 9) -> ImportedModel:
    """`update(x)`, with `x` of shape `[streams, WIDTH]`, adds a sample to each stream. `read(query)`, with `query` of
    shape `[batch, WIDTH]`, compares with the means. Both use only `x @ weight`, which the function `project`
    computes."""
    builder = ModelBuilder("mean")
    streams, batch, rows = builder.dim("streams", 1, maximum), builder.dim("batch", 1, 7), builder.dim("rows", 1, 9)
    builder.state("total", "float32", (streams, INNER))
    builder.state("count", "float32", ())

    def at(ctx: Context, name: str) -> Context:
        ctx.site = Site(name, name)
        return ctx

    def project(ctx: Context, given: Values, _states: Values) -> tuple[Values, Values]:
        return {"projected": matmul(at(ctx, "project"), given["rows"], ctx.constant(weight))}, {}

    def projected(ctx: Context, x: Value) -> Value:
        return builder.call(ctx, "project", x)[0]

    def update(ctx: Context, given: Values, states: Values) -> tuple[Values, Values]:
        total = elementwise(at(ctx, "total"), "add", add, states["total"], projected(ctx, given["x"]))
        count = elementwise(at(ctx, "count"), "add", add, states["count"], ctx.constant(np.float32(1)))
        return {"samples": count}, {"total": total, "count": count}

    def read(ctx: Context, given: Values, states: Values) -> tuple[Values, Values]:
        mean = elementwise(at(ctx, "mean"), "div", truediv, states["total"], states["count"])
        turned = transpose(at(ctx, "turned"), mean, [1, 0])
        return {"scores": matmul(at(ctx, "scores"), projected(ctx, given["query"]), turned)}, {}

    builder.function("project", [Port("rows", "float32", (rows, WIDTH))], project)
    builder.function("update", [Port("x", "float32", (streams, WIDTH))], update, ["total", "count"])
    builder.function("read", [Port("query", "float32", (batch, WIDTH))], read, ["total", "count"])
    return builder.model()
