"""Random kernels of several stages, like those after fusion.

Each stage moves, broadcasts, gathers, reduces or combines elements of earlier ones. Numbers are small integers, so that
sums are exact in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
from hypothesis import strategies as st
from tvm import te, tirx

N, M = (tirx.Var(name, "int64") for name in "nm")
EXTENTS: dict[str, Any] = {"n": N, "m": M, "3": 3, "1": 1, "nm": N * M, "3m": M * 3, "3n": N * 3}
"""Extents by name. `3m` is an axis of extent `m` merged with an inner axis of extent 3."""

MERGED = {"nm": ("n", "m"), "3m": ("m", "3"), "3n": ("n", "3")}

ZERO = tirx.const(0, "float32")

SIZES = [(1, 1), (1, 6), (5, 1), (3, 7), (9, 8), (2, 33)]
"""Pairs of n and m: 1, odd sizes, and sizes around those of vectors and tiles."""

INPUTS = ("n m", "n m", "m n", "n m 3", "n 1 m", "m", "1 m")
"""The shapes from which a kernel's inputs are drawn."""


@dataclass(frozen=True)
class Tensor:
    tensor: te.Tensor
    shape: tuple[str, ...]

    def __getitem__(self, place: Sequence[Any]) -> Any:
        return self.tensor(*place)


@dataclass(frozen=True)
class Kernel:
    """A kernel whose first param holds `n` indices below `n`. `shapes` are those of the other params."""

    func: tirx.PrimFunc
    shapes: tuple[tuple[str, ...], ...]

    def arguments(self, n: int, m: int, seed: int = 0) -> list[np.ndarray]:
        """Values for every param, including the result."""
        random = np.random.default_rng([seed, n, m])
        shapes = [[_size(extent, n, m) for extent in shape] for shape in self.shapes]
        arrays = [random.integers(-9, 9, shape).astype("float32") for shape in shapes]
        return [random.integers(0, n, n), *arrays]


def _size(extent: str, n: int, m: int) -> int:
    sizes = {"n": n, "m": m}
    return int(np.prod([sizes.get(part) or int(part) for part in MERGED.get(extent, (extent,))]))


@st.composite
def kernels(draw: st.DrawFn) -> Kernel:
    """A kernel of up to 7 stages with one result."""
    indices = te.placeholder((N,), "int64", name="indices")
    inputs = []
    for i in range(draw(st.integers(1, 3))):
        shape = tuple(draw(st.sampled_from(INPUTS)).split())
        inputs.append(Tensor(te.placeholder([EXTENTS[e] for e in shape], "float32", name=f"x{i}"), shape))
    pool = list(inputs)
    for _ in range(draw(st.integers(2, 7))):
        operand = draw(st.sampled_from((*[pool[-1]] * 4, *pool)))
        made = draw(st.sampled_from(STEPS))(draw, operand, pool, indices)
        if made is not None:
            pool.append(made)
    result = pool[-1]
    if result in inputs:
        result = _compute(result.shape, lambda *i: result[i] * 2 - 1)
    read = _read_by(result.tensor)
    used = [one for one in inputs if one.tensor in read]
    func = te.create_prim_func([indices, *(one.tensor for one in used), result.tensor], index_dtype_override="int64")
    return Kernel(func, (*(one.shape for one in used), result.shape))


def _read_by(tensor: te.Tensor) -> set[te.Tensor]:
    """The tensors from which this one is computed."""
    operands = set(tensor.op.input_tensors)
    return operands.union(*map(_read_by, operands))


def _compute(shape: Sequence[str], element: Callable[..., Any]) -> Tensor:
    return Tensor(te.compute([EXTENTS[e] for e in shape], element, name="stage"), tuple(shape))


def _mapped(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor], indices: te.Tensor) -> Tensor:  # noqa: ARG001
    function = draw(st.sampled_from((lambda v: v * 2 - 1, lambda v: tirx.max(v, ZERO), tirx.abs)))
    return _compute(x.shape, lambda *i: function(x[i]))


def _combined(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor], indices: te.Tensor) -> Tensor:  # noqa: ARG001
    """Combines two tensors. The second one is broadcast along missing axes and axes of one element."""
    fits = [other for other in pool if _fits(other.shape, x.shape)]
    y = draw(st.sampled_from(fits))
    lead = len(x.shape) - len(y.shape)
    units = [own == "1" and other != "1" for own, other in zip(y.shape, x.shape[lead:], strict=True)]

    def other(place: Sequence[Any]) -> Any:
        return y[[0 if unit else i for unit, i in zip(units, place[lead:], strict=True)]]

    if draw(st.booleans()):
        return _compute(x.shape, lambda *i: x[i] + other(i))
    return _compute(x.shape, lambda *i: tirx.max(x[i], other(i) - 1))


def _fits(small: Sequence[str], large: Sequence[str]) -> bool:
    if len(small) > len(large):
        return False
    return all(a in (b, "1") for a, b in zip(small, large[len(large) - len(small) :], strict=True))


def _permuted(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor], indices: te.Tensor) -> Tensor:  # noqa: ARG001
    orders = list(permutations(range(len(x.shape))))
    order = draw(st.sampled_from(orders[1:] or orders))

    def element(*place: Any) -> Any:
        return x[[place[order.index(axis)] for axis in range(len(order))]]

    return _compute([x.shape[axis] for axis in order], element)


def _moved(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor], indices: te.Tensor) -> Tensor | None:  # noqa: ARG001
    """Reads other elements along one axis: the next one, in reverse order, by indices, or under a condition."""
    axis = draw(st.integers(0, len(x.shape) - 1))
    extent = EXTENTS[x.shape[axis]]
    kind = draw(st.sampled_from(("next", "reversed", "gathered", "guarded", "chosen")))
    if kind == "gathered" and x.shape[axis] != "n":
        return None

    def element(*place: Any) -> Any:
        def at(index: Any) -> Any:
            return x[[*place[:axis], index, *place[axis + 1 :]]]

        own = place[axis]
        return {
            "next": lambda: at(tirx.floormod(own + 1, extent)),
            "reversed": lambda: at(extent - 1 - own),
            "gathered": lambda: at(indices(own)),
            "guarded": lambda: tirx.if_then_else(own + 1 < extent, at(own + 1), ZERO),
            "chosen": lambda: tirx.if_then_else(own < 2, at(own), ZERO),
        }[kind]()

    return _compute(x.shape, element)


def _merged(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor], indices: te.Tensor) -> Tensor | None:  # noqa: ARG001
    """Merges two neighbouring axes."""
    names = {pair: name for name, pair in MERGED.items()}
    axes = [axis for axis in range(len(x.shape) - 1) if x.shape[axis : axis + 2] in names]
    if not axes:
        return None
    axis = draw(st.sampled_from(axes))
    inner = EXTENTS[x.shape[axis + 1]]

    def element(*place: Any) -> Any:
        at = place[axis]
        return x[[*place[:axis], tirx.floordiv(at, inner), tirx.floormod(at, inner), *place[axis + 1 :]]]

    return _compute([*x.shape[:axis], names[x.shape[axis : axis + 2]], *x.shape[axis + 2 :]], element)


def _split(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor], indices: te.Tensor) -> Tensor | None:  # noqa: ARG001
    """Splits one axis into two."""
    axes = [axis for axis, extent in enumerate(x.shape) if extent in MERGED]
    if not axes:
        return None
    axis = draw(st.sampled_from(axes))
    pair = MERGED[x.shape[axis]]
    inner = EXTENTS[pair[1]]

    def element(*place: Any) -> Any:
        return x[[*place[:axis], place[axis] * inner + place[axis + 1], *place[axis + 2 :]]]

    return _compute([*x.shape[:axis], *pair, *x.shape[axis + 1 :]], element)


def _unit(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor], indices: te.Tensor) -> Tensor | None:  # noqa: ARG001
    """Adds an axis of one element."""
    if len(x.shape) > 3:
        return None
    axis = draw(st.integers(0, len(x.shape)))
    return _compute([*x.shape[:axis], "1", *x.shape[axis:]], lambda *i: x[[*i[:axis], *i[axis + 1 :]]] + 1)


def _reduced(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor], indices: te.Tensor) -> Tensor:  # noqa: ARG001
    """Sums along an axis, which is kept with one element."""
    axis = draw(st.integers(0, len(x.shape) - 1))
    along = te.reduce_axis((0, EXTENTS[x.shape[axis]]), name="along")

    def element(*place: Any) -> Any:
        return te.sum(x[[*place[:axis], along, *place[axis + 1 :]]], axis=along)

    return _compute([*x.shape[:axis], "1", *x.shape[axis + 1 :]], element)


STEPS = (*[_mapped] * 3, *[_combined] * 5, *[_permuted] * 4, *[_moved] * 2, _merged, _split, _unit, _reduced)
