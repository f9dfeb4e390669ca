"""Operators on sequences and optionals.

The operators are SequenceAt, SequenceInsert, SequenceErase, ConcatFromSequence, SplitToSequence, OptionalHasElement and
OptionalGetElement. The length of a sequence is known at import, or its items are the rows of one tensor.

A position that is computed at run time is checked at run time and selects among the items. The result has the sizes and
the elements of the item that is selected.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from tvm import ir, te, tirx

from deploykit.compiler.dims.formulas import to_text
from deploykit.compiler.operators.building.axes import from_front
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.expressions import compute
from deploykit.compiler.operators.building.integers import equal, from_end, select, truth
from deploykit.compiler.operators.building.sizes import only_integer
from deploykit.compiler.operators.building.value import AnyValue, OptionalValue, SequenceValue, StackValue, Value
from deploykit.compiler.operators.indexing import gather
from deploykit.compiler.operators.joining import concat
from deploykit.compiler.operators.layout import transpose
from deploykit.compiler.operators.slicing import split
from deploykit.compiler.operators.strings.spans import STRING, string_of, together

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr


def sequence_at(ctx: Context, sequence: SequenceValue | StackValue, position: Value) -> Value:
    """The item at a position, a scalar; a negative one counts from the end."""
    if isinstance(sequence, StackValue):
        if sequence.joined is not None:
            raise Unsupported("an item of a sequence whose items differ in size, and whose length the run chooses")
        return gather(ctx, sequence.stack, ctx.reshape(position, ()), 0)
    items = sequence.items
    where = _position(ctx, position, len(items), len(items) - 1)
    return items[where] if isinstance(where, int) else _picked(ctx, where, items)


def sequence_insert(
    ctx: Context, sequence: SequenceValue | StackValue, item: Value, position: Value | None = None
) -> SequenceValue | StackValue:
    """The sequence with another item inserted at a position, a scalar; a negative one counts from the end. By default
    the item comes last."""
    if isinstance(sequence, StackValue):
        return _appended(ctx, sequence, item, position)
    items, count = sequence.items, len(sequence.items)
    where = count if position is None else _position(ctx, position, count, count)
    if isinstance(where, int):
        return SequenceValue((*items[:where], item, *items[where:]), sequence.dtype)
    choices = [(*items[:w], item, *items[w:]) for w in range(count + 1)]
    return _chosen(ctx, where, choices, sequence.dtype)


def _appended(ctx: Context, sequence: StackValue, item: Value, position: Value | None) -> StackValue:
    """The sequence with another last item. Raises `Unsupported` for another position, and for an item of another
    shape."""
    length, joined = sequence.stack.shape[0], sequence.joined
    if position is not None and (joined is not None or not ctx.equal(only_integer(ctx, position), length)):
        raise Unsupported("an item is inserted into a sequence whose length the run chooses, elsewhere than at its end")
    row = ctx.reshape(item, (1, *item.shape)) if joined is None else item
    if row.dtype != sequence.stack.dtype or row.rank != sequence.stack.rank:
        raise Unsupported(f"{item} is appended to a sequence of other items")
    return StackValue(concat(ctx, [sequence.stack, row], joined or 0), joined)


def sequence_erase(ctx: Context, sequence: SequenceValue, position: Value | None = None) -> SequenceValue:
    """The sequence without the item at a position, a scalar; a negative one counts from the end. By default the last
    item is removed."""
    items, count = sequence.items, len(sequence.items)
    where = count - 1 if position is None else _position(ctx, position, count, count - 1)
    if isinstance(where, int):
        return SequenceValue((*items[:where], *items[where + 1 :]), sequence.dtype)
    choices = [(*items[:w], *items[w + 1 :]) for w in range(count)]
    return _chosen(ctx, where, choices, sequence.dtype)


def concat_from_sequence(ctx: Context, sequence: SequenceValue | StackValue, axis: int, *, new_axis: bool) -> Value:
    """The items concatenated along an axis of the result; a negative one counts from the end. With `new_axis`, the
    items are stacked along a new axis.

    Raises `Unsupported` for a sequence that is known to be empty."""
    if isinstance(sequence, StackValue):
        return _unstacked(ctx, sequence, axis, new_axis=new_axis)
    items = list(sequence.items)
    if not items:
        raise Unsupported("the sequence is empty")
    if items[0].dtype == STRING:
        spans, data = together(ctx, items)
        return string_of(concat_from_sequence(ctx, SequenceValue(tuple(spans)), axis, new_axis=new_axis), data)
    axis = from_front(axis, items[0].rank + new_axis)
    if new_axis:
        items = [ctx.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:])) for x in items]
    return concat(ctx, items, axis)


def _unstacked(ctx: Context, sequence: StackValue, axis: int, *, new_axis: bool) -> Value:
    """The items side by side along an axis of the result, which is theirs or a new one."""
    stack = sequence.stack
    if sequence.joined is not None:
        if new_axis or from_front(axis, stack.rank) != sequence.joined:
            raise Unsupported(f"items that differ in size along axis {sequence.joined} are joined along another one")
        return stack
    length, *item = stack.shape
    axis = from_front(axis, len(item) + new_axis)
    moved = transpose(ctx, stack, [*range(1, axis + 1), 0, *range(axis + 1, stack.rank)])
    if new_axis:
        return moved
    return ctx.reshape(moved, (*item[:axis], ctx.product((length, item[axis])), *item[axis + 1 :]))


def split_to_sequence(
    ctx: Context, x: Value, axis: int, sizes: Value | None = None, *, keepdims: bool = True
) -> SequenceValue | StackValue:
    """`x` split along an axis. `sizes` is a vector with the size of each piece, or a scalar for pieces of one size, of
    which the last may be smaller. By default each piece has one position, and loses the axis without `keepdims`.

    Raises `Unsupported` if the number of pieces is not known."""
    extent = x.shape[axis]
    if sizes is not None and sizes.rank == 1:
        return SequenceValue(split(ctx, x, axis, ctx.ints(sizes, minimum=0, maximum=extent)), x.dtype)
    piece: IntExpr = 1 if sizes is None else only_integer(ctx, sizes)
    if isinstance(piece, int) and piece == 1 and not isinstance(extent, int):
        rows = transpose(ctx, x, [axis, *(i for i in range(x.rank) if i != axis)])
        kept = (extent, *x.shape[:axis], 1, *x.shape[axis + 1 :])
        return StackValue(ctx.reshape(rows, kept) if keepdims or sizes is not None else rows)
    if not isinstance(piece, int) or not isinstance(extent, int) or piece < 1:
        raise Unsupported(
            f"axis {axis} of size {to_text(extent)} is split in pieces of {to_text(piece)}: "
            "how many is not known at import"
        )
    pieces = split(ctx, x, axis, [min(piece, extent - start) for start in range(0, extent, piece)])
    if sizes is None and not keepdims:
        pieces = tuple(ctx.reshape(p, (*p.shape[:axis], *p.shape[axis + 1 :])) for p in pieces)
    return SequenceValue(pieces, x.dtype)


def optional_has_element(ctx: Context, value: AnyValue | None) -> Value:
    """Whether there is an item, a boolean scalar. A value that is not an optional counts as its own item."""
    if isinstance(value, OptionalValue) and value.present is not None:
        return value.present
    present = value.item is not None if isinstance(value, OptionalValue) else value is not None
    return ctx.constant(np.asarray(present))


def optional_get_element(ctx: Context, value: AnyValue) -> Value | SequenceValue | StackValue:
    """The item, which must be there. A value that is not an optional is its own item."""
    if not isinstance(value, OptionalValue):
        return value
    if value.item is None:
        raise Unsupported("the optional is empty")
    if value.present is not None:
        ctx.ints(ctx.cast(value.present, "int64"), minimum=1, maximum=1, hint="optional_is_there")
    return value.item


def _chosen(ctx: Context, where: IntExpr, choices: Sequence[tuple[Value, ...]], dtype: str | None) -> SequenceValue:
    """The sequence at a position among several sequences of the same length."""
    return SequenceValue(tuple(_picked(ctx, where, column) for column in zip(*choices, strict=True)), dtype)


def _picked(ctx: Context, where: IntExpr, items: Sequence[Value]) -> Value:
    """The tensor at a position among several tensors."""
    if all(v is items[0] for v in items):
        return items[0]
    if len({(v.dtype, v.rank) for v in items}) > 1 or any(v.dtype == STRING for v in items):
        raise Unsupported("a position computed at run time, in a sequence of strings or of different ranks or dtypes")
    shape = [_at(where, [v.shape[axis] for v in items]) for axis in range(items[0].rank)]
    shape = [ctx.simplify(n) for n in shape]

    def build(*tensors: te.Tensor) -> te.Tensor:
        def element(*index: ir.Expr) -> ir.Expr:
            result = tensors[-1](*index)
            for i, tensor in reversed(list(enumerate(tensors[:-1]))):
                result = tirx.if_then_else(truth(equal(where, i)), tensor(*index), result)
            return result

        return compute(shape, element, name="picked")

    return ctx.kernel("picked", build, *items, dtype=items[0].dtype)


def _at(where: IntExpr, sizes: Sequence[IntExpr]) -> IntExpr:
    result = sizes[-1]
    for i, size in reversed(list(enumerate(sizes[:-1]))):
        result = select(equal(where, i), size, result)
    return result


def _position(ctx: Context, value: Value, count: int, last: int) -> IntExpr:
    """A position in a sequence of `count` items, counted from the front, at most `last`."""
    position = only_integer(ctx, value, minimum=-count, maximum=last, hint="position")
    position = ctx.simplify(from_end(position, count))
    if isinstance(position, int) and not 0 <= position <= last:
        raise Unsupported(f"position {position} is outside of a sequence of {count}")
    return position
