"""Instances as words.

An instance is what the model's `main` takes: objects of its dataclasses, or of other classes with the same names and
fields; `("Node", left, right)`; `{"type": "Node", "left": ..., "right": ...}`; without the name where there is one
dataclass. Several parameters are a tuple. An object that occurs several times is stored once.

The words are those of `runtime/batching/instances.h`: each record comes after those that it refers to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from struct import pack, unpack
from typing import Any

import numpy as np

from deploykit.dynamic.signatures import Signature
from deploykit.dynamic.types import LIST_ITEMS, Bool, Float, Int, List, Rows, Tensor, Tuple, Type, Union, Variant, width
from deploykit.errors import DataError, ShapeError

_SMALLEST, _LARGEST = -(2**31), 2**31 - 1


@dataclass
class Encoded:
    """Instances for a run: `words`, the words of `main`'s parameters for each instance, and the tensors in them.
    `objects` are what the handles of records stand for."""

    words: np.ndarray
    roots: np.ndarray
    elements: np.ndarray
    objects: dict[int, Any]


def encode(signature: Signature, instances: Iterable[Any]) -> Encoded:
    """The words of instances. Raises `ShapeError` and `DataError` for one that is not what the model takes; the message
    names the instance and the place in it."""
    encoder = _Encoder(signature)
    kinds = Tuple(tuple(kind for _, kind in signature.takes))
    roots: list[int] = []
    every = list(instances)  # all exist at the same time, so each has an identity of its own
    for number, instance in enumerate(every):
        given = (instance,) if len(kinds.items) == 1 else instance
        try:
            roots += encoder.words_of(given, kinds)
        except (ShapeError, DataError) as error:
            raise type(error)(f"instance {number}: {error}") from None
    words = np.array(encoder.words, np.int32)
    elements = np.concatenate(encoder.tensors) if encoder.tensors else np.empty(0, np.float32)
    return Encoded(words, np.array(roots, np.int32).reshape(len(every), width(kinds)), elements, encoder.objects)


class _Encoder:
    """`words` grow by a record for each object that instances refer to."""

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self.words: list[int] = [0]
        self.tensors: list[np.ndarray] = []
        self.elements = 0
        self._records: dict[Type, _Records] = {}
        self.objects: dict[int, Any] = {}

    def records(self, kind: Type) -> _Records:
        """The records of a type that handles refer to."""
        if kind not in self._records:
            made = {Union: _Objects, List: _Lists, Rows: _Lists, Tensor: _Tensors}[type(kind)](self, kind)
            self._records[kind] = made
        return self._records[kind]

    def words_of(self, value: Any, kind: Type) -> list[int]:
        """The words of a value. What it refers to is stored first, without recursion: instances may be deep."""
        stack = list(self.references(value, kind))
        while stack:
            records, each = stack[-1]
            key = id(each)
            if key in records.handles:
                stack.pop()
                continue
            missing = [pair for pair in records.references(each) if id(pair[1]) not in pair[0].handles]
            if not missing:
                words = records.words(each)
                records.handles[key] = len(self.words)
                self.objects[len(self.words)] = each
                self.words += words
                stack.pop()
            elif key in records.open:
                raise DataError(f"a {type(each).__name__} contains itself")
            else:
                records.open.add(key)
                stack += missing
        return self.inline(value, kind)

    def references(self, value: Any, kind: Type) -> Iterator[tuple[_Records, Any]]:
        """What a value itself refers to."""
        match kind:
            case Union() | List() | Tensor():
                yield self.records(kind), value
            case Tuple(items):
                for item, each in zip(_items(value, items), items, strict=True):
                    yield from self.references(item, each)
            case _:
                pass

    def inline(self, value: Any, kind: Type) -> list[int]:
        """The words of a value whose records are stored."""
        match kind:
            case Int():
                return [_whole(value)]
            case Bool():
                if not isinstance(value, bool | np.bool_):
                    raise ShapeError(f"expected bool, found {_named(value)}")
                return [int(value)]
            case Float():
                if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
                    raise ShapeError(f"expected float, found {_named(value)}")
                return list(unpack("=ii", pack("=d", float(value))))
            case Tuple(items):
                pairs = zip(_items(value, items), items, strict=True)
                return [word for item, each in pairs for word in self.inline(item, each)]
            case _:
                return [self.records(kind).handles[id(value)]]


class _Records:
    """The records of one type. `handles` has those that are stored, by the identity of the object; `open` those whose
    parts are being stored."""

    def __init__(self, encoder: _Encoder, kind: Any) -> None:
        self.encoder = encoder
        self.kind = kind
        self.handles: dict[int, int] = {}
        self.open: set[int] = set()

    def references(self, value: Any) -> Iterable[tuple[_Records, Any]]:
        """What an object refers to."""
        raise NotImplementedError

    def words(self, value: Any) -> list[int]:
        """The words of an object, which begin at the end of those that are there."""
        raise NotImplementedError


class _Objects(_Records):
    """Objects of the dataclasses of a union. How a class is read is found once."""

    def __init__(self, encoder: _Encoder, kind: Union) -> None:
        super().__init__(encoder, kind)
        self._variants = encoder.signature.unions[kind.name]
        self._numbers = {variant.name: number for number, variant in enumerate(self._variants)}
        self._classes: dict[type, tuple[int, Callable[[Any], Any]]] = {}

    @cached_property
    def _plans(self) -> list[list[tuple[int, _Records | None, Type]]]:
        """For each dataclass the place and the type of each field, and its records if it is a handle."""
        records = self.encoder.records
        return [
            [
                (place, records(kind) if isinstance(kind, Union | List | Tensor) else None, kind)
                for place, (_, kind) in enumerate(variant.fields)
            ]
            for variant in self._variants
        ]

    def references(self, value: Any) -> Iterable[tuple[_Records, Any]]:
        number, parts = self._opened(value)
        found: list[tuple[_Records, Any]] = []
        for place, records, kind in self._plans[number]:
            if records is not None:
                found.append((records, parts[place]))
            elif isinstance(kind, Tuple):
                found += self.encoder.references(parts[place], kind)
        return found

    def words(self, value: Any) -> list[int]:
        number, parts = self._opened(value)
        found = [number]
        for place, records, kind in self._plans[number]:
            part = parts[place]
            if records is not None:
                found.append(records.handles[id(part)])
            elif type(part) is int and type(kind) is Int and _SMALLEST <= part <= _LARGEST:
                found.append(part)
            else:
                found += self.encoder.inline(part, kind)
        return found

    def _opened(self, value: Any) -> tuple[int, Sequence[Any]]:
        """The number of the dataclass of an object, and the values of its fields."""
        known = self._classes.get(type(value))
        if known is not None:
            try:
                return known[0], known[1](value)
            except AttributeError:
                pass  # the message is made below
        variant, parts = _opened(value, self.kind.name, self._variants)
        number = self._numbers[variant.name]
        if not isinstance(value, Mapping | tuple | list):
            names = [name for name, _ in variant.fields]
            get = attrgetter(*names) if names else None
            self._classes[type(value)] = number, _as_tuple(get, len(names))
        return number, parts


def _as_tuple(get: Callable[[Any], Any] | None, count: int) -> Callable[[Any], Any]:
    """A getter of `count` attributes that always gives a tuple."""
    if get is None:
        return lambda _: ()
    return get if count > 1 else lambda value: (get(value),)


class _Lists(_Records):
    def __init__(self, encoder: _Encoder, kind: List) -> None:
        super().__init__(encoder, kind)
        self._of_arrays: dict[int, list[Any]] = {}

    def references(self, value: Any) -> Iterable[tuple[_Records, Any]]:
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Sequence | np.ndarray):
            raise ShapeError(f"expected {self.kind}, found {_named(value)}")
        item = self.kind.item
        if isinstance(item, Union | List | Tensor):
            records = self.encoder.records(item)
            return [(records, part) for part in self._items(value)]
        return [found for part in self._items(value) for found in self.encoder.references(part, item)]

    def words(self, value: Any) -> list[int]:
        items, item, encoder = self._items(value), self.kind.item, self.encoder
        count = len(items)
        head = [count, len(encoder.words) + LIST_ITEMS, count, count]
        return head + [word for part in items for word in encoder.inline(part, item)]

    def _items(self, value: Any) -> Any:
        """The items. Those of an array are kept, so that they are the same objects each time."""
        if not isinstance(value, np.ndarray):
            return value
        return self._of_arrays.setdefault(id(value), list(value))


class _Tensors(_Records):
    def references(self, value: Any) -> Iterable[tuple[_Records, Any]]:  # noqa: ARG002 - a tensor refers to nothing
        return ()

    def words(self, value: Any) -> list[int]:
        encoder, shape = self.encoder, self.kind.shape
        try:
            array = np.asarray(value)
        except ValueError:
            array = np.empty(0, object)
        if array.dtype.kind not in "fiub":
            raise ShapeError(f"expected a tensor of shape {shape}, found {_named(value)}")
        array = array.astype(np.float32, copy=False)
        if array.shape != shape:
            raise ShapeError(f"expected a tensor of shape {shape}, found {array.shape}")
        encoder.tensors.append(array.reshape(-1))
        encoder.elements += array.size
        return [encoder.elements - array.size, 0]


def _named(value: Any) -> str:
    return f"{type(value).__name__} {str(value)[:40]}"


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ShapeError(f"expected int, found {_named(value)}")
    if not _SMALLEST <= value <= _LARGEST:
        raise DataError(f"integers have 32 bits, found {value}")
    return int(value)


def _items(value: Any, items: Sequence[Type]) -> Sequence[Any]:
    if not isinstance(value, tuple | list) or len(value) != len(items):
        raise ShapeError(f"expected tuple[{', '.join(map(str, items))}], found {_named(value)}")
    return value


def _opened(value: Any, union: str, variants: tuple[Variant, ...]) -> tuple[Variant, list[Any]]:
    """The dataclass of an object, and the values of its fields."""
    known = {variant.name: variant for variant in variants}
    only = variants[0] if len(variants) == 1 else None
    name: Any = None
    get: Callable[[str], Any]
    if isinstance(value, Mapping):
        name, get = value.get("type"), value.__getitem__
    elif isinstance(value, tuple | list):
        name = value[0] if value and isinstance(value[0], str) else None
        parts = value[1:] if name in known else value
        chosen = known.get(name, only) if isinstance(name, str) else only
        if chosen is None or len(parts) != len(chosen.fields):
            raise ShapeError(f"expected {_shown(union, variants)}, found {_named(value)}")
        return chosen, list(parts)
    else:
        name, get = type(value).__name__, lambda field: getattr(value, field)
    variant = known.get(name, only)
    if variant is None:
        raise ShapeError(f"expected {_shown(union, variants)}, found {_named(value)}")
    found: list[Any] = []
    for each, _ in variant.fields:
        try:
            found.append(get(each))
        except (AttributeError, KeyError):
            raise ShapeError(f"'{variant.name}' needs a field '{each}', found {_named(value)}") from None
    return variant, found


def _shown(union: str, variants: Sequence[Variant]) -> str:
    forms = (f"{variant.name}({', '.join(name for name, _ in variant.fields)})" for variant in variants)
    return f"{union}: {' or '.join(forms)}"
