"""Nodes that move elements: transpositions, reshapes, slices, gathers, joins, splits, pads."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from tests.fuzz.drawing import Draw, Reject, Value


def transpose(draw: Draw) -> None:
    x = draw.pick(lambda v: v.rank >= 2)
    axes = list(range(x.rank))
    draw.random.shuffle(axes)
    draw.one("Transpose", x, perm=axes)


def merge(draw: Draw) -> None:
    """Merges two neighbouring axes by a reshape, with 0 for the axes before them and -1 for the merged one."""
    x = draw.pick(lambda v: v.rank >= 2)
    first = draw.random.randrange(x.rank - 1)
    after = [x.fixed(a) for a in range(first + 2, x.rank)]
    if None in after:
        draw.one("Flatten", x, axis=draw.random.randint(-x.rank, x.rank))
        return
    draw.one("Reshape", x, draw.constant([0] * first + [-1] + [n or 1 for n in after]))


def split_axis(draw: Draw) -> None:
    """Splits an axis of a fixed size into two, with -1 for at most one symbolic axis."""
    x = draw.pick(lambda v: v.rank >= 1 and any(_factors(v.fixed(a)) for a in v.fixed_axes()))
    axis = draw.random.choice([a for a in x.fixed_axes() if _factors(x.fixed(a))])
    factor = draw.random.choice(_factors(x.fixed(axis)))
    target = [0] * axis + [factor, (x.fixed(axis) or 1) // factor]
    for a in range(axis + 1, x.rank):
        size = x.fixed(a)
        if size is None and -1 in target:
            draw.one("Reshape", x, _shape_by_parts(draw, x, axis, factor))
            return
        target.append(-1 if size is None else size)
    draw.one("Reshape", x, draw.constant(target))


def _factors(size: int | None) -> list[int]:
    return [f for f in range(2, size) if size % f == 0] if size else []


def _shape_by_parts(draw: Draw, x: Value, axis: int, factor: int) -> Value:
    """The shape as it is computed in a graph: parts of `Shape` around the two factors."""
    shape = draw.one("Shape", x)
    parts = [draw.constant([factor, -1])]
    if axis:
        parts.insert(0, draw.one("Slice", shape, draw.constant([0]), draw.constant([axis])))
    if axis + 1 < x.rank:
        parts.append(draw.one("Slice", shape, draw.constant([axis + 1]), draw.constant([x.rank])))
    return draw.one("Concat", *parts, axis=0)


def reshape_like(draw: Draw) -> None:
    """Exchanges the sizes of two axes by a reshape, with sizes from `Shape`."""
    x = draw.pick(lambda v: v.rank >= 2)
    a, b = sorted(draw.random.sample(range(x.rank), 2))
    order = list(range(x.rank))
    order[a], order[b] = b, a
    sizes = draw.one("Gather", draw.one("Shape", x), draw.constant(order))
    draw.one("Reshape", x, sizes)


def unsqueeze(draw: Draw) -> None:
    x = draw.pick(lambda v: v.rank <= 4)
    draw.one("Unsqueeze", x, draw.constant([draw.random.randrange(-x.rank - 1, x.rank + 1)]))


def squeeze(draw: Draw) -> None:
    x = draw.pick(lambda v: any(v.fixed(a) == 1 for a in range(v.rank)))
    draw.one("Squeeze", x, draw.constant([draw.random.choice([a for a in range(x.rank) if x.fixed(a) == 1])]))


def slice_(draw: Draw) -> None:
    """Slices some axes, from either end, forwards and backwards."""
    x = draw.pick(lambda v: v.rank >= 1)
    axes = draw.random.sample(range(x.rank), draw.random.randint(1, min(2, x.rank)))
    starts, ends, steps = [], [], []
    for axis in axes:
        size = min(x.sizes(axis))
        step = draw.random.choice([1, 1, 2, 3, -1, -1, -2])
        if step > 0:
            start = draw.random.choice([0, draw.random.randrange(size), -size])
            end = draw.random.choice([2**63 - 1, 1000, size, start + 1 if start >= 0 else 2**31])
        else:
            start = draw.random.choice([-1, 2**31 - 1, draw.random.randrange(size)])
            end = draw.random.choice([-(2**63), -1000, -size - 1])
        starts.append(start)
        ends.append(end)
        steps.append(step)
    named = [a - x.rank if draw.chance(0.3) else a for a in axes]
    draw.one("Slice", x, *(draw.constant(n) for n in (starts, ends, named, steps)))


def slice_by_size(draw: Draw) -> None:
    """Slices the first rows of a table of positions, up to the size of another value."""
    x = draw.floats(range(1, 5))
    axis = draw.axis(x) % x.rank
    size = draw.one("Shape", x, start=axis, end=axis + 1)
    rest = [x.fixed(a) or 1 for a in range(axis + 1, x.rank)]
    table = draw.weight(*([64, *rest] if axis == x.rank - 1 or draw.chance(0.5) else [64]))
    draw.one("Slice", table, draw.constant([0]), size, draw.constant([0]))


def gather(draw: Draw) -> None:
    x = draw.pick(lambda v: v.rank >= 1)
    axis = draw.axis(x)
    size = min(x.sizes(axis))
    shape = draw.random.choice([[], [3], [2, 2], [1]])
    indices = np.random.default_rng(draw.random.getrandbits(32)).integers(-size, size, shape)
    draw.one("Gather", x, draw.constant(indices), axis=axis)


def embedding(draw: Draw) -> None:
    """Gathers rows of a table by computed indices."""
    indices = draw.pick(lambda v: v.is_integer and v.rank <= 3)
    bounded = draw.one("Mod", indices, draw.constant(11, indices.dtype))
    draw.one("Gather", draw.weight(11, draw.random.choice([1, 4, 6])), bounded)


def gather_elements(draw: Draw) -> None:
    x = draw.floats(range(1, 5))
    indices = draw.pick(lambda v: v.is_integer and all(a.shape == b.shape for a, b in _pairs(v, x)))
    axis = draw.axis(x)
    bounded = draw.one("Mod", indices, draw.constant(min(x.sizes(axis)), indices.dtype))
    draw.one("GatherElements", x, bounded, axis=axis)


def scatter_elements(draw: Draw) -> None:
    """Replaces one row of `x`, or adds to it."""
    x = draw.floats(range(1, 4))
    axis = draw.axis(x)
    row = draw.one("Slice", x, draw.constant([0]), draw.constant([1]), draw.constant([axis]))
    zeros = draw.one("Cast", draw.one("Mul", row, draw.constant(0, TensorProto.FLOAT)), to=TensorProto.INT64)
    updates = draw.one("Neg", row)
    if draw.opset >= 18 and draw.chance(0.5):
        draw.one("ScatterElements", x, zeros, updates, axis=axis, reduction=draw.random.choice(["add", "max"]))
        return
    draw.one("ScatterElements", x, zeros, updates, axis=axis)


def _pairs(a: Value, b: Value) -> zip[tuple[np.ndarray, np.ndarray]]:
    return zip(a.arrays, b.arrays, strict=True)


def concat(draw: Draw) -> None:
    x = draw.pick(lambda v: v.rank >= 1)
    axis = draw.axis(x)

    def fits(v: Value) -> bool:
        return v.dtype == x.dtype and v.rank == x.rank and all(_but(a, axis) == _but(b, axis) for a, b in _pairs(v, x))

    parts = [x, *(draw.pick(fits) for _ in range(draw.random.randint(1, 2)))]
    if x.is_float and len(x.fixed_axes()) >= x.rank - 1 and draw.chance(0.4):
        shape = [2 if a == axis % x.rank else x.fixed(a) for a in range(x.rank)]
        if None not in shape:
            parts.append(draw.weight(*(n or 1 for n in shape)))
    draw.random.shuffle(parts)
    draw.one("Concat", *parts, axis=axis)


def _but(array: np.ndarray, axis: int) -> list[int]:
    shape = list(array.shape)
    del shape[axis]
    return shape


def split(draw: Draw) -> None:
    x = draw.pick(lambda v: any((v.fixed(a) or 0) >= 2 for a in range(v.rank)))
    axis = draw.random.choice([a for a in range(x.rank) if (x.fixed(a) or 0) >= 2])
    size = x.fixed(axis) or 1
    first = draw.random.randint(1, size - 1)
    if draw.opset >= 18 and draw.chance(0.4):
        draw.emit("Split", [x], 2, axis=axis, num_outputs=2)
        return
    draw.emit("Split", [x, draw.constant([first, size - first])], 2, axis=axis - x.rank if draw.chance(0.3) else axis)


def halve(draw: Draw) -> None:
    """Concatenates two copies, which gives an even symbolic size, and splits them into equal parts."""
    x = draw.pick(lambda v: v.rank >= 1 and v.fixed(v.rank - 1) is None)
    twice = draw.one("Concat", x, x, axis=-1)
    if draw.opset >= 18:
        draw.emit("Split", [twice], 2, axis=-1, num_outputs=2)
        return
    draw.emit("Split", [twice], 2, axis=-1)


def pad(draw: Draw) -> None:
    x = draw.floats(range(1, 5))
    mode = draw.random.choice(["constant", "constant", "edge", "reflect"])
    least = min(min(a.shape) for a in x.arrays)
    most = 2 if mode != "reflect" else least - 1
    low = 0 if mode != "constant" else -1 if least > 3 else 0
    amounts = [draw.random.randint(low, most) if draw.chance(0.5) else 0 for _ in range(2 * x.rank)]
    fill = draw.constant(0.75, TensorProto.FLOAT) if mode == "constant" and draw.chance(0.5) else None
    draw.one("Pad", x, draw.constant(amounts), fill, mode=mode)


def expand(draw: Draw) -> None:
    """Expands to the shape of another value, or to a constant shape."""
    x = draw.pick(lambda v: v.rank <= 4)
    if draw.chance(0.5):
        other = draw.pick(lambda v: v.rank >= 1)
        draw.one("Expand", x, draw.one("Shape", other))
        return
    draw.one("Expand", x, draw.constant([draw.random.choice([1, 2, 3]), *[1] * x.rank]))


def tile(draw: Draw) -> None:
    x = draw.pick(lambda v: 1 <= v.rank <= 4)
    draw.one("Tile", x, draw.constant([draw.random.choice([1, 1, 2, 3]) for _ in range(x.rank)]))


def depth_space(draw: Draw) -> None:
    x = draw.floats(range(4, 5))
    if draw.chance(0.5):
        draw.one("DepthToSpace", x, blocksize=2, mode=draw.random.choice(["DCR", "CRD"]))
        return
    draw.one("SpaceToDepth", x, blocksize=2)


def triangle(draw: Draw) -> None:
    x = draw.floats(range(2, 5))
    draw.one("Trilu", x, draw.constant(draw.random.randint(-2, 2)), upper=draw.random.randint(0, 1))


def one_hot(draw: Draw) -> None:
    x = draw.pick(lambda v: v.is_integer and 1 <= v.rank <= 2)
    values = draw.constant(np.array([-1, 2]), TensorProto.FLOAT)
    draw.one("OneHot", x, draw.constant(5), values, axis=draw.random.choice([-1, 0]))


def positions(draw: Draw) -> None:
    """A `Range` over a size, possibly with an offset: the positions of a decoder."""
    x = draw.pick(lambda v: v.rank >= 1)
    axis = draw.axis(x) % x.rank
    size = draw.one("Squeeze", draw.one("Shape", x, start=axis, end=axis + 1), draw.constant([0]))
    start, step = draw.constant(draw.random.choice([0, 0, 1])), draw.constant(draw.random.choice([1, 1, 2]))
    if draw.chance(0.3):
        size = draw.one("Add", size, draw.constant(3))
    if start.arrays[0] != 0:
        size = draw.one("Add", size, start)
    draw.one("Range", start, size, step)


def size_as_number(draw: Draw) -> None:
    """Divides elements by a size, as in averages over a dim."""
    x = draw.floats(range(1, 5))
    axis = draw.axis(x) % x.rank
    size = draw.one("Cast", draw.one("Shape", x, start=axis, end=axis + 1), to=TensorProto.FLOAT)
    draw.one("Div", x, size)


def filled(draw: Draw) -> None:
    x = draw.pick(lambda v: v.rank >= 1)
    shape = draw.one("Shape", x)
    if draw.chance(0.5):
        shape = draw.one("Concat", shape, draw.constant([2]), axis=0)
    draw.one("ConstantOfShape", shape, value=_fill(draw))


def _fill(draw: Draw) -> object:
    from onnx import numpy_helper

    return numpy_helper.from_array(np.array([draw.random.choice([0.5, -2.0])], np.float32))


def reverse_sequence(draw: Draw) -> None:
    x = draw.floats(range(2, 5))
    size = draw.one("Shape", x, start=1, end=2)
    lengths = draw.one("Expand", size, draw.one("Shape", x, start=0, end=1))
    draw.one("ReverseSequence", x, lengths, batch_axis=0, time_axis=1)


def rotate_half(draw: Draw) -> None:
    """Exchanges the halves of the last axis and negates the second one, as in rotary positions."""
    x = draw.floats(range(1, 5))
    size = x.fixed(x.rank - 1)
    if not size or size % 2:
        raise Reject
    first, second = draw.emit("Split", [x, draw.constant([size // 2, size // 2])], 2, axis=-1)
    draw.one("Concat", draw.one("Neg", second), first, axis=-1)


PROPOSALS = {
    transpose: 8,
    merge: 4,
    split_axis: 4,
    reshape_like: 2,
    unsqueeze: 2,
    squeeze: 2,
    slice_: 6,
    slice_by_size: 2,
    gather: 3,
    embedding: 2,
    gather_elements: 1,
    scatter_elements: 1,
    concat: 6,
    split: 4,
    halve: 2,
    pad: 3,
    expand: 3,
    tile: 2,
    depth_space: 1,
    triangle: 1,
    one_hot: 1,
    positions: 2,
    size_as_number: 1,
    filled: 1,
    reverse_sequence: 1,
    rotate_half: 1,
}
