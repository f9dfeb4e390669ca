"""Shape arithmetic on whole arrays: operators that move, reduce or place elements, which may be expressions.

A function takes the node and an object array per input. It returns an array, or a list with an array per output. It
returns `None` if indices or sizes are expressions, or if the arrays do not fit each other; the importer of the operator
then says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import zip_longest
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from deploykit.compiler.dims import simplify
from deploykit.compiler.operators.building.axes import from_front
from deploykit.compiler.operators.building.integers import all_plain, ceil_div, floor_mod, is_plain, maximum, minimum

if TYPE_CHECKING:
    from deploykit.frontends.onnx.node import Node

Array: TypeAlias = "np.ndarray[Any, np.dtype[np.object_]]"

MAXIMUM_ELEMENTS = 64
"""A result with more elements is a tensor rather than a shape, and is computed by a kernel."""


def _plain(array: Array | None) -> list[int] | None:
    """The elements as integers, or `None` if there is no array or an element is an expression."""
    if array is None or not all_plain(array.reshape(-1)):
        return None
    return [int(e) for e in array.reshape(-1)]


def broadcast(*shapes: tuple[int, ...]) -> bool:
    """Whether arrays of these shapes broadcast."""
    axes = zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1)
    return all(len({*sizes} - {1}) <= 1 for sizes in axes)


def _axes(node: Node, operand: Array | None, rank: int) -> tuple[int, ...] | None:
    """The axes of a tensor of `rank`, counted from the front; `None` if none are given, or one is an expression.

    Raises `Unsupported` for an axis that is out of range."""
    axes = _plain(operand) if operand is not None else node.ints("axes") if node.has("axes") else None
    return None if axes is None else tuple(from_front(axis, rank) for axis in axes)


def _distinct(axes: Sequence[int]) -> bool:
    return len(set(axes)) == len(axes)


def _within(positions: Sequence[int], size: int) -> bool:
    """Whether all positions are valid for an axis of `size`."""
    return all(-size <= position < size for position in positions)


def _modulo(node: Node, a: Array, b: Array) -> Any:
    if node.int("fmod", 0) or any(is_plain(e) and not e for e in b.reshape(-1)):
        return None
    return np.frompyfunc(floor_mod, 2, 1)(a, b)


def _unsqueeze(node: Node, x: Array, axes: Array | None = None) -> Array | None:
    count = len(node.ints("axes", [])) if axes is None else axes.size
    where = _axes(node, axes, x.ndim + count)
    return None if where is None or not _distinct(where) else np.expand_dims(x, where)


def _squeeze(node: Node, x: Array, axes: Array | None = None) -> Array | None:
    where = _axes(node, axes, x.ndim)
    if where is None:
        return None if axes is not None else np.squeeze(x)
    return np.squeeze(x, where) if _distinct(where) and all(x.shape[axis] == 1 for axis in where) else None


def _gather(node: Node, x: Array, indices: Array) -> Array | None:
    where, axis = _plain(indices), node.axis(x.ndim, 0)
    if where is None or not _within(where, x.shape[axis]):
        return None
    return np.asarray(np.take(x, np.reshape(where, indices.shape).astype(int), axis=axis), dtype=object)


def _slice(node: Node, x: Array, *operands: Array | None) -> Array | None:
    if operands:
        given = [_plain(o) for o in operands]
        if any(o is not None and p is None for o, p in zip(operands, given, strict=True)):
            return None
        starts, ends, axes, steps = (*given, None, None)[:4]
    else:
        starts, ends, axes, steps = node.ints("starts"), node.ints("ends"), node.ints("axes", []), None
    starts, ends = starts or [], ends or []
    axes, steps = axes or list(range(len(starts))), steps or [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps or not _within(axes, x.ndim):
        return None
    where = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        where[axis] = slice(start, None if step < 0 and end < -x.shape[axis] else end, step)
    return x[tuple(where)]


def _split(node: Node, x: Array, sizes: Array | None = None) -> list[Array] | None:
    axis = node.axis(x.ndim, 0)
    parts = _plain(sizes) if sizes is not None else node.ints("split") if node.has("split") else None
    if parts is None:
        if sizes is not None:
            return None
        size = -(-x.shape[axis] // len(node.outputs))
        parts = [min(size, max(x.shape[axis] - size * k, 0)) for k in range(len(node.outputs))]
    if len(parts) != len(node.outputs) or min(parts) < 0 or sum(parts) != x.shape[axis]:
        return None
    return list(np.split(x, np.cumsum(parts)[: len(node.outputs) - 1], axis))


def _reduce(pairwise: Callable[[Any, Any], Any]) -> Callable[..., Array | None]:
    def run(node: Node, x: Array, axes: Array | None = None) -> Array | None:
        where = _axes(node, axes, x.ndim)
        if where is None and axes is not None:
            return None
        if not where and node.int("noop_with_empty_axes", 0):
            return x
        moved = set(where or range(x.ndim))
        for axis in sorted(moved, reverse=True):
            if not x.shape[axis]:
                return None
            x = np.asarray(reduce(np.frompyfunc(pairwise, 2, 1), list(np.moveaxis(x, axis, 0))), dtype=object)
            x = np.expand_dims(x, axis)
        return x if node.int("keepdims", 1) else np.squeeze(x, tuple(moved))

    return run


def _reshape(node: Node, x: Array, shape: Array) -> Array | None:
    sizes = _plain(shape)
    if sizes is None:
        return None
    if not node.int("allowzero", 0):
        sizes = [x.shape[i] if n == 0 and i < x.ndim else n for i, n in enumerate(sizes)]
    known = prod(n for n in sizes if n != -1)
    if min(sizes, default=0) < -1 or sizes.count(-1) > 1:
        return None
    fits = known > 0 and x.size % known == 0 if -1 in sizes else known == x.size
    return x.reshape(sizes) if fits else None


def _flatten(node: Node, x: Array) -> Array:
    axis = from_front(node.int("axis", 1), x.ndim + 1)
    return x.reshape((prod(x.shape[:axis]), prod(x.shape[axis:])))


def _expand(_: Node, x: Array, shape: Array) -> Array | None:
    sizes = _plain(shape)
    if sizes is None or prod(sizes) > MAXIMUM_ELEMENTS or min(sizes, default=0) < 0:
        return None
    if not broadcast(x.shape, tuple(sizes)):
        return None
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(sizes)))


def _tile(_: Node, x: Array, repeats: Array) -> Array | None:
    counts = _plain(repeats)
    if counts is None or len(counts) != x.ndim or min(counts, default=0) < 0:
        return None
    return None if x.size * prod(counts) > MAXIMUM_ELEMENTS else np.tile(x, counts)


def _range(_: Node, start: Array, limit: Array, delta: Array) -> Array | None:
    if not start.size == limit.size == delta.size == 1:
        return None
    first, end, step = (a.reshape(-1)[0] for a in (start, limit, delta))
    if not is_plain(step) or not step:
        return None
    count = maximum(ceil_div(simplify(end - first), step), 0)
    if not is_plain(count) or count > MAXIMUM_ELEMENTS:
        return None
    return np.array([first + i * step for i in range(count)], dtype=object)


def _scatter_nd(node: Node, x: Array, indices: Array, updates: Array) -> Array | None:
    where = _plain(indices)
    if where is None or node.string("reduction", "none") != "none":
        return None
    depth = indices.shape[-1] if indices.ndim else 0
    if not 1 <= depth <= x.ndim or updates.shape != (*indices.shape[:-1], *x.shape[depth:]):
        return None
    if not all(_within(where[axis::depth], x.shape[axis]) for axis in range(depth)):
        return None
    result = x.copy()
    rows = np.reshape(where, (-1, depth))
    for row, update in zip(rows, updates.reshape(len(rows), *x.shape[depth:]), strict=True):
        result[tuple(row)] = update
    return result


def _scatter_elements(node: Node, x: Array, indices: Array, updates: Array) -> Array | None:
    where = _plain(indices)
    if where is None or node.string("reduction", "none") != "none":
        return None
    result, axis = x.copy(), node.axis(x.ndim, 0)
    others = [(n, m) for i, (n, m) in enumerate(zip(x.shape, indices.shape, strict=False)) if i != axis]
    if indices.shape != updates.shape or indices.ndim != x.ndim or any(m > n for n, m in others):
        return None
    if not _within(where, x.shape[axis]):
        return None
    for (position, update), index in zip(np.ndenumerate(updates), where, strict=True):
        result[(*position[:axis], index, *position[axis + 1 :])] = update
    return result


def _pad(node: Node, x: Array, pads: Array | None = None, value: Array | None = None, axes: Array | None = None) -> Any:
    amounts = _plain(pads) if pads is not None else node.ints("pads")
    where = _axes(node, axes, x.ndim) if axes is not None else tuple(range(x.ndim))
    if amounts is None or where is None or len(amounts) != 2 * len(where) or not _distinct(where):
        return None
    if min(amounts, default=0) < 0 or node.string("mode", "constant") != "constant":
        return None
    if value is not None and value.size != 1:
        return None
    widths = [(0, 0)] * x.ndim
    for k, axis in enumerate(where):
        widths[axis] = (amounts[k], amounts[len(where) + k])
    result = np.full([n + sum(w) for n, w in zip(x.shape, widths, strict=True)], 0, dtype=object)
    result.fill(0 if value is None else value.reshape(-1)[0])
    result[tuple(slice(w[0], w[0] + n) for n, w in zip(x.shape, widths, strict=True))] = x
    return result


def _concat(node: Node, *arrays: Array) -> Array | None:
    axis = node.axis(arrays[0].ndim)
    others = {(*array.shape[:axis], *array.shape[axis + 1 :]) for array in arrays}
    fits = len(others) == 1 and all(array.ndim == arrays[0].ndim for array in arrays)
    return np.concatenate(arrays, axis) if fits else None


def _transpose(node: Node, x: Array) -> Array | None:
    order = [from_front(axis, x.ndim) for axis in node.ints("perm", list(reversed(range(x.ndim))))]
    return np.transpose(x, order) if sorted(order) == list(range(x.ndim)) else None


ARRAYS: Mapping[str, Callable[..., Any]] = {
    "Mod": _modulo,
    "Concat": _concat,
    "Gather": _gather,
    "Slice": _slice,
    "Split": _split,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Transpose": _transpose,
    "Expand": _expand,
    "Tile": _tile,
    "Range": _range,
    "ScatterND": _scatter_nd,
    "ScatterElements": _scatter_elements,
    "Pad": _pad,
    "ReduceProd": _reduce(lambda a, b: a * b),
    "ReduceSum": _reduce(lambda a, b: a + b),
    "ReduceMax": _reduce(maximum),
    "ReduceMin": _reduce(minimum),
}
