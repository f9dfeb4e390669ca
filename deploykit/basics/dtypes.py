"""The dtypes of a model's inputs and outputs: their names, their layout in memory, and their NumPy dtypes.

Types below one byte take one byte per element: integers are sign- or zero-extended, `float4_e2m1` is in the low four
bits. bfloat16 and the 8-bit floats have the same bytes as in NumPy (package ml_dtypes). A `string` element is a span of
bytes; the bytes are in a tensor of their own (see `structure`). `code` is the value of `dk_dtype` in `deploykit.h`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from deploykit.errors import ShapeError, UsageError


@dataclass(frozen=True)
class LogicalDtype:
    """One dtype. `storage` is the dtype of the elements in memory. `scalar` names the type of the elements that the
    user sees, in ml_dtypes; it is empty for types of NumPy."""

    name: str
    code: int
    storage: np.dtype[Any]
    scalar: str = ""

    @cached_property
    def array(self) -> np.dtype[Any]:
        """The dtype of the arrays that the user sees. Only where NumPy has none is ml_dtypes imported."""
        if self.name == "string":
            return np.dtype(object)
        if not self.scalar:
            return self.storage
        import ml_dtypes

        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, self.scalar))
        return found

    @property
    def c_name(self) -> str:
        """The enumerator of `dk_dtype`."""
        return f"DK_{self.name.upper()}"

    @property
    def extended(self) -> bool:
        """Whether elements are stored as 8-bit integers of the same value, instead of the bytes of the array's
        dtype."""
        return self.name in ("int4", "uint4", "int2", "uint2")


_PLAIN = ("float32", "float64", "float16")
_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")
_PACKED = (
    ("bfloat16", "uint16", "bfloat16"),
    *((name, name, "") for name in _INTEGERS),
    *(("int4", "int8", "int4"), ("uint4", "uint8", "uint4"), ("int2", "int8", "int2"), ("uint2", "uint8", "uint2")),
    *((name, "uint8", name) for name in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")),
    *(("float8_e8m0", "uint8", "float8_e8m0fnu"), ("float4_e2m1", "uint8", "float4_e2m1fn"), ("string", "int64", "")),
)
_ROWS = (*((name, name, "") for name in _PLAIN), *_PACKED)

DTYPES = {
    name: LogicalDtype(name, code, np.dtype(storage), scalar) for code, (name, storage, scalar) in enumerate(_ROWS)
}
"""All dtypes by name, in the order of `dk_dtype`."""


def logical_dtype(name: str) -> LogicalDtype:
    """The dtype called `name`. Raises `UsageError` for a name that is not a dtype of an interface."""
    if name not in DTYPES:
        raise UsageError(f"'{name}' is no dtype of a model's interface; there are {', '.join(DTYPES)}")
    return DTYPES[name]


def as_array(name: str, value: ArrayLike, dtype: np.dtype[Any]) -> np.ndarray:
    """The value of the input `name` as an array: an array stays as it is, and numbers and nested lists are converted to
    `dtype`. Raises `ShapeError` if they cannot be, or are fractional where integers are expected."""
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    try:
        if dtype.kind in "iub":
            plain = np.asarray(value)
            if plain.dtype.kind == "f" and plain.size:
                raise ShapeError(f"input '{name}': expected {dtype}, found fractional numbers")
        return np.asarray(value, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise ShapeError(f"input '{name}': no array of {dtype}: {error}") from error


def to_storage(array: np.ndarray, dtype: LogicalDtype, *, aligned: bool = True) -> np.ndarray:
    """The elements of `array`, of dtype `dtype.array`, as they are stored in memory: dense and in native byte order.
    With `aligned` the result is also aligned."""
    if dtype.extended:
        return array.astype(dtype.storage, order="C")
    if array.dtype == dtype.storage and array.flags.c_contiguous and (array.flags.aligned or not aligned):
        return array
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    dense = np.require(native, requirements=("C_CONTIGUOUS", "ALIGNED") if aligned else ("C_CONTIGUOUS",))
    return dense.reshape(array.shape).view(dtype.storage)


def from_storage(stored: np.ndarray, dtype: LogicalDtype) -> np.ndarray:
    """The array that the user sees, made of elements as they are stored in memory. May share that memory."""
    if dtype.array == dtype.storage:
        return stored
    return stored.astype(dtype.array) if dtype.extended else stored.view(dtype.array)
