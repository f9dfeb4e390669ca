"""What an ONNX value is while a graph is imported.

A `Value` is a tensor known in one of three ways, from most to least known:

* `array`: a constant;
* `elements`: an integer or boolean tensor whose elements are expressions over dims (the result of `Shape` and of
  arithmetic on it). It never becomes a tensor unless an operator needs one;
* `var`: a Relax variable, computed by a kernel;
* `last`: a value with the same elements whose axis 1 comes last, where that is how they were computed. It becomes a
  tensor of the value's own shape only when one is asked for.

A value that was dequantised knows what from (`quantized`), so that products of such values can be integer ones; what
was computed from such values is `inexact`: its last bits mean nothing. For who quantises again, such a product knows
the integers that it is made of (`scaled`), what was clipped knows what it was before (`clipped`), and a function of
8-bit integers knows its result for each of them (`table`).

An integer tensor may know between which numbers its elements lie (`extremes`, see `ranges`), and an int64 tensor the
int32 tensor that it was cast from (`narrow`).

A tensor of strings is a constant, or knows its `text`: two tensors, of spans and of bytes (`strings`).

The length of a sequence is known at import; its items are values. Whether an optional is there is known at import too,
or a boolean value, and its item is then there to compute with in both cases.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np

from deploykit.compiler.dims.text import to_text
from deploykit.compiler.dtypes import logical_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from tvm import relax

    from deploykit.compiler.dims.expressions import IntExpr


@dataclass(frozen=True)
class Extremes:
    """Bounds of the elements of an integer tensor, both inclusive; `None`: unknown."""

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
        """What messages call it: `float32[n, 2*m]`."""
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
        """Object array of the elements of a known integer tensor. Constants become Python ints and bools."""
        if self.elements is not None:
            return self.elements
        assert self.array is not None
        return self.array.astype(object)


@dataclass(frozen=True, eq=False)
class Quantized:
    """What a value was dequantised from: `(x - zero) * scale`, one scale in all or one for each position of `axis`."""

    x: Value
    scale: Value
    zero: Value | None
    axis: int

    @property
    def whole(self) -> bool:
        """Whether one scale and zero point hold for all elements."""
        return all(isinstance(n, int) and n == 1 for v in (self.scale, self.zero) if v is not None for n in v.shape)

    def moved(self, move: Callable[[Value], Value]) -> Quantized | None:
        """The same of elements that `move` puts elsewhere, where that leaves scales alone."""
        return replace(self, x=move(self.x)) if self.whole else None


@dataclass(frozen=True, eq=False)
class Scaled:
    """`total * factor + bias`, of integers and of constants that broadcast to them."""

    total: Value
    factor: np.ndarray
    bias: np.ndarray


@dataclass(frozen=True, eq=False)
class Clipped:
    """`x` within `low` and `high`."""

    x: Value
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Table:
    """What a function makes of each 8-bit integer, from the least one on; `index` holds those of a tensor. `heavy`:
    looking an element up takes less time than computing it."""

    index: Value
    entries: Value
    heavy: bool = False


@dataclass(frozen=True, eq=False)
class Text:
    """What strings consist of: `spans` of `data`, which has one axis."""

    spans: Value
    data: Value


@dataclass(frozen=True, eq=False)
class SequenceValue:
    """A sequence whose length and items are known at import."""

    items: tuple[Value, ...]
    dtype: str | None = None


@dataclass(frozen=True, eq=False)
class OptionalValue:
    """An optional: empty or holding one item. With `present`, a boolean scalar, only the run knows whether it does."""

    item: Value | SequenceValue | None
    present: Value | None = None


AnyValue: TypeAlias = Value | SequenceValue | OptionalValue


class _Poison:
    """Stands for the results of a node that could not be imported."""


POISON = cast("Value", _Poison())


def constant(array: np.ndarray | np.generic) -> Value:
    """A constant value; the logical dtype is that of the array."""
    array = np.asarray(array)
    if array.dtype.kind in "US" or array.dtype == object:
        array = np.array([e.decode() if isinstance(e, bytes) else str(e) for e in array.flat], object).reshape(
            array.shape
        )
    return Value(logical_name(array.dtype), tuple(int(n) for n in array.shape), array=array)


def known(elements: np.ndarray, dtype: str = "int64") -> Value:
    """A value from an object array of ints and expressions; a constant when all are plain."""
    elements = np.asarray(elements, dtype=object)
    if all(isinstance(e, (int, bool, np.integer, np.bool_)) for e in elements.flat):
        return constant(elements.astype(dtype))
    return Value(dtype, tuple(int(n) for n in elements.shape), elements=elements)
