"""Tensors, and expressions: what an element of a tensor is computed from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from deploykit.errors import UsageError
from deploykit.ragged.bounds import missing, require_entries
from deploykit.ragged.indices import Arithmetic, Condition, Dim, Index, IndexLike, as_index

FLOATS = ("float32", "float64")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")
DTYPES = (*FLOATS, *INTEGERS, "bool")


class Value:
    """An expression. `+`, `-`, `*`, `/` and comparisons take values of one dtype, or a number; `&`, `|` and `~` take
    conditions."""

    @property
    def dtype(self) -> str:
        raise NotImplementedError

    def __add__(self, other: ValueLike) -> Value:
        return binary("add", self, other)

    def __radd__(self, other: ValueLike) -> Value:
        return binary("add", other, self)

    def __sub__(self, other: ValueLike) -> Value:
        return binary("sub", self, other)

    def __rsub__(self, other: ValueLike) -> Value:
        return binary("sub", other, self)

    def __mul__(self, other: ValueLike) -> Value:
        return binary("mul", self, other)

    def __rmul__(self, other: ValueLike) -> Value:
        return binary("mul", other, self)

    def __truediv__(self, other: ValueLike) -> Value:
        return binary("div", self, other)

    def __rtruediv__(self, other: ValueLike) -> Value:
        return binary("div", other, self)

    def __neg__(self) -> Value:
        return binary("sub", 0, self)

    def __lt__(self, other: ValueLike) -> Value:
        return binary("lt", self, other)

    def __le__(self, other: ValueLike) -> Value:
        return binary("le", self, other)

    def __gt__(self, other: ValueLike) -> Value:
        return binary("lt", other, self)

    def __ge__(self, other: ValueLike) -> Value:
        return binary("le", other, self)

    def __and__(self, other: ValueLike) -> Value:
        return logical("and", self, other)

    __rand__ = __and__

    def __or__(self, other: ValueLike) -> Value:
        return logical("or", self, other)

    __ror__ = __or__

    def __invert__(self) -> Value:
        return logical("not", self)


@dataclass(frozen=True)
class Literal(Value):
    number: float
    of: str

    @property
    def dtype(self) -> str:
        return self.of


@dataclass(frozen=True)
class OfIndex(Value):
    """An index as an int64."""

    index: Index

    @property
    def dtype(self) -> str:
        return "int64"


@dataclass(frozen=True)
class Load(Value):
    """An element of a tensor. If `outside` is given, it is the value where the element does not exist."""

    tensor: Tensor
    indices: tuple[Index, ...]
    outside: float | None = None

    @property
    def dtype(self) -> str:
        return self.tensor.dtype


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor with one element for each index of `dims`, the last dim innermost.

    The extents of a dim may depend on the indices of earlier dims; then nothing is stored for indices that do not
    exist, except for the *storage padding*: the extent of a dim in memory is its extent rounded up to a multiple of
    `padding[dim]`. Elements of the padding have no value. `value` is the expression of an element; None for inputs."""

    name: str
    dims: tuple[Dim, ...]
    dtype: str = "float32"
    value: Value | None = field(default=None, repr=False)
    padding: Mapping[Dim, int] = field(default_factory=dict, repr=False)

    @property
    def reduction(self) -> Reduce | None:
        """The reduction in `value`; None if there is none."""
        parts = walk(self.value) if self.value is not None else ()
        return next((part for part in parts if isinstance(part, Reduce)), None)

    def __getitem__(self, indices: IndexLike | tuple[IndexLike, ...]) -> Value:
        """The element at `indices`. Raises `UsageError` unless it is proved that it exists."""
        found = self._indices(indices)
        position = missing(self.dims, found)
        if position is not None:
            dim = self.dims[position]
            raise UsageError(
                f"index {found[position]} of dim '{dim.name}' of '{self.name}' may be outside of 0..{dim.extent} - 1: "
                f"use {self.name}.at(..., outside=0) for a value there"
            )
        return Load(self, found)

    def at(self, *indices: IndexLike, outside: float) -> Value:
        """The element at `indices`, or `outside` if it does not exist."""
        return Load(self, self._indices(indices), outside)

    def _indices(self, indices: IndexLike | tuple[IndexLike, ...]) -> tuple[Index, ...]:
        given = indices if isinstance(indices, tuple) else (indices,)
        found = tuple(require_entries(as_index(each)) for each in given)
        if len(found) != len(self.dims):
            names = ", ".join(dim.name for dim in self.dims)
            raise UsageError(f"'{self.name}' has the dims {names}; found {len(found)} indices")
        return found


@dataclass(frozen=True)
class Apply(Value):
    """A function of values, by name (see `deploykit.compiler.ragged.expressions`)."""

    function: str
    operands: tuple[Value, ...]
    of: str

    @property
    def dtype(self) -> str:
        return self.of


@dataclass(frozen=True)
class Reduce(Value):
    """The sum, maximum or minimum (`kind`) of a value over all indices of some dims. Over no index it is 0, the least
    or the greatest number."""

    kind: str
    value: Value
    dims: tuple[Dim, ...]

    @property
    def dtype(self) -> str:
        return self.value.dtype


ValueLike: TypeAlias = "Value | Arithmetic | Condition | float"


def as_value(value: ValueLike, dtype: str) -> Value:
    """`value` as an expression; a number gets `dtype`."""
    if isinstance(value, Value):
        return value
    if isinstance(value, Arithmetic):
        return OfIndex(require_entries(value.index))
    if isinstance(value, Condition):
        sides = tuple(OfIndex(require_entries(side)) for side in (value.a, value.b))
        return Apply(value.operator, sides, "bool")
    if not isinstance(value, (int, float)):
        raise UsageError(f"a value is an element of a tensor, an expression or a number; found {value!r}")
    if dtype in INTEGERS and not float(value).is_integer():
        raise UsageError(f"{value} is no {dtype}")
    return Literal(value, dtype)


def binary(function: str, a: ValueLike, b: ValueLike) -> Value:
    """A function of two values of the same dtype. A comparison gives a bool."""
    dtypes = [value.dtype for value in (a, b) if isinstance(value, Value)]
    dtypes += ["int64" for value in (a, b) if isinstance(value, Arithmetic)]
    dtype = dtypes[0] if dtypes else "float32"
    if len(set(dtypes)) > 1:
        raise UsageError(f"values of {dtypes[0]} and {dtypes[1]} cannot be combined; see ragged.cast")
    if function == "div" and dtype not in FLOATS:
        raise UsageError(f"values of {dtype} cannot be divided; see ragged.cast")
    compared = function in ("lt", "le", "eq")
    return Apply(function, (as_value(a, dtype), as_value(b, dtype)), "bool" if compared else dtype)


def logical(function: str, *operands: ValueLike) -> Value:
    """A function of conditions."""
    values = tuple(as_value(operand, "bool") for operand in operands)
    if any(value.dtype != "bool" for value in values):
        raise UsageError(f"'{function}' takes conditions")
    return Apply(function, values, "bool")


def walk(value: Value) -> Iterator[Value]:
    """A value and all its parts."""
    yield value
    if isinstance(value, Apply):
        for operand in value.operands:
            yield from walk(operand)
    elif isinstance(value, Reduce):
        yield from walk(value.value)


def free_dims(value: Value) -> set[Dim]:
    """The dims that a value depends on, without those that it reduces."""
    if isinstance(value, OfIndex):
        return set(value.index.dims())
    if isinstance(value, Load):
        return {dim for index in value.indices for dim in index.dims()}
    if isinstance(value, Apply):
        return {dim for operand in value.operands for dim in free_dims(operand)}
    if isinstance(value, Reduce):
        extents = {needed for dim in value.dims for needed in dim.extent.dims()}
        return (free_dims(value.value) | extents) - set(value.dims)
    return set()
