"""Operators on ragged tensors, written in Python: `deploykit.build(operator, target=...)` makes an artifact of one.

    batch = dim("batch", maximum=64)
    length = lengths("lengths", batch, maximum=512)
    row, width, out = dim("row", length[batch]), dim("width", 16), dim("out", 8)
    x, w = input("x", (batch, row, width)), input("w", (width, out))
    y = compute("y", (batch, row, out), sum(x[batch, row, width] * w[width, out], width))
    linear = operator("linear", y)

This package describes operators and needs nothing of the compiler; `deploykit.compiler.ragged` compiles them.
"""

# `sum`, `input` and others are called as `ragged.sum`.
from deploykit.ragged.dims import dim, lengths
from deploykit.ragged.functions import (
    cast,
    equal,
    erf,
    exp,
    log,
    max,  # noqa: A004
    maximum,
    min,  # noqa: A004
    minimum,
    sigmoid,
    sqrt,
    sum,  # noqa: A004
    tanh,
    where,
)
from deploykit.ragged.indices import Dim, Index, Lengths
from deploykit.ragged.operators import Operator, operator
from deploykit.ragged.schedules import Schedule, schedule
from deploykit.ragged.tensors import compute, input  # noqa: A004
from deploykit.ragged.values import Tensor, Value

__all__ = [
    "Dim",
    "Index",
    "Lengths",
    "Operator",
    "Schedule",
    "Tensor",
    "Value",
    "cast",
    "compute",
    "dim",
    "equal",
    "erf",
    "exp",
    "input",
    "lengths",
    "log",
    "max",
    "maximum",
    "min",
    "minimum",
    "operator",
    "schedule",
    "sigmoid",
    "sqrt",
    "sum",
    "tanh",
    "where",
]
