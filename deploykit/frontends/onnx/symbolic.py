"""Shape arithmetic: operators on tensors whose elements are integers or expressions over dims.

`Shape` starts it; `Gather`, `Concat`, `Mul`, ... on its results stay expressions, so that a `Reshape` at the end of
such a chain gets integer expressions and no tensor is ever computed. The functions work on numpy object arrays, whose
elementwise operators are those of the expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import ir, tirx

from deploykit.frontends.onnx.value import AnyValue, Value, known

if TYPE_CHECKING:
    from deploykit.frontends.onnx.context import Context
    from deploykit.frontends.onnx.node import Node

Array = np.ndarray[Any, np.dtype[np.object_]]


def evaluate(ctx: Context, node: Node, inputs: Sequence[AnyValue | None]) -> tuple[AnyValue, ...] | None:
    """The results of a node as known values, or `None` when it has to be computed by kernels."""
    if node.domain:
        return None
    function = _FUNCTIONS.get(node.op_type)
    if function is None or not all(i is None or (isinstance(i, Value) and i.is_known) for i in inputs):
        return None
    values = [i for i in inputs if isinstance(i, Value)]
    if len(values) != len([i for i in inputs if i is not None]) or not any(v.elements is not None for v in values):
        return None
    if any(v.dtype.startswith(("float", "bfloat")) for v in values):
        return None
    result = function(node, *[i.known_elements() if isinstance(i, Value) else None for i in inputs])
    if result is None:
        return None
    dtype = "bool" if node.op_type in _PREDICATES else values[-1].dtype if node.op_type == "Where" else values[0].dtype
    if node.op_type == "Cast":
        dtype = node.dtype("to")
    simplified = np.empty(np.shape(result), dtype=object)
    flat = np.asarray(result, dtype=object).reshape(-1)
    simplified.reshape(-1)[:] = [ctx.simplify(e) if isinstance(e, ir.Expr) and dtype != "bool" else e for e in flat]
    return (known(simplified, dtype),)


def _elementwise(function: Callable[..., Any]) -> Callable[..., Array]:
    vectorised = np.frompyfunc(function, function.__code__.co_argcount, 1)
    return lambda node, *arrays: np.asarray(vectorised(*arrays), dtype=object)


def _expr(value: Any) -> Any:
    return tirx.IntImm("int64", int(value)) if isinstance(value, (int, np.integer)) else value


def _is_plain(*values: Any) -> bool:
    return all(isinstance(v, (int, bool, np.integer, np.bool_)) for v in values)


def _divide(a: Any, b: Any) -> Any:
    """ONNX integer division truncates; dims are not negative, and for those it is floor division."""
    if _is_plain(a, b):
        return int(a / b) if b and abs(a) < 2**52 else (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)
    return tirx.truncdiv(_expr(a), _expr(b))


def _modulo(a: Any, b: Any) -> Any:
    return a % b if _is_plain(a, b) else tirx.floormod(_expr(a), _expr(b))


def _select(condition: Any, a: Any, b: Any) -> Any:
    if _is_plain(condition):
        return a if condition else b
    return tirx.Select(condition, _expr(a), _expr(b))


def _minimum(a: Any, b: Any) -> Any:
    return min(a, b) if _is_plain(a, b) else tirx.min(_expr(a), _expr(b))


def _maximum(a: Any, b: Any) -> Any:
    return max(a, b) if _is_plain(a, b) else tirx.max(_expr(a), _expr(b))


def _compare(name: str) -> Callable[[Any, Any], Any]:
    operation = {"Equal": tirx.EQ, "Less": tirx.LT, "Greater": tirx.GT, "LessOrEqual": tirx.LE, "GreaterOrEqual": tirx.GE}[name]
    python = {
        "Equal": lambda a, b: a == b,
        "Less": lambda a, b: a < b,
        "Greater": lambda a, b: a > b,
        "LessOrEqual": lambda a, b: a <= b,
        "GreaterOrEqual": lambda a, b: a >= b,
    }[name]
    return lambda a, b: bool(python(a, b)) if _is_plain(a, b) else operation(_expr(a), _expr(b))


def _fold(pairwise: Callable[[Any, Any], Any]) -> Callable[..., Array]:
    def run(node: Node, *arrays: Array) -> Array:
        result = arrays[0]
        for array in arrays[1:]:
            result = np.asarray(np.frompyfunc(pairwise, 2, 1)(result, array), dtype=object)
        return result

    return run


def _axes(node: Node, operand: Array | None) -> list[int] | None:
    if operand is not None:
        return [int(a) for a in operand.reshape(-1)] if _is_plain(*operand.reshape(-1)) else None
    return node.ints("axes") if node.has("axes") else None


def _unsqueeze(node: Node, x: Array, axes: Array | None = None) -> Array | None:
    where = _axes(node, axes)
    return None if where is None else np.expand_dims(x, tuple(where))


def _squeeze(node: Node, x: Array, axes: Array | None = None) -> Array | None:
    if axes is None and not node.has("axes"):
        return np.squeeze(x)
    where = _axes(node, axes)
    return None if where is None else np.squeeze(x, tuple(where))


def _gather(node: Node, x: Array, indices: Array) -> Array | None:
    if not _is_plain(*indices.reshape(-1)):
        return None
    return np.asarray(np.take(x, indices.astype(np.int64), axis=node.int("axis", 0)), dtype=object)


def _slice(node: Node, x: Array, *operands: Array | None) -> Array | None:
    if not operands and not node.has("starts"):
        return None
    given = [o for o in operands if o is not None]
    if not all(_is_plain(*o.reshape(-1)) for o in given):
        return None
    if operands:
        starts, ends = (list(o.reshape(-1)) for o in given[:2])
        axes = list(operands[2].reshape(-1)) if len(operands) > 2 and operands[2] is not None else list(range(len(starts)))
        steps = list(operands[3].reshape(-1)) if len(operands) > 3 and operands[3] is not None else [1] * len(starts)
    else:
        starts, ends = node.ints("starts"), node.ints("ends")
        axes, steps = node.ints("axes", list(range(len(starts)))), [1] * len(starts)
    where = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        end = None if step < 0 and end < -x.shape[axis] else end
        where[axis] = slice(start, end, step)
    return x[tuple(where)]


def _reduce(pairwise: Callable[[Any, Any], Any], empty: int) -> Callable[..., Array | None]:
    def run(node: Node, x: Array, axes: Array | None = None) -> Array | None:
        where = _axes(node, axes)
        if x.ndim != 1 or (where is not None and where not in ([0], [-1])):
            return None
        total: Any = empty if not x.size else x[0]
        for element in x[1:]:
            total = pairwise(total, element)
        return np.asarray([total] if node.int("keepdims", 1) else total, dtype=object)

    return run


def _reshape(node: Node, x: Array, shape: Array) -> Array | None:
    if not _is_plain(*shape.reshape(-1)):
        return None
    sizes = [int(n) for n in shape.reshape(-1)]
    return x.reshape([x.shape[i] if n == 0 and not node.int("allowzero", 0) else n for i, n in enumerate(sizes)])


def _cast(node: Node, x: Array) -> Array | None:
    return x if node.dtype("to") in ("int64", "int32") else None


def _not(value: Any) -> Any:
    return not value if _is_plain(value) else tirx.Not(value)


def _and(a: Any, b: Any) -> Any:
    return bool(a and b) if _is_plain(a, b) else tirx.And(_truth(a), _truth(b))


def _or(a: Any, b: Any) -> Any:
    return bool(a or b) if _is_plain(a, b) else tirx.Or(_truth(a), _truth(b))


def _truth(value: Any) -> Any:
    return tirx.const(bool(value), "bool") if _is_plain(value) else value


_PREDICATES = {"Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Not", "And", "Or"}

_FUNCTIONS: dict[str, Callable[..., Array | None]] = {
    "Add": _elementwise(lambda a, b: a + b),
    "Sub": _elementwise(lambda a, b: a - b),
    "Mul": _elementwise(lambda a, b: a * b),
    "Div": _elementwise(lambda a, b: _divide(a, b)),
    "Mod": _elementwise(lambda a, b: _modulo(a, b)),
    "Neg": _elementwise(lambda a: -a),
    "Abs": _elementwise(lambda a: abs(a) if _is_plain(a) else tirx.max(a, -a)),
    "Not": _elementwise(_not),
    "And": _elementwise(_and),
    "Or": _elementwise(_or),
    "Where": _elementwise(_select),
    "Min": _fold(_minimum),
    "Max": _fold(_maximum),
    "Sum": _fold(lambda a, b: a + b),
    "Identity": lambda node, x: x,
    "Cast": _cast,
    "Concat": lambda node, *arrays: np.concatenate(arrays, axis=node.int("axis")),
    "Gather": _gather,
    "Slice": _slice,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Reshape": _reshape,
    "Flatten": lambda node, x: x.reshape((1, -1)) if node.int("axis", 1) == 0 else None,
    "Transpose": lambda node, x: np.transpose(x, node.ints("perm") if node.has("perm") else None),
    "ReduceProd": _reduce(lambda a, b: a * b, 1),
    "ReduceSum": _reduce(lambda a, b: a + b, 0),
    "ReduceMax": _reduce(_maximum, 0),
    "ReduceMin": _reduce(_minimum, 0),
}
for _name in ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"):
    _FUNCTIONS[_name] = (lambda compare: lambda node, a, b: np.asarray(np.frompyfunc(compare, 2, 1)(a, b), dtype=object))(
        _compare(_name)
    )
