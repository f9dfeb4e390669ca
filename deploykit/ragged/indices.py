"""Dims, and indices: sums of whole multiples of dims, sizes and lengths.

    batch = dim("batch", maximum=64)
    lengths = Lengths("lengths", (batch,), maximum=512)
    row = dim("row", lengths[batch])
    row + 1, lengths[batch] - row, 2 * row            indices

A *dim* is a name for an index that runs from 0 to its extent. The extent is an index over other dims, so it can depend
on the index of an outer dim. A *size* is a number that the caller chooses with the shapes of the inputs. *Lengths* are
an integer tensor that the caller gives. An entry of it is an extent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from deploykit.errors import UsageError

LONGEST = 2**31 - 1
"""The most elements of an instance along one dim if no maximum is given."""


class Arithmetic:
    """Sums, differences and whole multiples of dims and indices, and comparisons."""

    @property
    def index(self) -> Index:
        raise NotImplementedError

    def __add__(self, other: IndexLike) -> Index:
        return self.index.plus(as_index(other))

    __radd__ = __add__

    def __sub__(self, other: IndexLike) -> Index:
        return self.index.plus(as_index(other).times(-1))

    def __rsub__(self, other: IndexLike) -> Index:
        return as_index(other).plus(self.index.times(-1))

    def __mul__(self, factor: int) -> Index:
        if not isinstance(factor, int):
            raise UsageError("an index can only be multiplied by a whole number")
        return self.index.times(factor)

    __rmul__ = __mul__

    def __neg__(self) -> Index:
        return self.index.times(-1)

    def __lt__(self, other: IndexLike) -> Condition:
        return Condition("lt", self.index, as_index(other))

    def __le__(self, other: IndexLike) -> Condition:
        return Condition("le", self.index, as_index(other))

    def __gt__(self, other: IndexLike) -> Condition:
        return Condition("lt", as_index(other), self.index)

    def __ge__(self, other: IndexLike) -> Condition:
        return Condition("le", as_index(other), self.index)


@dataclass(frozen=True, order=False, eq=False)
class Size:
    """A number that the caller chooses, with inclusive bounds."""

    name: str
    minimum: int = 0
    maximum: int | None = None


@dataclass(frozen=True, order=False, eq=False)
class Dim(Arithmetic):
    """A named index in `0..extent-1`. Dims are told apart by identity."""

    name: str
    extent: Index = field(repr=False)

    @property
    def index(self) -> Index:
        return Index(((self, 1),))


@dataclass(frozen=True, order=False, eq=False)
class Lengths:
    """An int64 input with one entry for each index of `dims`, each in `0..maximum`. If `dims` are ragged themselves,
    its entries are stored like those of any ragged tensor, for example the lengths of all sentences of all texts."""

    name: str
    dims: tuple[Dim, ...]
    maximum: int | None = None

    def __getitem__(self, indices: IndexLike | tuple[IndexLike, ...]) -> Index:
        given = indices if isinstance(indices, tuple) else (indices,)
        if len(given) != len(self.dims):
            names = ", ".join(dim.name for dim in self.dims)
            raise UsageError(f"the lengths '{self.name}' have the dims {names}; found {len(given)} indices")
        return Index(((Length(self, tuple(map(as_index, given))), 1),))


@dataclass(frozen=True)
class Length:
    """One entry of lengths."""

    lengths: Lengths
    indices: tuple[Index, ...]


Atom: TypeAlias = Dim | Size | Length


@dataclass(frozen=True, order=False)
class Index(Arithmetic):
    """A constant plus whole multiples of atoms."""

    terms: tuple[tuple[Atom, int], ...] = ()
    constant: int = 0

    @property
    def index(self) -> Index:
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Index) and (dict(self.terms), self.constant) == (dict(other.terms), other.constant)

    def __hash__(self) -> int:
        return hash((frozenset(self.terms), self.constant))

    def plus(self, other: Index) -> Index:
        total = dict(self.terms)
        for atom, factor in other.terms:
            total[atom] = total.get(atom, 0) + factor
        return Index(tuple((atom, x) for atom, x in total.items() if x), self.constant + other.constant)

    def times(self, factor: int) -> Index:
        return Index(tuple((atom, x * factor) for atom, x in self.terms if factor), self.constant * factor)

    def at(self, values: Mapping[Dim, Index]) -> Index:
        """The index with dims replaced by `values`, also within the indices of lengths."""
        total = Index((), self.constant)
        for atom, factor in self.terms:
            replaced = Index(((atom, 1),))
            if isinstance(atom, Dim):
                replaced = values.get(atom, replaced)
            elif isinstance(atom, Length):
                replaced = Index(((Length(atom.lengths, tuple(i.at(values) for i in atom.indices)), 1),))
            total = total.plus(replaced.times(factor))
        return total

    def dims(self) -> Iterator[Dim]:
        """The dims that the index mentions, also within the indices of lengths."""
        for atom, _ in self.terms:
            if isinstance(atom, Dim):
                yield atom
            elif isinstance(atom, Length):
                for index in atom.indices:
                    yield from index.dims()

    def lengths(self) -> Iterator[Lengths]:
        """The lengths that the index mentions."""
        for atom, _ in self.terms:
            if isinstance(atom, Length):
                yield atom.lengths

    def sizes(self) -> Iterator[Size]:
        """The sizes that the index mentions."""
        for atom, _ in self.terms:
            if isinstance(atom, Size):
                yield atom

    def __str__(self) -> str:
        text = ""
        for atom, factor in self.terms:
            name = _name(atom) if abs(factor) == 1 else f"{abs(factor)}*{_name(atom)}"
            text += (" + " if factor > 0 else " - ") + name if text else name if factor > 0 else f"-{name}"
        if not text:
            return str(self.constant)
        return text if not self.constant else f"{text} {'+' if self.constant > 0 else '-'} {abs(self.constant)}"


@dataclass(frozen=True)
class Condition:
    """A comparison of two indices: `lt` or `le`."""

    operator: str
    a: Index
    b: Index


IndexLike: TypeAlias = int | Dim | Index


def as_index(value: IndexLike) -> Index:
    if isinstance(value, int):
        return Index((), int(value))
    if isinstance(value, Arithmetic):
        return value.index
    raise UsageError(f"an index is a number, a dim, or a sum of these; found {value!r}")


def require_closed(dims: tuple[Dim, ...], what: str) -> None:
    """Raises `UsageError` unless the dims differ, and the extent of each depends on earlier ones only."""
    for position, each in enumerate(dims):
        if each in dims[:position]:
            raise UsageError(f"{what}: dim '{each.name}' occurs twice")
        for needed in each.extent.dims():
            if needed not in dims[:position]:
                raise UsageError(
                    f"{what}: the extent {each.extent} of dim '{each.name}' depends on '{needed.name}', which must "
                    f"come before it"
                )


def closure(dims: set[Dim]) -> set[Dim]:
    """The dims, and all dims that their extents depend on."""
    found: set[Dim] = set()
    waiting = list(dims)
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            waiting.extend(each.extent.dims())
    return found


def _name(atom: Atom) -> str:
    if isinstance(atom, Length):
        return f"{atom.lengths.name}[{', '.join(map(str, atom.indices))}]"
    return atom.name
