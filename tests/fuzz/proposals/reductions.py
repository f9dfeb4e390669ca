"""Nodes over whole axes: reductions, softmax, normalisations, cumulative sums, and the largest elements."""

from __future__ import annotations

from onnx import TensorProto

from tests.fuzz.drawing import Draw, Reject
from tests.fuzz.proposals.elementwise import reduced

PLAIN = (
    *("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"),
    *("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"),
)


def reduce(draw: Draw) -> None:
    x = draw.floats(range(1, 6))
    axes = draw.random.sample(range(x.rank), draw.random.randint(1, min(2, x.rank)))
    named = [a - x.rank if draw.chance(0.3) else a for a in axes]
    reduced(draw, draw.random.choice(PLAIN), x, named, keepdims=draw.random.randint(0, 1))


def reduce_integers(draw: Draw) -> None:
    x = draw.pick(lambda v: v.is_integer and v.rank >= 1)
    operator = draw.random.choice(["ReduceSum", "ReduceMax", "ReduceMin"])
    reduced(draw, operator, x, [draw.axis(x)], keepdims=draw.random.randint(0, 1))


def softmax(draw: Draw) -> None:
    x = draw.floats(range(1, 6))
    draw.one(draw.random.choice(["Softmax", "Softmax", "LogSoftmax"]), x, axis=draw.axis(x))


def layer_norm(draw: Draw) -> None:
    x = draw.floats(range(1, 6))
    axis = draw.axis(x) % x.rank
    shape = [x.fixed(a) for a in range(axis, x.rank)]
    if None in shape:
        raise Reject
    sizes = [n or 1 for n in shape]
    scale, bias = draw.weight(*sizes), draw.weight(*sizes) if draw.chance(0.6) else None
    draw.one("LayerNormalization", x, scale, bias, axis=axis - x.rank if draw.chance(0.5) else axis, epsilon=1e-3)


def layer_norm_by_parts(draw: Draw) -> None:
    """A layer normalisation in the form that exporters write before opset 17."""
    x = draw.floats(range(1, 5))
    axis = [draw.axis(x)]
    centred = draw.one("Sub", x, reduced(draw, "ReduceMean", x, axis, keepdims=1))
    square = draw.one("Mul", centred, centred)
    variance = reduced(draw, "ReduceMean", square, axis, keepdims=1)
    root = draw.one("Sqrt", draw.one("Add", variance, draw.constant(1e-3, TensorProto.FLOAT)))
    draw.one("Div", centred, root)


def batch_norm(draw: Draw) -> None:
    x = draw.floats(range(2, 6))
    channels = x.fixed(1)
    if channels is None:
        raise Reject
    scale, bias, mean = (draw.weight(channels) for _ in range(3))
    variance = draw.constant(draw.weight(channels).arrays[0] ** 2 + 0.1, TensorProto.FLOAT)
    draw.one("BatchNormalization", x, scale, bias, mean, variance)


def instance_norm(draw: Draw) -> None:
    x = draw.floats(range(3, 6))
    channels = x.fixed(1)
    if channels is None:
        raise Reject
    draw.one("InstanceNormalization", x, draw.weight(channels), draw.weight(channels), epsilon=1e-2)


def cumulative(draw: Draw) -> None:
    x = draw.floats(range(1, 5))
    axis = draw.constant(draw.axis(x))
    draw.one("CumSum", x, axis, exclusive=draw.random.randint(0, 1), reverse=draw.random.randint(0, 1))


def top(draw: Draw) -> None:
    """The largest or smallest values. Their indices are not used, because the order of equal values is undefined."""
    x = draw.floats(range(1, 5))
    axis = draw.axis(x)
    k = draw.constant([draw.random.randint(1, min(x.sizes(axis)))])
    draw.emit("TopK", [x, k], 2, axis=axis, largest=draw.random.randint(0, 1))
    draw.pool.pop()


def argument(draw: Draw) -> None:
    """The index of an extreme element of an input of the model, whose elements differ by more than rounding."""
    x = draw.pick(lambda v: v.name in draw.inputs and v.is_float and v.rank >= 1)
    operator = draw.random.choice(["ArgMax", "ArgMin"])
    draw.one(operator, x, axis=draw.axis(x), keepdims=draw.random.randint(0, 1))


def lp_norm(draw: Draw) -> None:
    x = draw.floats(range(1, 5))
    away = draw.one("Add", draw.one("Abs", x), draw.constant(0.25, TensorProto.FLOAT))
    draw.one("LpNormalization", away, axis=draw.axis(x), p=draw.random.choice([1, 2]))


PROPOSALS = {
    reduce: 8,
    reduce_integers: 1,
    softmax: 4,
    layer_norm: 3,
    layer_norm_by_parts: 2,
    batch_norm: 1,
    instance_norm: 1,
    cumulative: 1,
    top: 1,
    argument: 1,
    lp_norm: 1,
}
