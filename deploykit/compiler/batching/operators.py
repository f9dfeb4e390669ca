"""The operators of tensor expressions: the shape of the result for one instance, and the operator over a batch.

Operands of an operator over a batch have a further axis in front, `[nodes, ...]`, unless they are constant, which is
`Batched.shared`. Operators whose operands are all shared are computed by NumPy when the model is built.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import add, mul, sub
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from deploykit.compiler.batching.tensors import Shape
from deploykit.dynamic import functions

if TYPE_CHECKING:
    from deploykit.compiler.operators.building.context import Context
    from deploykit.compiler.operators.building.value import Value


class Mismatch(Exception):
    """Why an operator cannot take operands of these shapes."""


@dataclass(frozen=True)
class Batched:
    """An operand over a batch. `shape` is that of one instance."""

    value: Value
    shape: Shape
    shared: bool = False


Emit: TypeAlias = "Callable[[Context, Sequence[Batched], tuple[int, ...]], Value]"


@dataclass(frozen=True)
class Operator:
    shape: Callable[[Sequence[Shape], tuple[int, ...]], Shape]
    evaluate: Callable[..., np.ndarray]
    """Takes the operands, then the attributes."""
    emit: Emit
    heavy: bool = False
    """Whether it is worth computing for all steps of a loop at once."""
    elementwise: bool = False


def _broadcast(shapes: Sequence[Shape], _: tuple[int, ...]) -> Shape:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise Mismatch(f"shapes {' and '.join(map(str, shapes))} do not broadcast") from None


def _aligned(ctx: Context, operands: Sequence[Batched]) -> list[Value]:
    """The operands with as many axes as the one that has most, so that they broadcast."""
    rank = max(len(operand.shape) for operand in operands)

    def aligned(operand: Batched) -> Value:
        if operand.shared or len(operand.shape) == rank:
            return operand.value
        ones = (1,) * (rank - len(operand.shape))
        return ctx.reshape(operand.value, (operand.value.shape[0], *ones, *operand.shape))

    return [aligned(operand) for operand in operands]


def _elementwise(name: str, function: Callable[..., Any], evaluate: Callable[..., np.ndarray]) -> Operator:
    def emit(ctx: Context, operands: Sequence[Batched], _: tuple[int, ...]) -> Value:
        from deploykit.compiler.operators.building.broadcast import elementwise

        return elementwise(ctx, name, function, *_aligned(ctx, operands))

    return Operator(_broadcast, evaluate, emit, elementwise=True)


def _tir(name: str) -> Callable[..., Any]:
    """A function of elements, found when it is first called."""

    def function(*operands: Any) -> Any:
        from tvm import tirx

        from deploykit.compiler.operators import activations, arithmetic, elementwise
        from deploykit.compiler.tir.extrema import maximum, minimum

        own: dict[str, Callable[..., Any]] = {
            "sigmoid": elementwise.sigmoid,
            "relu": activations.relu,
            "divide": arithmetic.divide,
            "maximum": maximum,
            "minimum": minimum,
            "negative": elementwise.negative,
            "tanh": tirx.tanh,
            "exp": tirx.exp,
            "sqrt": tirx.sqrt,
        }
        return own[name](*operands)

    return function


def _product_shape(shapes: Sequence[Shape], _: tuple[int, ...]) -> Shape:
    a, b = shapes
    if not 1 <= len(a) <= 2 or not 1 <= len(b) <= 2:
        raise Mismatch(f"a product takes vectors and matrices, found shapes {a} and {b}")
    if a[-1] != b[0]:
        raise Mismatch(f"a product of shapes {a} and {b}: {a[-1]} columns and {b[0]} rows differ")
    return (*a[:-1], *b[1:])


def _product(ctx: Context, operands: Sequence[Batched], _: tuple[int, ...]) -> Value:
    from deploykit.compiler.operators.layout import transpose
    from deploykit.compiler.operators.matmul import matmul

    a, b = operands
    if b.shared and len(b.shape) == 2:
        return matmul(ctx, a.value, b.value)
    if a.shared and len(a.shape) == 2 and len(b.shape) == 1:
        return matmul(ctx, b.value, transpose(ctx, a.value, [1, 0]))
    left, right = _matrix(ctx, a, row=True), _matrix(ctx, b, row=False)
    product = matmul(ctx, left, right)
    nodes = (b if a.shared else a).value.shape[0]
    return ctx.reshape(product, (nodes, *a.shape[:-1], *b.shape[1:]))


def _matrix(ctx: Context, operand: Batched, *, row: bool) -> Value:
    """The operand as matrices; a vector is a row or a column."""
    if len(operand.shape) == 2:
        return operand.value
    (size,) = operand.shape
    matrix = (1, size) if row else (size, 1)
    return ctx.reshape(operand.value, matrix if operand.shared else (operand.value.shape[0], *matrix))


def _concat_shape(shapes: Sequence[Shape], _: tuple[int, ...]) -> Shape:
    first = shapes[0]
    if not first or any(shape[:-1] != first[:-1] for shape in shapes):
        raise Mismatch(f"shapes {', '.join(map(str, shapes))} differ in more than the last axis")
    return (*first[:-1], sum(shape[-1] for shape in shapes))


def _expanded(ctx: Context, operands: Sequence[Batched]) -> list[Value]:
    """The operands, of which those that are shared are repeated for each node."""
    from deploykit.compiler.operators.joining import expand

    nodes = next(operand.value.shape[0] for operand in operands if not operand.shared)
    return [
        expand(ctx, ctx.reshape(each.value, (1, *each.shape)), (nodes, *each.shape)) if each.shared else each.value
        for each in operands
    ]


def _concat(ctx: Context, operands: Sequence[Batched], _: tuple[int, ...]) -> Value:
    from deploykit.compiler.operators.joining import concat

    return concat(ctx, _expanded(ctx, operands), len(operands[0].shape))


def _stack_shape(shapes: Sequence[Shape], _: tuple[int, ...]) -> Shape:
    if any(shape != shapes[0] for shape in shapes):
        raise Mismatch(f"shapes {', '.join(map(str, shapes))} differ")
    return (len(shapes), *shapes[0])


def _stack(ctx: Context, operands: Sequence[Batched], _: tuple[int, ...]) -> Value:
    from deploykit.compiler.operators.joining import concat

    values = _expanded(ctx, operands)
    return concat(ctx, [ctx.reshape(each, (each.shape[0], 1, *each.shape[1:])) for each in values], 1)


def _part_shape(shapes: Sequence[Shape], attributes: tuple[int, ...]) -> Shape:
    (shape,), (_, count) = shapes, attributes
    if not shape or shape[-1] % count:
        raise Mismatch(f"shape {shape} cannot be split into {count} equal parts along its last axis")
    return (*shape[:-1], shape[-1] // count)


def _part(ctx: Context, operands: Sequence[Batched], attributes: tuple[int, ...]) -> Value:
    from deploykit.compiler.operators.slicing import split_evenly

    index, count = attributes
    return split_evenly(ctx, operands[0].value, len(operands[0].shape), count)[index]


def _slice_shape(shapes: Sequence[Shape], attributes: tuple[int, ...]) -> Shape:
    (shape,), (first, size) = shapes, attributes
    assert first + size <= shape[-1]
    return (*shape[:-1], size)


def _slice(ctx: Context, operands: Sequence[Batched], attributes: tuple[int, ...]) -> Value:
    from deploykit.compiler.operators.slicing import Piece, take

    ((x,), (first, size)) = operands, attributes
    return take(ctx, x.value, [*(Piece(0, extent) for extent in x.value.shape[:-1]), Piece(first, size)])


def _below_shape(shapes: Sequence[Shape], _: tuple[int, ...]) -> Shape:
    return (sum(shape[0] for shape in shapes), *shapes[0][1:])


def _below(ctx: Context, operands: Sequence[Batched], _: tuple[int, ...]) -> Value:
    from deploykit.compiler.operators.joining import concat

    return concat(ctx, _expanded(ctx, operands), 1)


def _reduced_shape(shapes: Sequence[Shape], attributes: tuple[int, ...]) -> Shape:
    (shape,) = shapes
    if not attributes:
        return ()
    (axis,) = attributes
    if not -len(shape) <= axis < len(shape):
        raise Mismatch(f"there is no axis {axis} in shape {shape}")
    return tuple(extent for i, extent in enumerate(shape) if i != axis % len(shape))


def _reduction(name: str, evaluate: Callable[..., np.ndarray]) -> Operator:
    def emit(ctx: Context, operands: Sequence[Batched], attributes: tuple[int, ...]) -> Value:
        from deploykit.compiler.operators import reductions

        (x,) = operands
        axes = [attributes[0] % len(x.shape) + 1] if attributes else list(range(1, len(x.shape) + 1))
        chosen = {"sum": reductions.REDUCE_SUM, "mean": reductions.REDUCE_MEAN}[name]
        return reductions.reduce(ctx, x.value, chosen, axes, keepdims=False) if axes else x.value

    return Operator(_reduced_shape, evaluate, emit)


def _softmax(ctx: Context, operands: Sequence[Batched], _: tuple[int, ...]) -> Value:
    from deploykit.compiler.operators.softmax import softmax

    return softmax(ctx, operands[0].value, len(operands[0].shape))


def _whole(ctx: Context, operands: Sequence[Batched], _: tuple[int, ...]) -> Value:
    return ctx.cast(operands[0].value, "float32")


def _real(ctx: Context, operands: Sequence[Batched], _: tuple[int, ...]) -> Value:
    from tvm import te, tirx

    from deploykit.compiler.operators.building.expressions import compute

    words = operands[0].value

    def build(x: te.Tensor) -> te.Tensor:
        return compute(words.shape, lambda node: tirx.reinterpret("float32", x(node)), name="real")

    return ctx.kernel("real", build, words, dtype="float32")


def _row_shape(shapes: Sequence[Shape], _: tuple[int, ...]) -> Shape:
    (shape,) = shapes
    if not shape:
        raise Mismatch("a tensor without axes has no rows")
    return shape[1:]


def _row(ctx: Context, operands: Sequence[Batched], _: tuple[int, ...]) -> Value:
    from deploykit.compiler.operators.indexing import pick

    weight, index = operands
    return pick(ctx, weight.value, index.value, 0)


OPERATORS: dict[str, Operator] = {
    "add": _elementwise("add", add, np.add),
    "subtract": _elementwise("subtract", sub, np.subtract),
    "multiply": _elementwise("multiply", mul, np.multiply),
    "divide": _elementwise("divide", _tir("divide"), np.divide),
    "negative": _elementwise("negative", _tir("negative"), np.negative),
    "maximum": _elementwise("maximum", _tir("maximum"), functions.maximum),
    "minimum": _elementwise("minimum", _tir("minimum"), functions.minimum),
    "sigmoid": _elementwise("sigmoid", _tir("sigmoid"), functions.sigmoid),
    "tanh": _elementwise("tanh", _tir("tanh"), functions.tanh),
    "relu": _elementwise("relu", _tir("relu"), functions.relu),
    "exp": _elementwise("exp", _tir("exp"), functions.exp),
    "sqrt": _elementwise("sqrt", _tir("sqrt"), functions.sqrt),
    "matmul": Operator(_product_shape, np.matmul, _product, heavy=True),
    "concat": Operator(_concat_shape, functions.concat, _concat),
    "stack": Operator(_stack_shape, functions.stack, _stack),
    "part": Operator(_part_shape, lambda x, index, count: functions.split(x, count)[index], _part),
    "slice": Operator(_slice_shape, lambda x, first, size: x[..., first : first + size], _slice),
    "below": Operator(_below_shape, lambda *tensors: np.concatenate(tensors), _below),
    "sum": _reduction("sum", functions.sum),
    "mean": _reduction("mean", functions.mean),
    "softmax": Operator(lambda shapes, _: shapes[0], functions.softmax, _softmax),
    "whole": Operator(lambda _shapes, _: (), np.asarray, _whole),
    "real": Operator(lambda _shapes, _: (), lambda word: np.array(word, np.int32).view(np.float32), _real),
    "row": Operator(_row_shape, lambda x, index: x[index], _row),
}
"""By the name that `tensors.Apply` has. `row` takes a weight, and the number of a row from the control flow. `whole`
and `real` are a number of the control flow as a tensor: an integer, and a float32 in a word. `slice` takes elements of
the last axis, and `below` puts tensors together along the first one; both come of joined operators (`layout`)."""
