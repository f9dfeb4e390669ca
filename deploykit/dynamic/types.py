"""The types of a dynamic model, and how their values lie in words of 32 bits.

    int, bool   a word: the number
    float       two words: a float64
    Tensor      a word: the handle of a value (`runtime/batching/batching.h`)
    list        a word: the handle of the length and of the first item. In front of the items is how many of them are
                used, and how many there is room for (`LIST_ITEMS`)
    Rows        a tensor whose first extent only a run knows: the list of its rows
    union       a word: the handle of the number of the variant, and behind it its fields
    tuple       the words of its items

A handle is an index into the words of a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TypeAlias

LIST_FIRST, LIST_ITEMS = 1, 4
"""Where the items of a list are, behind its handle, when it is made: length, first item, used items, room, items."""


@dataclass(frozen=True)
class Int:
    def __str__(self) -> str:
        return "int"


@dataclass(frozen=True)
class Bool:
    def __str__(self) -> str:
        return "bool"


@dataclass(frozen=True)
class Float:
    def __str__(self) -> str:
        return "float"


@dataclass(frozen=True)
class Tensor:
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"Tensor[{', '.join(map(str, self.shape)) or '()'}]"


@dataclass(frozen=True)
class List:
    item: Type

    def __str__(self) -> str:
        return f"list[{self.item}]"


@dataclass(frozen=True)
class Rows(List):
    """Tensors of the shape of `item` with another axis in front, whose extent `dim` only a run knows."""

    dim: str = field(default="n", compare=False)

    def __str__(self) -> str:
        assert isinstance(self.item, Tensor)
        extents = ", ".join([f'"{self.dim}"', *map(str, self.item.shape)])
        return f"Tensor[{extents}]"


@dataclass(frozen=True)
class Tuple:
    items: tuple[Type, ...]

    def __str__(self) -> str:
        return f"tuple[{', '.join(map(str, self.items))}]"


@dataclass(frozen=True)
class Union:
    """One of the variants of that name in `Model.unions`; a dataclass alone is a union of one variant."""

    name: str

    def __str__(self) -> str:
        return self.name


Type: TypeAlias = Int | Bool | Float | Tensor | List | Tuple | Union


@dataclass(frozen=True)
class Variant:
    """A dataclass: its name, and its fields in order."""

    name: str
    fields: tuple[tuple[str, Type], ...]


Unions: TypeAlias = Mapping[str, tuple[Variant, ...]]
"""The variants of each union, in the order of their numbers."""


def width(kind: Type) -> int:
    """How many words a value of the type takes where it stands."""
    match kind:
        case Float():
            return 2
        case Tuple(items):
            return sum(map(width, items))
        case _:
            return 1


def split_words(kinds: Sequence[Type], words: Sequence[int], first: int = 0) -> Iterator[tuple[Type, Sequence[int]]]:
    """The types of values that lie one after the other, each with its words."""
    for kind in kinds:
        yield kind, words[first : first + width(kind)]
        first += width(kind)


def parts(kind: Type, word: int = 0) -> Iterator[tuple[Type, int]]:
    """The types that a value consists of when its tuples are opened, each with its place in words."""
    if not isinstance(kind, Tuple):
        yield kind, word
        return
    for item in kind.items:
        yield from parts(item, word)
        word += width(item)


def offsets(variant: Variant) -> dict[str, int]:
    """Where each field begins, in words behind the handle."""
    found, offset = {}, 1
    for name, kind in variant.fields:
        found[name] = offset
        offset += width(kind)
    return found


def is_flat(kind: Type) -> bool:
    """Whether results are arrays: tensors, numbers, lists of them, and tuples of these. Others are records."""
    match kind:
        case Tuple(items):
            return all(map(is_flat, items))
        case List(item):
            return not isinstance(item, List | Tuple | Union)
        case _:
            return not isinstance(kind, Union)


def tensors_in(kind: Type, unions: Unions, seen: frozenset[str] = frozenset()) -> bool:
    """Whether values of the type may hold tensors."""
    match kind:
        case Tensor():
            return True
        case List(item):
            return tensors_in(item, unions, seen)
        case Tuple(items):
            return any(tensors_in(item, unions, seen) for item in items)
        case Union(name) if name not in seen:
            fields = (field for variant in unions[name] for _, field in variant.fields)
            return any(tensors_in(field, unions, seen | {name}) for field in fields)
        case _:
            return False


def unions_in(kinds: Iterable[Type], unions: Unions) -> dict[str, tuple[Variant, ...]]:
    """Those of `unions` that values of the types consist of, outer ones first."""
    found: dict[str, tuple[Variant, ...]] = {}
    left = list(kinds)
    while left:
        match left.pop(0):
            case Union(name) if name not in found:
                found[name] = unions[name]
                left += [kind for variant in unions[name] for _, kind in variant.fields]
            case List(item):
                left.append(item)
            case Tuple(items):
                left += items
            case _:
                pass
    return found


def least_depths(unions: Unions) -> dict[str, float]:
    """For each union how deep its smallest objects are; infinite if each contains another one of its kind."""
    found = dict.fromkeys(unions, inf)
    for _ in found:
        for name, variants in unions.items():
            found[name] = min((depth_of(variant, found) for variant in variants), default=inf)
    return found


def depth_of(variant: Variant, least: Mapping[str, float]) -> float:
    """How deep the smallest object of a dataclass is, with `least` from `least_depths`. Lists may be empty."""
    inner = (part.name for _, kind in variant.fields for part, _ in parts(kind) if isinstance(part, Union))
    return 1 + max((least[name] for name in inner), default=0)
