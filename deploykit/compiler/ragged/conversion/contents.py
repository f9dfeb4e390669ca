"""What a tensor of a padded model holds: which of its dims are ragged, and what is at valid and at padded places.

A tensor is ragged if it has a dim for the batch and dims for the ragged extent. A place in it lies in the padding if
one of its ragged indices is not less than the length of the instance. A tensor without a batch holds the same for all
instances: nothing in it is padding.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations

from tvm import ir

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.ragged.conversion.states import State
from deploykit.compiler.tir.rewriting import collect


@dataclass(frozen=True)
class RaggedDim:
    """A dim of a padded model that is to be ragged: for each index of `batch`, `extent` is the longest of all."""

    extent: ir.Var
    batch: ir.Var


PaddedAxes = frozenset[int]
"""Which of the ragged axes of a tensor have an index in the padding."""


@dataclass(frozen=True)
class Content:
    """`batch` is the axis of the batch, None for a tensor that is not ragged, and `ragged` are the ragged axes.
    `states` says what the elements are, by the ragged axes along which they lie in the padding."""

    batch: int | None
    ragged: tuple[int, ...]
    states: Mapping[PaddedAxes, State]

    @property
    def valid(self) -> State:
        """The state of the elements at valid places."""
        return self.states[frozenset()]

    @property
    def is_ragged(self) -> bool:
        return self.batch is not None and bool(self.ragged)


def dense(state: State) -> Content:
    """The content of a tensor without ragged dims."""
    return Content(None, (), {frozenset(): state})


def uniform(shape: Sequence[IntExpr], dim: RaggedDim, valid: State, padding: State) -> Content:
    """The content of a tensor of this shape that is `padding` wherever it is padded."""
    batch, ragged = axes_of(shape, dim)
    return Content(batch, ragged, {padded: padding if padded else valid for padded in subsets(ragged)})


def axes_of(shape: Sequence[IntExpr], dim: RaggedDim) -> tuple[int | None, tuple[int, ...]]:
    """The axis of the batch and the ragged axes of a tensor of this shape; None and none if it is not ragged.

    Raises `Unsupported` if an extent mixes the dims with others."""
    batch = [axis for axis, extent in enumerate(shape) if _is(extent, dim.batch)]
    ragged = tuple(axis for axis, extent in enumerate(shape) if _is(extent, dim.extent))
    if not batch:
        if any(dim.batch in collect(extent, ir.Var) for extent in shape if not isinstance(extent, int)):
            raise Unsupported(f"has a dim of '{dim.batch.name}' together with others")
        return None, ()
    plain = {*batch, *ragged}
    for axis, extent in enumerate(shape):
        if isinstance(extent, int):
            continue
        used = collect(extent, ir.Var)
        if axis not in plain and (dim.batch in used or dim.extent in used):
            name = (dim.extent if dim.extent in used else dim.batch).name
            raise Unsupported(f"has a dim that is computed from '{name}'")
    if len(batch) > 1:
        raise Unsupported(f"has '{dim.batch.name}' twice")
    return (batch[0], ragged) if ragged else (None, ())


def subsets(axes: Iterable[int]) -> list[PaddedAxes]:
    """All sets of axes, the empty one first."""
    known = tuple(axes)
    return [frozenset(each) for each in chain.from_iterable(combinations(known, n) for n in range(len(known) + 1))]


def _is(extent: IntExpr, var: ir.Var) -> bool:
    return not isinstance(extent, int) and bool(extent.same_as(var))
