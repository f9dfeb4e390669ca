"""Conversion between constants of a module and arrays, without copies, because a large model has room for few."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import tvm_ffi
from tvm import relax

from deploykit.basics.mapped import LEAST, forget, is_mapped, set_aside

SHARED = 64 << 10
"""The least bytes of a constant that shares the memory of the array that it is made from."""


def constant(array: np.ndarray) -> relax.Constant:
    """A constant with the array's dtype. A large array must not be changed afterwards, because the constant shares it,
    and if it is not in a file, it is set aside in one."""
    if array.nbytes >= LEAST and not (array.flags.c_contiguous and is_mapped(array)):
        array = set_aside(array)
    if array.nbytes < SHARED or not array.flags.c_contiguous or not array.flags.writeable:
        return relax.const(array, str(array.dtype))
    return relax.const(tvm_ffi.from_dlpack(array, require_alignment=0))


def array_of(value: relax.Constant) -> np.ndarray:
    """The elements of a constant, as a read-only array."""
    array: np.ndarray = np.from_dlpack(value.value)
    array.flags.writeable = False
    return array


@contextmanager
def read(value: relax.Constant) -> Iterator[np.ndarray]:
    """`array_of`, for use in a `with` block. Afterwards, memory that maps the model's file is given back."""
    array = array_of(value)
    try:
        yield array
    finally:
        forget(array)
