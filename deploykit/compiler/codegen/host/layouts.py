"""How instances lie in words, as `dk_type`s say it (`runtime/batching/instances.h`)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from deploykit.dynamic.types import Float, List, Tensor, Tuple, Type, Union, Unions, width


class Layouts:
    """Numbers the types that handles refer to."""

    def __init__(self, unions: Unions) -> None:
        self._unions = unions
        self._numbers: dict[Type, int] = {}

    def of(self, kind: Type) -> list[int]:
        """The layout of a value: the number of its words, then for each word a type, or -1."""
        return [width(kind), *self._words(kind)]

    def types(self) -> list[tuple[str, int, list[int]]]:
        """The kind, the count and the layouts of each type that is numbered, and of those that these refer to."""
        found: list[tuple[str, int, list[int]]] = []
        while len(found) < len(self._numbers):
            found.append(self._described(list(self._numbers)[len(found)]))
        return found

    def _described(self, kind: Type) -> tuple[str, int, list[int]]:
        match kind:
            case Tensor(shape):
                return "DK_TYPE_TENSOR", prod(shape), []
            case List(item):
                return "DK_TYPE_LIST", 0, self.of(item)
            case Union(name):
                variants = self._unions[name]
                fields = (Tuple(tuple(each for _, each in variant.fields)) for variant in variants)
                return "DK_TYPE_UNION", len(variants), [word for each in fields for word in self.of(each)]
            case _:
                raise ValueError(f"no handle refers to {kind}")

    def _words(self, kind: Type) -> Sequence[int]:
        match kind:
            case Tensor() | List() | Union():
                return [self._numbers.setdefault(kind, len(self._numbers))]
            case Tuple(items):
                return [word for item in items for word in self._words(item)]
            case Float():
                return [-1, -1]
            case _:
                return [-1]
