"""The values of a graph while it is imported.

A `Value` is a tensor that is known in one of these ways, from most to least known:

* `array`: a constant;
* `elements`: an integer or boolean tensor whose elements are expressions over dims (the result of `Shape`, and of
  arithmetic on it). It becomes a tensor only if an operator needs one;
* `var`: a Relax variable, computed by a kernel;
* `last`: a value with the same elements but axis 1 last, if they were computed in that order. It becomes a tensor of
  the value's own shape only if one is needed.

A value that was dequantised has its source in `quantized`, so that products of such values can be integer products. A
value computed from such values is `inexact`: its last bits are not significant. For a later quantisation, a product
records its integers (`scaled`), a clipped value its original (`clipped`), and a function of 8-bit integers its result
for each of them (`table`).

An integer tensor may record the range of its elements (`extremes`, see `ranges`), and an int64 tensor the int32 tensor
that it was cast from (`narrow`).

A tensor of strings is a constant, or has its `text`: two tensors, of spans and of bytes (`strings`).

The length of a sequence is known at import, and its items are values; or its items have one shape and are rows of one
tensor (`StackValue`), whose number a run may choose. Whether an optional has an item is known at
import, or is a boolean value; in the latter case there is always an item to compute with.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np

from deploykit.compiler.dims.formulas import to_text
from deploykit.compiler.dtypes import logical_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from tvm import relax

    from deploykit.compiler.dims.expressions import IntExpr


@dataclass(frozen=True)
class Extremes:
    """Inclusive bounds of the elements of an integer tensor; `None` if unknown."""

    low: IntExpr | None = None
    high: IntExpr | None = None


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor with logical `dtype` and `shape` (ints and int64 expressions)."""

    dtype: str
    shape: tuple[IntExpr, ...]
    array: np.ndarray | None = None
    elements: np.ndarray | None = None
    var: relax.Var | None = None
    last: Value | None = None
    quantized: Quantized | None = None
    scaled: Scaled | None = None
    clipped: Clipped | None = None
    table: Table | None = None
    inexact: bool = False
    extremes: Extremes = Extremes()
    narrow: Value | None = None
    text: Text | None = None

    def __str__(self) -> str:
        """The text in messages: `float32[n, 2*m]`."""
        return f"{self.dtype}[{', '.join(map(to_text, self.shape))}]"

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_constant(self) -> bool:
        return self.array is not None

    @property
    def is_known(self) -> bool:
        """Whether every element is a constant or an expression over dims."""
        return self.array is not None or self.elements is not None

    def known_elements(self) -> np.ndarray:
        """The elements of a known integer tensor as an object array. Constants become Python ints and bools."""
        if self.elements is not None:
            return self.elements
        assert self.array is not None
        return self.array.astype(object)


@dataclass(frozen=True, eq=False)
class Quantized:
    """The source of a dequantised value, `(x - zero) * scale`, with one scale in all or one per position of `axis`.
    `restored` gives the value of other integers with the same scale; `None` if there are several."""

    x: Value
    scale: Value
    zero: Value | None
    axis: int
    restored: Callable[[Value], Value] | None = None

    @property
    def whole(self) -> bool:
        """Whether a single scale and zero point apply to all elements."""
        return all(isinstance(n, int) and n == 1 for v in (self.scale, self.zero) if v is not None for n in v.shape)

    def moved(self, move: Callable[[Value], Value]) -> Quantized | None:
        """The source after `move` rearranges its elements; `None` if it has more than one scale."""
        return replace(self, x=move(self.x)) if self.whole else None


@dataclass(frozen=True, eq=False)
class Scaled:
    """`total * factor + bias`: a tensor of integers, and constants that broadcast to it."""

    total: Value
    factor: np.ndarray
    bias: np.ndarray


@dataclass(frozen=True, eq=False)
class Clipped:
    """`x`, clipped to `low` and `high`."""

    x: Value
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Table:
    """The result of a function for each 8-bit integer, from the least one on. `index` is the tensor of these integers.
    `heavy`: looking up an element takes less time than computing it."""

    index: Value
    entries: Value
    heavy: bool = False


@dataclass(frozen=True, eq=False)
class Text:
    """A tensor of strings: `spans` into `data`, which has one axis."""

    spans: Value
    data: Value


@dataclass(frozen=True, eq=False)
class SequenceValue:
    """A sequence whose length and items are known at import."""

    items: tuple[Value, ...]
    dtype: str | None = None


@dataclass(frozen=True, eq=False)
class StackValue:
    """A sequence whose items are the rows of `stack` (length, ...). If they differ in size along one of their axes,
    `stack` is what joining them along it gives, and `joined` is this axis."""

    stack: Value
    joined: int | None = None


@dataclass(frozen=True, eq=False)
class OptionalValue:
    """An optional: empty, or with one item. If `present` is set, a boolean scalar, only the run knows which."""

    item: Value | SequenceValue | None
    present: Value | None = None


AnyValue: TypeAlias = Value | SequenceValue | StackValue | OptionalValue


class _Poison:
    """Stands in for the results of a node that could not be imported."""


POISON = cast("Value", _Poison())


def constant(array: np.ndarray | np.generic) -> Value:
    """A constant value. Its logical dtype is that of the array."""
    array = np.asarray(array)
    if array.dtype.kind in "US" or array.dtype == object:
        array = np.array([e.decode() if isinstance(e, bytes) else str(e) for e in array.flat], object).reshape(
            array.shape
        )
    return Value(logical_name(array.dtype), tuple(int(n) for n in array.shape), array=array)


def known(elements: np.ndarray, dtype: str = "int64") -> Value:
    """A value from an object array of ints and expressions. It is a constant if all elements are plain."""
    elements = np.asarray(elements, dtype=object)
    if all(isinstance(e, (int, bool, np.integer, np.bool_)) for e in elements.flat):
        return constant(elements.astype(dtype))
    return Value(dtype, tuple(int(n) for n in elements.shape), elements=elements)
