"""What instances returned, from the outputs of a run to Python values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import make_dataclass
from functools import cache
from math import prod
from struct import pack, unpack
from typing import Any

import numpy as np

from deploykit.dynamic.signatures import Signature
from deploykit.dynamic.types import Bool, Float, Int, List, Rows, Tensor, Tuple, Type, Union, split_words, width


def decode_records(signature: Signature, outputs: Sequence[np.ndarray]) -> list[Any]:
    """What each instance returned, where that has records: `outputs` are roots, words and elements, as `Encoded` has
    them. Objects are of dataclasses with the names and fields of the model's."""
    decoder = _Decoder(signature, outputs[1].tolist(), outputs[2])
    return [decoder.value(signature.gives, root) for root in outputs[0].tolist()]


@cache
def _class_of(name: str, fields: tuple[str, ...]) -> type[Any]:
    return make_dataclass(name, fields)


class _Decoder:
    def __init__(self, signature: Signature, words: list[int], elements: np.ndarray) -> None:
        self._unions, self._words, self._elements = signature.unions, words, elements
        self._classes = {
            variant.name: _class_of(variant.name, tuple(name for name, _ in variant.fields))
            for variants in signature.unions.values()
            for variant in variants
        }
        self._made: dict[tuple[int, Type], Any] = {}

    def value(self, kind: Type, words: Sequence[int]) -> Any:
        """The value of words. What they refer to is made first, without recursion: results may be deep."""
        waiting = list(_handles(kind, words))
        while waiting:
            handle, of = waiting[-1]
            parts = [] if (handle, of) in self._made else list(self._parts(handle, of))
            missing = [part for each, own in parts for part in _handles(each, own) if part not in self._made]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            if (handle, of) not in self._made:
                self._made[handle, of] = self._object(handle, of, parts)
        return self._inline(kind, words)

    def _parts(self, handle: int, kind: Type) -> Iterator[tuple[Type, Sequence[int]]]:
        """The types and the words of the fields, or of the items."""
        words = self._words
        match kind:
            case List(item):
                first, size = words[handle + 1], width(item)
                for number in range(words[handle]):
                    yield item, words[first + number * size : first + (number + 1) * size]
            case Union(name):
                fields = [kind for _, kind in self._unions[name][words[handle]].fields]
                yield from split_words(fields, words, handle + 1)
            case _:
                pass

    def _object(self, handle: int, kind: Type, parts: Sequence[tuple[Type, Sequence[int]]]) -> Any:
        values = [self._inline(each, own) for each, own in parts]
        match kind:
            case Rows(Tensor(shape)):
                return np.array(values, np.float32).reshape(len(values), *shape)
            case Tensor(shape):
                offset = self._words[handle]
                return self._elements[offset : offset + prod(shape)].reshape(shape)
            case Union(name):
                return self._classes[self._unions[name][self._words[handle]].name](*values)
            case _:
                return values

    def _inline(self, kind: Type, words: Sequence[int]) -> Any:
        match kind:
            case Tuple(items):
                return tuple(self._inline(item, own) for item, own in split_words(items, words))
            case Float():
                return unpack("=d", pack("=ii", *words))[0]
            case Bool():
                return bool(words[0])
            case Int():
                return words[0]
            case _:
                return self._made[words[0], kind]


def _handles(kind: Type, words: Sequence[int]) -> Iterator[tuple[int, Type]]:
    """What a value refers to."""
    match kind:
        case Tuple(items):
            for item, own in split_words(items, words):
                yield from _handles(item, own)
        case Tensor() | List() | Union():
            yield words[0], kind
        case _:
            pass


def decode(kind: Type, outputs: Sequence[np.ndarray], batch: int) -> list[Any]:
    """What each instance returned. `outputs` are arrays over the batch, for a list its items and its lengths."""
    columns = iter(outputs)
    return list(_column(kind, columns, batch))


def _column(kind: Type, outputs: Any, batch: int) -> Sequence[Any]:
    match kind:
        case Tuple(items):
            columns = [_column(item, outputs, batch) for item in items]
            return list(zip(*columns, strict=True)) if columns else [()] * batch
        case List(item):
            values, lengths = next(outputs), next(outputs)
            ends = np.cumsum(lengths)
            parts = (values[end - length : end] for end, length in zip(ends, lengths, strict=True))
            if isinstance(kind, Rows):
                return list(parts)
            return [list(part) if isinstance(item, Tensor) else part.tolist() for part in parts]
        case Tensor():
            return list(next(outputs))
        case _:
            return list(next(outputs).tolist())
