"""Shape arithmetic: operators on tensors whose elements are integers or expressions over dims.

A chain starts with `Shape`. The results of `Gather`, `Concat`, `Mul`, ... on it stay expressions, so that a `Reshape`
at its end gets integer expressions and no tensor is ever computed. The functions in the tables work on NumPy object
arrays: `_POINTWISE` element by element, `ARRAYS` (see `symbolic_arrays`) on whole arrays. A function returns `None` if
its result cannot be expressed like that; a kernel then computes it.

Sizes may become floats on the way (see `rational`): `_FLOATS` and operators that only move elements accept those too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import ir, tirx

from deploykit.compiler.operators.building.integers import (
    both,
    either,
    equal,
    expr,
    is_plain,
    less,
    less_equal,
    maximum,
    minimum,
    negate,
    select,
)
from deploykit.compiler.operators.building.rational import ratio_of
from deploykit.compiler.operators.building.sizes import quotient_of_products
from deploykit.compiler.operators.building.value import AnyValue, Value, known
from deploykit.frontends.onnx.symbolic_arrays import ARRAYS, MAXIMUM_ELEMENTS, Array, broadcast

if TYPE_CHECKING:
    from deploykit.compiler.operators.building.context import Context
    from deploykit.frontends.onnx.node import Node


def evaluate(ctx: Context, node: Node, inputs: Sequence[AnyValue | None]) -> tuple[AnyValue, ...] | None:
    """The results of a node as known values, or `None` if kernels must compute them."""
    if node.domain or not _in_reach(inputs):
        return None
    arrays = [i.known_elements() if isinstance(i, Value) else None for i in inputs]
    results = _results(ctx, node, arrays, floats=any(isinstance(i, Value) and _is_float(i) for i in inputs))
    found = results if isinstance(results, list) else [results]
    if results is None or any(np.size(r) > MAXIMUM_ELEMENTS for r in found):
        return None
    dtype = _result_dtype(node, inputs)
    return tuple(_value(ctx, r, dtype) for r in found)


def _results(ctx: Context, node: Node, arrays: Sequence[Array | None], *, floats: bool) -> Any:
    """One array, a list with an array per output, or `None`."""
    if node.op_type == "Cast":
        return _cast(ctx, node, arrays[0])
    if node.op_type in _ELEMENTWISE and not broadcast(*(a.shape for a in arrays if a is not None)):
        return None
    if floats and node.op_type not in _MOVING:
        function = _FLOATS.get(node.op_type)
        return _complete(np.frompyfunc(function, len(arrays), 1)(*arrays)) if function else None
    if node.op_type in _VARIADIC:
        return reduce(np.frompyfunc(_VARIADIC[node.op_type], 2, 1), arrays)
    if node.op_type in _POINTWISE:
        return _complete(np.frompyfunc(_POINTWISE[node.op_type], len(arrays), 1)(*arrays))
    return ARRAYS[node.op_type](node, *arrays) if node.op_type in ARRAYS else None


def _in_reach(inputs: Sequence[AnyValue | None]) -> bool:
    """Whether all inputs are known numbers or booleans, and at least one of them holds expressions."""
    given = [i for i in inputs if i is not None]
    known_ones = [i for i in given if isinstance(i, Value) and i.is_known and (i.dtype in _INTEGERS or _is_float(i))]
    return len(known_ones) == len(given) and any(i.elements is not None for i in known_ones)


_INTEGERS = ("int64", "int32", "bool")


def _is_float(value: Value) -> bool:
    return value.dtype in ("float32", "float64")


def _result_dtype(node: Node, inputs: Sequence[AnyValue | None]) -> str:
    if node.op_type in _PREDICATES:
        return "bool"
    if node.op_type == "Cast":
        return node.dtype("to")
    source = inputs[-1] if node.op_type == "Where" else inputs[0]
    assert isinstance(source, Value)
    return source.dtype


def _value(ctx: Context, result: Any, dtype: str) -> Value:
    array = np.asarray(result, dtype=object)
    simplified = np.empty(array.shape, dtype=object)
    for position, element in np.ndenumerate(array):
        integer = isinstance(element, ir.Expr) and not str(element.ty.dtype).startswith("float")
        simplified[position] = ctx.simplify(element) if integer else element
    return known(simplified, dtype)


# Element by element


def _quotient(a: Any, b: Any) -> Any:
    """ONNX integer division, which truncates. `None` if an expression is divided by zero."""
    if is_plain(a) and is_plain(b):
        return (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1) if b else 0
    return None if is_plain(b) and not b else tirx.truncdiv(expr(a), expr(b))


_POINTWISE: Mapping[str, Callable[..., Any]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Div": _quotient,
    "Neg": lambda a: -a,
    "Abs": lambda a: maximum(a, -a),
    "Not": negate,
    "And": both,
    "Or": either,
    "Where": select,
    "Equal": equal,
    "Less": less,
    "Greater": lambda a, b: less(b, a),
    "LessOrEqual": less_equal,
    "GreaterOrEqual": lambda a, b: less_equal(b, a),
    "Identity": lambda a: a,
}

_VARIADIC: Mapping[str, Callable[[Any, Any], Any]] = {"Min": minimum, "Max": maximum}

EXACT = 1 << 24
"""Up to this number every integer is exact in float32, and no larger integer is rounded to a smaller number."""


def _less_of_floats(a: Any, b: Any) -> Any:
    """A comparison of a size, cast to float, with a whole number, done on integers: the result is the same."""
    size, number = (a, b) if isinstance(a, ir.Expr) else (b, a)
    whole = not isinstance(number, ir.Expr) and float(number).is_integer() and abs(number) < EXACT
    if not whole or not isinstance(size, tirx.Cast) or not str(size.value.ty.dtype).startswith("int"):
        return None
    return less(size.value, int(number)) if size is a else less(int(number), size.value)


_FLOATS: Mapping[str, Callable[..., Any]] = {
    "Less": _less_of_floats,
    "Greater": lambda a, b: _less_of_floats(b, a),
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Div": lambda a, b: a / b if isinstance(b, ir.Expr) or b else None,
    "Floor": lambda a: tirx.floor(a) if isinstance(a, ir.Expr) else float(np.floor(a)),
    "Ceil": lambda a: tirx.ceil(a) if isinstance(a, ir.Expr) else float(np.ceil(a)),
}

_ELEMENTWISE = {*_POINTWISE, *_VARIADIC, *_FLOATS, "Mod"}

_MOVING = {"Concat", "Gather", "Slice", "Split", "Unsqueeze", "Squeeze", "Reshape", "Transpose", "Identity"}

_PREDICATES = {"Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Not", "And", "Or"}


# Casts


def _cast(ctx: Context, node: Node, x: Array | None) -> Any:
    target = node.dtype("to")
    conversions: dict[str, Callable[[Any], Any]] = {
        "bool": lambda e: e if _is_boolean(e) else negate(equal(e, 0)),
        "int64": lambda e: _integer(ctx, e),
        "int32": lambda e: _integer(ctx, e),
        "float32": lambda e: _number(e, target),
        "float64": lambda e: _number(e, target),
    }
    if target not in conversions or (target == "bool" and _holds_floats(x)):
        return None
    return _complete(np.frompyfunc(conversions[target], 1, 1)(x))


def _complete(result: Any) -> Any:
    """The result, or `None` if one of its elements is `None`."""
    return None if any(e is None for e in np.asarray(result, dtype=object).reshape(-1)) else result


def _holds_floats(x: Array | None) -> bool:
    elements: list[Any] = [] if x is None else list(x.reshape(-1))
    return any(isinstance(e, float) or (isinstance(e, ir.Expr) and "float" in str(e.ty.dtype)) for e in elements)


def _number(element: Any, dtype: str) -> Any:
    if _is_boolean(element):
        return None
    return tirx.Cast(dtype, element) if isinstance(element, ir.Expr) else float(element)


def _integer(ctx: Context, element: Any) -> Any:
    """An element as an integer; floats are truncated. `None` for a float that is not a ratio of sizes, or that may be
    negative."""
    if _is_boolean(element):
        return select(element, 1, 0)
    if is_plain(element) or not _holds_floats(np.array([element], dtype=object)):
        return element
    ratio = ratio_of(element)
    if ratio is None or not ctx.proves(less_equal(0, ratio[0])) or not ctx.proves(less(0, ratio[1])):
        return None
    return quotient_of_products(ctx, [ratio[0]], [ratio[1]])


def _is_boolean(element: Any) -> bool:
    return isinstance(element, (bool, np.bool_)) or (isinstance(element, ir.Expr) and str(element.ty.dtype) == "bool")
