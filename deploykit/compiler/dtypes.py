"""Dtypes by name: the logical dtypes of a model, and the storage dtypes that kernels see.

Formats that are too narrow for kernels to compute with are stored as raw bits: `bfloat16` in `uint16`, the float8
family in `uint8`, and the sub-byte types with one element per byte. `float16` is native.
"""

from __future__ import annotations

import numpy as np

from deploykit.basics import dtypes
from deploykit.basics.dtypes import DTYPES

_NAMES = {entry.array: name for name, entry in DTYPES.items()}


def storage_dtype(dtype: str) -> str:
    """The dtype that kernels see for a logical dtype."""
    return DTYPES[dtype].storage.name


def numpy_dtype(dtype: str) -> np.dtype:
    """The numpy (or ml_dtypes) dtype of a logical dtype."""
    return DTYPES[dtype].array


def logical_name(dtype: np.dtype) -> str:
    """The logical name of a numpy or ml_dtypes dtype. Raises `KeyError` for one that no interface can have."""
    return _NAMES[np.dtype(dtype)]


def is_raw(dtype: str) -> bool:
    """Whether the dtype is stored as raw bits."""
    return storage_dtype(dtype) != dtype


def is_narrow_float(dtype: str) -> bool:
    """Whether the dtype is a float that kernels decode to float32 before computing."""
    return is_raw(dtype) and dtype.startswith(("float", "bfloat"))


def stored_elements(array: np.ndarray, *, aligned: bool = True) -> np.ndarray:
    """The elements as kernels see them, in contiguous memory."""
    return dtypes.to_storage(array, DTYPES[logical_name(array.dtype)], aligned=aligned)
