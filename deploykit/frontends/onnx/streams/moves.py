"""Operators that move frames without computing anything of them, in a stream: padding, parts and shapes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.slicing import LONGEST
from deploykit.frontends.onnx.streams.frames import Frames, Now
from deploykit.frontends.onnx.streams.kept import Kept, part
from deploykit.frontends.onnx.streams.layers import after

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr
    from deploykit.compiler.operators.building.context import Context
    from deploykit.frontends.onnx.node import Node

Operands: TypeAlias = "list[Value | None]"

Moved: TypeAlias = "tuple[Value, Frames | Now, Operands | None] | None"
"""A value, what is known of its frames, and, if the operator is still to be applied to it along other axes, its other
operands. None: the operator is not special."""

MOVES = frozenset({"Gather", "Pad", "Reshape", "Slice"})


def moved(ctx: Context, node: Node, operands: Operands, x: Frames, kept: Kept) -> Moved:
    """What becomes of the first operand, which has the frames `x`."""
    ways = {"Gather": _gathered, "Pad": _padded, "Reshape": _reshaped, "Slice": _sliced}
    return ways[node.op_type](ctx, node, operands, x, kept)


def _padded(ctx: Context, node: Node, operands: Operands, x: Frames, kept: Kept) -> Moved:
    """Zeros in front of the first frame are noted for the convolution that follows. Opset 11 and later."""
    del kept
    value = operands[0]
    assert value is not None
    if len(operands) < 2 or operands[1] is None or node.opset < 11:
        raise Unsupported("padding given by attributes: export the model with opset 11 or later")
    amounts = [int(n) if isinstance(n, int) else None for n in ctx.ints(operands[1])]
    axes = list(range(value.rank))
    if len(operands) > 3 and operands[3] is not None:
        axes = [int(axis) % value.rank for axis in ctx.ints(operands[3])]
    if x.axis not in axes:
        return value, x, operands[1:]
    place = axes.index(x.axis)
    front, end = amounts[place], amounts[place + len(axes)]
    filler = operands[2] if len(operands) > 2 else None
    zero = filler is None or (filler.array is not None and not filler.array.any())
    if front is None or end is None or front < 0:
        raise Unsupported("it cuts frames off, or pads a number of frames that is not known")
    if (front or end) and (node.string("mode", "constant") != "constant" or not zero):
        raise Unsupported("it pads frames with something else than zeros")
    left: list[int | None] = list(amounts)
    left[place] = left[place + len(axes)] = 0
    length = None if x.length is None else x.length + front + end
    waits = f"{node.op_type} '{node.name}'" if end > 0 else x.waits
    frames = replace(x, ahead=x.ahead + front, behind=x.behind + end, waits=waits, length=length)
    if not any(left):
        return value, frames, None
    return value, frames, [ctx.known(left), *operands[2:]]


def _sliced(ctx: Context, node: Node, operands: Operands, x: Frames, kept: Kept) -> Moved:
    """A part of the frames: later first frames are those of no full run. Opset 10 and later."""
    del node
    value = operands[0]
    assert value is not None
    if len(operands) < 3:
        return None
    starts, ends, axes, steps = [*operands[1:], None, None][:4]
    if starts is None or ends is None or any(v is not None and not v.is_known for v in (starts, ends, axes, steps)):
        return None
    places = list(range(len(ctx.ints(starts)))) if axes is None else [int(a) % value.rank for a in ctx.ints(axes)]
    if x.axis not in places:
        return None
    if len(places) > 1 or (steps is not None and ctx.ints(steps) != [1]):
        return None
    start, end = ctx.ints(starts)[0], ctx.ints(ends)[0]
    if not isinstance(start, int) or not isinstance(end, int) or x.ahead:
        return None
    if end > 0 and x.length is not None and end < LONGEST:
        end = min(end - x.length, 0)
    cut = -end if end < 0 else 0
    if start < 0 and (x.length is None or x.endless) and not cut and not x.behind:
        newest = kept.window(value, x.axis, -start, 0, 1)
        return newest, Now((x.early - start) * x.step, "sequence"), None
    if start < 0 or (end >= 0 and end < LONGEST and x.length is None):
        return None
    length = None if x.length is None else x.length - start - cut
    late = max(cut - x.behind, 0)
    frames = replace(x, early=x.early + start + late, behind=max(x.behind - cut, 0), length=length)
    return kept.delayed(value, x.axis, late) if late else value, frames, None


def _gathered(ctx: Context, node: Node, operands: Operands, x: Frames, kept: Kept) -> Moved:
    """The newest frame."""
    del kept
    value, index = operands[:2]
    assert value is not None
    if node.axis(value.rank, 0) != x.axis or index is None or not index.is_known or index.rank > 1:
        return None
    numbers = ctx.ints(index)
    if len(numbers) != 1 or not isinstance(numbers[0], int) or x.behind or x.ahead:
        return None
    last = numbers[0] == -1 or (x.length is not None and numbers[0] == x.length - 1)
    if not last or not (x.length is None or x.endless):
        return None
    newest = part(ctx, value, x.axis, ctx.simplify(value.shape[x.axis] - 1), 1)
    if index.rank == 0:
        newest = ctx.reshape(newest, [n for axis, n in enumerate(newest.shape) if axis != x.axis])
    return newest, after(x), None


def _reshaped(ctx: Context, node: Node, operands: Operands, x: Frames, kept: Kept) -> Moved:
    """A shape that has the number of frames of the window is one with that of the new frames."""
    del kept
    value, shape = operands[:2]
    assert value is not None
    if x.length is None or shape is None or shape.array is None:
        return None
    whole: list[IntExpr] = [x.length if axis == x.axis else n for axis, n in enumerate(value.shape)]
    target = [int(n) for n in shape.array.reshape(-1)]
    sizes: list[IntExpr] = [
        whole[axis] if n == 0 and not node.int("allowzero", 0) else n for axis, n in enumerate(target)
    ]
    if -1 in target:
        place = target.index(-1)
        rest = ctx.product([n for axis, n in enumerate(sizes) if axis != place])
        sizes[place] = ctx.simplify(ctx.product(whole) // rest)
    front = ctx.product(whole[: x.axis])
    for axis, size in enumerate(sizes):
        if ctx.equal(size, x.length) and ctx.equal(ctx.product(sizes[:axis]), front):
            new = [value.shape[x.axis] if each == axis else n for each, n in enumerate(sizes)]
            return ctx.reshape(value, new), x.at(axis), None
    return None
