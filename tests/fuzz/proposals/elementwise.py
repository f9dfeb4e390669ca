"""Elementwise nodes, with operands that broadcast: another value, a weight, a scalar, or a part of the value itself."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from tests.fuzz.drawing import Draw, Reject, Value

SMOOTH = (
    *("Abs", "Asinh", "Atan", "Celu", "Cos", "Elu", "Erf", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Mish"),
    *("Neg", "Relu", "Selu", "Sigmoid", "Sin", "Softplus", "Softsign", "Tanh", "ThresholdedRelu"),
)
"""Functions that are defined for all operands and do not amplify errors."""

BINARY = ["Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "Mean", "Sum"]


def unary(draw: Draw) -> None:
    x = draw.floats()
    operator = draw.random.choice(SMOOTH)
    if operator == "ThresholdedRelu":
        x = draw.pick(lambda v: v.name in draw.inputs and v.is_float)
    draw.one(operator, x)


def bounded(draw: Draw) -> None:
    """Functions that are defined on a range, on values that are well within it."""
    x = draw.floats()
    limits = {
        "Sqrt": (0.01, 1e4),
        "Log": (0.01, 1e4),
        "Reciprocal": (0.05, 1e4),
        "Exp": (-30, 6),
        "Sinh": (-6, 6),
        "Cosh": (-6, 6),
        "Asin": (-0.95, 0.95),
        "Acos": (-0.95, 0.95),
        "Atanh": (-0.95, 0.95),
        "Acosh": (1.05, 1e4),
        "Tan": (-1.4, 1.4),
    }
    suited = [name for name, (low, high) in limits.items() if low <= x.low and x.high <= high]
    if not suited:
        raise Reject
    draw.one(draw.random.choice(suited), x)


def partner(draw: Draw, x: Value) -> Value:
    """A value that broadcasts with `x`, in one direction or in both."""
    kind = draw.random.randrange(5)
    if kind == 0:
        return draw.weight()
    if kind == 1:
        axes = [a for a in x.fixed_axes() if draw.chance(0.7)]
        return draw.weight(*(x.fixed(a) or 1 if a in axes else 1 for a in range(min(axes, default=x.rank), x.rank)))
    if kind == 2 and x.rank:
        axis = draw.axis(x) % x.rank
        start, end = draw.constant([0]), draw.constant([1])
        return draw.one("Slice", x, start, end, draw.constant([axis]))
    if kind == 3 and x.rank:
        return reduced(draw, "ReduceMean", x, [draw.axis(x) % x.rank], keepdims=1)
    return draw.pick(lambda v: v.dtype == x.dtype and broadcasts(v, x))


def reduced(draw: Draw, operator: str, x: Value, axes: list[int], keepdims: int) -> Value:
    """A reduction. Its axes are an operand for `ReduceSum` and from opset 18 on, else an attribute."""
    if draw.opset >= 18 or operator == "ReduceSum":
        return draw.one(operator, x, draw.constant(axes), keepdims=keepdims)
    return draw.one(operator, x, axes=axes, keepdims=keepdims)


def broadcasts(a: Value, b: Value) -> bool:
    try:
        for x, y in zip(a.arrays, b.arrays, strict=True):
            np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return False
    return True


def binary(draw: Draw) -> None:
    x = draw.floats()
    operator = draw.random.choice(BINARY)
    if operator == "Pow":
        if x.low < 0.05 or x.high > 10:
            raise Reject
        draw.one("Pow", x, draw.constant(draw.random.choice([-1, 0.5, 2, 3]), TensorProto.FLOAT))
        return
    y = partner(draw, x)
    if operator == "Div" and np.abs([y.low, y.high]).min() < 0.05:
        y = draw.one("Add", draw.one("Abs", y), draw.constant(0.5, TensorProto.FLOAT))
    pair = [x, y] if draw.chance(0.7) or operator == "Div" else [y, x]
    draw.emit(operator, pair)


def integer(draw: Draw) -> None:
    x = draw.pick(lambda v: v.is_integer)
    operator = draw.random.choice(["Add", "Sub", "Mul", "Max", "Min", "Abs", "Neg", "Mod", "Div"])
    if operator in ("Abs", "Neg"):
        draw.one(operator, x)
        return
    if operator in ("Mod", "Div"):
        draw.one(operator, draw.one("Abs", x), draw.constant(draw.random.randint(1, 5), x.dtype))
        return
    if draw.chance(0.5):
        draw.one(operator, x, draw.constant(draw.random.randint(-3, 3), x.dtype))
        return
    draw.one(operator, x, draw.pick(lambda v: v.dtype == x.dtype and broadcasts(v, x)))


def _raw(draw: Draw) -> Value:
    """An input of the model, or an integer: rounding cannot move it across a threshold."""
    return draw.pick(lambda v: v.name in draw.inputs or v.is_integer)


def condition(draw: Draw) -> Value:
    """A boolean value that does not depend on rounding."""
    if draw.chance(0.3):
        return draw.pick(lambda v: v.dtype == TensorProto.BOOL)
    x = _raw(draw)
    if x.dtype == TensorProto.BOOL:
        return draw.one("Not", x)
    threshold = draw.constant(draw.random.choice([0, 0.5, -0.25]) if x.is_float else 1, x.dtype)
    return draw.one(draw.random.choice(["Greater", "Less", "GreaterOrEqual", "LessOrEqual"]), x, threshold)


def logic(draw: Draw) -> None:
    a = condition(draw)
    b = draw.pick(lambda v: v.dtype == TensorProto.BOOL and broadcasts(v, a))
    draw.one(draw.random.choice(["And", "Or", "Xor", "Equal"]), a, b)


def where(draw: Draw) -> None:
    c = condition(draw)
    x = draw.pick(lambda v: v.is_float and broadcasts(v, c))
    y = partner(draw, x)
    if not broadcasts(y, c):
        raise Reject
    draw.one("Where", *([c, x, y] if draw.chance(0.5) else [c, y, x]))


def cast(draw: Draw) -> None:
    x = draw.pick(lambda v: not v.is_float)
    draw.one("Cast", x, to=draw.random.choice([TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32]))


def clip(draw: Draw) -> None:
    x = draw.floats()
    low, high = (draw.constant(n, TensorProto.FLOAT) for n in (-0.5, 1.25))
    draw.one("Clip", x, *draw.random.choice([[low, high], [low], [None, high]]))


def slope(draw: Draw) -> None:
    x = draw.floats(range(1, 6))
    axes = x.fixed_axes()
    shape = [x.fixed(a) or 1 if a in axes and draw.chance(0.5) else 1 for a in range(x.rank)]
    draw.one("PRelu", x, draw.weight(*shape))


PROPOSALS = {unary: 10, bounded: 6, binary: 16, integer: 2, logic: 1, where: 2, cast: 2, clip: 1, slope: 1}
