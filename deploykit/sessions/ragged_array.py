"""`Ragged`: arrays of different sizes, one after the other in memory without padding.

A batch of sequences of 3, 1 and 2 tokens with 384 features each has values of shape [6, 384] and the lengths [3, 1, 2].
If several extents differ between instances, the values are flat and each instance has a shape: matrices of 2 x 3 and
4 x 1 have 10 values and the shapes [[2, 3], [4, 1]].
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from deploykit.errors import ShapeError


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Ragged:
    """The arrays of the instances of a batch, one after the other.

    `values` has the shape [sum of the lengths, rest...] and `lengths` the shape [batch]; or `values` is flat and
    `lengths` has the shapes of the instances, [batch, rank of an instance]. Instance i begins at `offsets[i]` of the
    values, and `offsets` has one element more than there are instances. An element `ragged[i]` is the array of instance
    i, a view of the values.
    """

    values: np.ndarray
    lengths: np.ndarray
    offsets: np.ndarray

    def __init__(self, values: ArrayLike, lengths: ArrayLike) -> None:
        """Raises `ShapeError` unless `lengths` are whole numbers of at least 0 that add up to the number of values."""
        array, extents = np.asarray(values), whole_numbers(lengths)
        if array.ndim < 1 or extents.ndim not in (1, 2) or (extents.ndim == 2 and array.ndim > 1):
            raise ShapeError(
                f"found values of shape {array.shape} with lengths of shape {extents.shape}: expected values "
                "[sum of lengths, ...] with lengths [batch], or flat values with shapes [batch, rank]"
            )
        offsets = np.zeros(len(extents) + 1, np.int64)
        np.cumsum(extents if extents.ndim == 1 else extents.prod(axis=1), out=offsets[1:])
        if offsets[-1] != len(array):
            what = "lengths" if extents.ndim == 1 else "sizes of the instances"
            raise ShapeError(f"the {what} add up to {offsets[-1]}, but there are {len(array)} values")
        for name, value in (("values", array), ("lengths", extents), ("offsets", offsets)):
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, instances: Sequence[ArrayLike], dtype: Any = None, *, flat: bool = False) -> Ragged:
        """Make one from the arrays of the instances, which have one dtype and differ only in their first extent.

        With `flat` all their extents may differ, and the values are flat. Lists of numbers become arrays of `dtype`, by
        default that of the arrays beside them. An empty list is an instance without elements. Raises `ShapeError` if
        the instances do not fit together.
        """
        wanted = np.dtype(dtype) if dtype is not None else _common_dtype(instances)
        arrays = [_instance(number, given, wanted) for number, given in enumerate(instances)]
        first = next((array for array in arrays if array.shape != (0,)), np.zeros(0, wanted))
        arrays = [array if array.shape != (0,) else np.zeros((0, *first.shape[1:]), wanted) for array in arrays]
        for number, array in enumerate(arrays):
            if not array.ndim or array.ndim != first.ndim or (not flat and array.shape[1:] != first.shape[1:]):
                rest = ["..."] if flat else map(str, first.shape[1:])
                expected = ", ".join(("length", *rest)) if first.ndim > 1 else "length"
                raise ShapeError(f"instance {number} has shape {array.shape}, expected [{expected}]")
        if not arrays:
            return cls(first, np.zeros((0, 1) if flat else 0, np.int64))
        values = np.concatenate([array.reshape(-1) for array in arrays] if flat else arrays, dtype=wanted)
        return cls(values, [array.shape for array in arrays] if flat else [len(array) for array in arrays])

    @property
    def shapes(self) -> np.ndarray:
        """The shape of each instance, [batch, rank of an instance]."""
        if self.lengths.ndim == 2:
            return self.lengths
        rest = np.array(self.values.shape[1:], np.int64)
        return np.hstack([self.lengths[:, None], np.broadcast_to(rest, (len(self), len(rest)))])

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.values.dtype

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, instance: int) -> np.ndarray:
        number = index(instance)
        if not -len(self) <= number < len(self):
            raise IndexError(f"there is no instance {number}: there are {len(self)}")
        number %= len(self)
        values: np.ndarray = self.values[self.offsets[number] : self.offsets[number + 1]]
        return values.reshape(self.lengths[number]) if self.lengths.ndim == 2 else values

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[number] for number in range(len(self)))

    def padded(self, fill: Any = 0) -> np.ndarray:
        """A dense array [batch, longest, rest...], with `fill` where an instance has no elements."""
        longest = self.shapes.max(axis=0, initial=0)
        if self.lengths.ndim == 1:
            longest[1:] = self.values.shape[1:]
        result = np.full((len(self), *longest), fill, self.dtype)
        for row, instance in zip(result, self, strict=True):
            row[tuple(slice(extent) for extent in instance.shape)] = instance
        return result

    def __repr__(self) -> str:
        what = "lengths" if self.lengths.ndim == 1 else "shapes"
        shape = ", ".join((what, *map(str, self.values.shape[1:])))
        numbers = np.array2string(self.lengths, separator=", ", threshold=16).replace("\n", "")
        return f"Ragged({self.dtype}[{shape}], {what}={numbers})"


def whole_numbers(lengths: ArrayLike) -> np.ndarray:
    """The lengths as int64. Raises `ShapeError` unless they are whole numbers of at least 0."""
    try:
        array = np.asarray(lengths)
    except ValueError as error:
        raise ShapeError(f"lengths must be an array of whole numbers: {error}") from error
    if array.size and array.dtype.kind not in "iu":
        raise ShapeError(f"lengths must be whole numbers, found {array.dtype}")
    if array.size and array.min() < 0:
        where = tuple(map(int, np.argwhere(array < 0)[0]))
        raise ShapeError(f"a length must be at least 0, found {array[where]} for instance {where[0] if where else 0}")
    return array.astype(np.int64, copy=False)


def _common_dtype(instances: Sequence[ArrayLike]) -> np.dtype[Any]:
    """The dtype of the first array; if there are only lists, one that holds all their numbers."""
    arrays = [given for given in instances if isinstance(given, np.ndarray | np.generic)]
    if arrays:
        return arrays[0].dtype
    lists = [_instance(number, given, None) for number, given in enumerate(instances)]
    filled = [found.dtype for found in lists if found.size]
    return np.result_type(*filled) if filled else np.dtype(float)


def _instance(number: int, given: ArrayLike, dtype: np.dtype[Any] | None) -> np.ndarray:
    """The array of one instance, of this dtype if one is given. Numbers and lists of them are converted to it.

    Raises `ShapeError` for an array of another dtype, and for numbers that the dtype does not hold.
    """
    if type(given) is np.ndarray and given.dtype == dtype:
        return given
    if isinstance(given, np.ndarray | np.generic):
        if dtype is not None and given.dtype.newbyteorder("=") != dtype.newbyteorder("="):
            raise ShapeError(f"instance {number} has dtype {given.dtype}, expected {dtype}; convert it first")
        return np.asarray(given)
    try:
        plain = np.asarray(given)
        if dtype is not None and dtype.kind in "iub" and plain.dtype.kind == "f" and plain.size:
            raise ShapeError(f"instance {number} has fractional numbers, expected {dtype}")
        return plain if dtype is None or plain.dtype == dtype else np.asarray(given, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise ShapeError(f"instance {number} is no array of {dtype or 'numbers'}: {error}") from error
