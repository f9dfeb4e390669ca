"""Shape arithmetic on whole arrays: operators that move, reduce or place elements which may be expressions.

A function takes the node and an object array an input, and gives an array, a list of one an output, or `None` where
positions or sizes are not plain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from deploykit.compiler.dims import simplify
from deploykit.compiler.operators.building.integers import all_plain, ceil_div, floor_mod, is_plain, maximum, minimum

if TYPE_CHECKING:
    from deploykit.frontends.onnx.node import Node

Array: TypeAlias = "np.ndarray[Any, np.dtype[np.object_]]"

MAXIMUM_ELEMENTS = 64
"""A result with more elements is a tensor rather than a shape, and is computed by a kernel."""


def _plain(array: Array | None) -> list[int] | None:
    """The elements as integers, or `None` when there is no array or one of them is an expression."""
    if array is None or not all_plain(array.reshape(-1)):
        return None
    return [int(e) for e in array.reshape(-1)]


def _axes(node: Node, operand: Array | None) -> tuple[int, ...] | None:
    axes = _plain(operand) if operand is not None else node.ints("axes") if node.has("axes") else None
    return None if axes is None else tuple(axes)


def _modulo(node: Node, a: Array, b: Array) -> Any:
    if node.int("fmod", 0) or any(is_plain(e) and not e for e in b.reshape(-1)):
        return None
    return np.frompyfunc(floor_mod, 2, 1)(a, b)


def _unsqueeze(node: Node, x: Array, axes: Array | None = None) -> Array | None:
    where = _axes(node, axes)
    return None if where is None else np.expand_dims(x, where)


def _squeeze(node: Node, x: Array, axes: Array | None = None) -> Array | None:
    where = _axes(node, axes)
    if where is None:
        return None if axes is not None else np.squeeze(x)
    return np.squeeze(x, where)


def _gather(node: Node, x: Array, indices: Array) -> Array | None:
    where = _plain(indices)
    if where is None:
        return None
    return np.asarray(np.take(x, np.reshape(where, indices.shape).astype(int), axis=node.int("axis", 0)), dtype=object)


def _slice(node: Node, x: Array, *operands: Array | None) -> Array | None:
    if operands:
        given = [_plain(o) for o in operands]
        if any(o is not None and p is None for o, p in zip(operands, given, strict=True)):
            return None
        starts, ends, axes, steps = (*given, None, None)[:4]
    else:
        starts, ends, axes, steps = node.ints("starts"), node.ints("ends"), node.ints("axes", []), None
    where = [slice(None)] * x.ndim
    for k, (start, end) in enumerate(zip(starts or [], ends or [], strict=True)):
        axis = axes[k] if axes else k
        step = steps[k] if steps else 1
        where[axis] = slice(start, None if step < 0 and end < -x.shape[axis] else end, step)
    return x[tuple(where)]


def _split(node: Node, x: Array, sizes: Array | None = None) -> list[Array] | None:
    axis = node.axis(x.ndim, 0)
    parts = _plain(sizes) if sizes is not None else node.ints("split") if node.has("split") else None
    if parts is None:
        if sizes is not None:
            return None
        size = -(-x.shape[axis] // len(node.outputs))
        parts = [size] * (len(node.outputs) - 1)
    return list(np.split(x, np.cumsum(parts)[: len(node.outputs) - 1], axis))


def _reduce(pairwise: Callable[[Any, Any], Any]) -> Callable[..., Array | None]:
    def run(node: Node, x: Array, axes: Array | None = None) -> Array | None:
        where = _axes(node, axes)
        if where is None and axes is not None:
            return None
        if not where and node.int("noop_with_empty_axes", 0):
            return x
        moved = {axis % x.ndim for axis in where or range(x.ndim)}
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
    return x.reshape([x.shape[i] if n == 0 and not node.int("allowzero", 0) else n for i, n in enumerate(sizes)])


def _flatten(node: Node, x: Array) -> Array:
    axis = node.int("axis", 1)
    return x.reshape((int(np.prod(x.shape[:axis])), -1))


def _expand(_: Node, x: Array, shape: Array) -> Array | None:
    sizes = _plain(shape)
    if sizes is None or np.prod(sizes) > MAXIMUM_ELEMENTS:
        return None
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(sizes)))


def _tile(_: Node, x: Array, repeats: Array) -> Array | None:
    counts = _plain(repeats)
    return None if counts is None or x.size * np.prod(counts) > MAXIMUM_ELEMENTS else np.tile(x, counts)


def _range(_: Node, start: Array, limit: Array, delta: Array) -> Array | None:
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
    result = x.copy()
    rows = np.reshape(where, (-1, indices.shape[-1]))
    for row, update in zip(rows, updates.reshape(len(rows), *x.shape[indices.shape[-1] :]), strict=True):
        result[tuple(row)] = update
    return result


def _scatter_elements(node: Node, x: Array, indices: Array, updates: Array) -> Array | None:
    where = _plain(indices)
    if where is None or node.string("reduction", "none") != "none":
        return None
    result, axis = x.copy(), node.axis(x.ndim, 0)
    for (position, update), index in zip(np.ndenumerate(updates), where, strict=True):
        result[(*position[:axis], index, *position[axis + 1 :])] = update
    return result


def _pad(node: Node, x: Array, pads: Array | None = None, value: Array | None = None, axes: Array | None = None) -> Any:
    amounts = _plain(pads) if pads is not None else node.ints("pads")
    where = _axes(node, axes) if axes is not None else tuple(range(x.ndim))
    if amounts is None or where is None or min(amounts) < 0 or node.string("mode", "constant") != "constant":
        return None
    widths = [(0, 0)] * x.ndim
    for k, axis in enumerate(where):
        widths[axis] = (amounts[k], amounts[len(where) + k])
    result = np.full([n + sum(w) for n, w in zip(x.shape, widths, strict=True)], 0, dtype=object)
    result.fill(0 if value is None else value.reshape(-1)[0])
    result[tuple(slice(w[0], w[0] + n) for n, w in zip(x.shape, widths, strict=True))] = x
    return result


ARRAYS: Mapping[str, Callable[..., Any]] = {
    "Mod": _modulo,
    "Concat": lambda node, *arrays: np.concatenate(arrays, axis=node.int("axis")),
    "Gather": _gather,
    "Slice": _slice,
    "Split": _split,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Transpose": lambda node, x: np.transpose(x, node.ints("perm") if node.has("perm") else None),
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
