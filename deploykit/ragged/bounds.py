"""Proofs that an index is not negative, for all values of its dims.

Dims are removed one after the other, those first on which no length depends: a dim becomes 0 where the index grows with
it, and its extent minus 1 where the index falls. What is left are lengths, sizes and constants, which have bounds.
Equal lengths cancel before, so `lengths[b] - 1 - row` is not negative for `row` in `0..lengths[b]-1`.
"""

from __future__ import annotations

from deploykit.errors import UsageError
from deploykit.ragged.indices import Dim, Index, Length, Size


def nonnegative(index: Index) -> bool:
    """Whether `index >= 0` is proved, for all dims within their extents. Where a dim has no values, anything is."""
    while (dim := _removable(index)) is not None:
        factor = dict(index.terms)[dim]
        index = index.at({dim: Index() if factor > 0 else dim.extent.plus(Index((), -1))})
    low = index.constant
    for atom, factor in index.terms:
        end = _least(atom) if factor > 0 else _most(atom)
        if end is None:
            return False
        low += factor * end
    return low >= 0


def room(dims: tuple[Dim, ...], indices: tuple[Index, ...], position: int) -> Index:
    """How many elements come after the index at `position` along its dim; negative if it is beyond the last."""
    values = dict(zip(dims[:position], indices, strict=False))
    return dims[position].extent.at(values) - 1 - indices[position]


def missing(dims: tuple[Dim, ...], indices: tuple[Index, ...]) -> int | None:
    """The position of an index of which it is not proved that it exists; None if all do."""
    for position, index in enumerate(indices):
        if not (nonnegative(index) and nonnegative(room(dims, indices, position))):
            return position
    return None


def require_entries(index: Index) -> Index:
    """The index. Raises `UsageError` unless it is proved that all entries of lengths exist that it mentions."""
    for atom, _ in index.terms:
        if isinstance(atom, Length):
            for inner in atom.indices:
                require_entries(inner)
            position = missing(atom.lengths.dims, atom.indices)
            if position is not None:
                dim = atom.lengths.dims[position]
                raise UsageError(
                    f"index {atom.indices[position]} of dim '{dim.name}' of the lengths '{atom.lengths.name}' may be "
                    f"outside of 0..{dim.extent} - 1"
                )
    return index


def greatest(index: Index) -> int | None:
    """A number that `index` never exceeds; None if there is none."""
    while (dim := _removable(index)) is not None:
        factor = dict(index.terms)[dim]
        index = index.at({dim: Index() if factor < 0 else dim.extent.plus(Index((), -1))})
    high = index.constant
    for atom, factor in index.terms:
        end = _most(atom) if factor > 0 else _least(atom)
        if end is None:
            return None
        high += factor * end
    return high


def _removable(index: Index) -> Dim | None:
    """A dim of the index that no length in it, and no extent of another dim in it, mentions."""
    plain = [atom for atom, _ in index.terms if isinstance(atom, Dim)]
    within = {dim for atom, _ in index.terms if isinstance(atom, Length) for i in atom.indices for dim in i.dims()}
    within |= {dim for other in plain for dim in other.extent.dims()}
    return next((dim for dim in plain if dim not in within), None)


def _least(atom: Dim | Size | Length) -> int:
    return atom.minimum if isinstance(atom, Size) else 0


def _most(atom: Dim | Size | Length) -> int | None:
    if isinstance(atom, Size):
        return atom.maximum
    if isinstance(atom, Length):
        return atom.lengths.maximum
    high = greatest(atom.extent)
    return None if high is None else max(high - 1, 0)
