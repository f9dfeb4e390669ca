"""Functions for expressions."""

from __future__ import annotations

from deploykit.errors import UsageError
from deploykit.ragged.indices import Arithmetic, Condition, Dim
from deploykit.ragged.values import DTYPES, FLOATS, Apply, Reduce, Value, ValueLike, as_value, binary


def exp(x: ValueLike) -> Value:
    return _unary("exp", x)


def log(x: ValueLike) -> Value:
    return _unary("log", x)


def sqrt(x: ValueLike) -> Value:
    return _unary("sqrt", x)


def tanh(x: ValueLike) -> Value:
    return _unary("tanh", x)


def sigmoid(x: ValueLike) -> Value:
    return _unary("sigmoid", x)


def erf(x: ValueLike) -> Value:
    return _unary("erf", x)


def maximum(a: ValueLike, b: ValueLike) -> Value:
    """The larger of two values."""
    return binary("max", a, b)


def minimum(a: ValueLike, b: ValueLike) -> Value:
    """The smaller of two values."""
    return binary("min", a, b)


def equal(a: ValueLike, b: ValueLike) -> Value:
    """Whether two values are equal."""
    return binary("eq", a, b)


def where(condition: Value | Condition, then: ValueLike, otherwise: ValueLike) -> Value:
    """`then` where the condition holds, else `otherwise`. Both are computed."""
    tested = as_value(condition, "bool")
    if tested.dtype != "bool":
        raise UsageError(f"a condition is a bool, found {tested.dtype}")
    found = binary("add", then, otherwise)
    return Apply("where", (tested, as_value(then, found.dtype), as_value(otherwise, found.dtype)), found.dtype)


def cast(x: ValueLike, dtype: str) -> Value:
    """A value, also an index, as another dtype."""
    if dtype not in DTYPES:
        raise UsageError(f"there is no dtype '{dtype}'; there are {', '.join(DTYPES)}")
    return Apply("cast", (as_value(x, "int64"),), dtype)


def sum(x: ValueLike, *dims: Dim) -> Value:  # noqa: A001 - `ragged.sum`
    """The sum over all indices of `dims`; over none, 0."""
    return _reduce("sum", x, dims)


def max(x: ValueLike, *dims: Dim) -> Value:  # noqa: A001 - `ragged.max`
    """The maximum over all indices of `dims`; over none, the least number of the dtype."""
    return _reduce("max", x, dims)


def min(x: ValueLike, *dims: Dim) -> Value:  # noqa: A001 - `ragged.min`
    """The minimum over all indices of `dims`; over none, the greatest number of the dtype."""
    return _reduce("min", x, dims)


def _unary(function: str, x: ValueLike) -> Value:
    value = as_value(x, "float32")
    if value.dtype not in FLOATS:
        raise UsageError(f"{function} takes floats, found {value.dtype}; see ragged.cast")
    return Apply(function, (value,), value.dtype)


def _reduce(kind: str, x: ValueLike, dims: tuple[Dim, ...]) -> Value:
    if isinstance(x, Arithmetic) or not isinstance(x, Value):
        x = as_value(x, "float32")
    if not dims:
        raise UsageError(f"{kind} needs the dims to reduce")
    if x.dtype == "bool":
        raise UsageError(f"{kind} takes numbers, found bool; see ragged.cast")
    return Reduce(kind, x, dims)
