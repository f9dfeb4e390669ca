"""Logical dtypes of the interface and the storage dtypes of kernels.

Formats narrower than what kernels can compute with are stored as raw bits: `bfloat16` in `uint16`, the float8 family
in `uint8`, and the sub-byte types one element a byte. `float16` is native.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

_RAW_STORAGE = {
    "bfloat16": "uint16",
    "float8_e4m3fn": "uint8",
    "float8_e4m3fnuz": "uint8",
    "float8_e5m2": "uint8",
    "float8_e5m2fnuz": "uint8",
    "float8_e8m0": "uint8",
    "float4_e2m1": "uint8",
    "int4": "int8",
    "int2": "int8",
    "uint4": "uint8",
    "uint2": "uint8",
}

_NUMPY = {
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "float8_e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "float8_e8m0": ml_dtypes.float8_e8m0fnu,
    "float4_e2m1": ml_dtypes.float4_e2m1fn,
    "int4": ml_dtypes.int4,
    "int2": ml_dtypes.int2,
    "uint4": ml_dtypes.uint4,
    "uint2": ml_dtypes.uint2,
}

NATIVE = (
    "float32", "float64", "float16", "bool", "int8", "int16", "int32", "int64",
    "uint8", "uint16", "uint32", "uint64",
)  # fmt: skip

LOGICAL = (*NATIVE, *_RAW_STORAGE)

_LOGICAL_OF_NUMPY = {np.dtype(numpy_type): name for name, numpy_type in _NUMPY.items()}


def storage_dtype(dtype: str) -> str:
    """The dtype kernels see for a logical dtype."""
    return _RAW_STORAGE.get(dtype, dtype)


def numpy_dtype(dtype: str) -> np.dtype:
    """The numpy (or ml_dtypes) dtype of a logical dtype."""
    return np.dtype(_NUMPY.get(dtype, dtype))


def logical_dtype(dtype: np.dtype) -> str:
    """The logical name of a numpy or ml_dtypes dtype."""
    return _LOGICAL_OF_NUMPY.get(np.dtype(dtype), np.dtype(dtype).name)


def is_raw(dtype: str) -> bool:
    """Whether the dtype is stored as raw bits."""
    return dtype in _RAW_STORAGE


def is_narrow_float(dtype: str) -> bool:
    """Whether the dtype is a float that kernels decode to float32 before computing."""
    return dtype in _RAW_STORAGE and dtype.startswith(("b", "f"))


def to_storage(array: np.ndarray) -> np.ndarray:
    """The raw bits (or the array itself when native), contiguous."""
    name = logical_dtype(array.dtype)
    array = np.ascontiguousarray(array) if array.ndim else array
    if not is_raw(name):
        return array
    if name in ("int4", "int2"):
        return array.astype(np.int8)
    if name in ("uint4", "uint2"):
        return array.astype(np.uint8)
    return array.view(storage_dtype(name))


def from_storage(array: np.ndarray, dtype: str) -> np.ndarray:
    """Inverse of `to_storage`."""
    if not is_raw(dtype):
        return array
    if dtype in ("int4", "int2", "uint4", "uint2"):
        return array.astype(numpy_dtype(dtype))
    return array.view(numpy_dtype(dtype))
