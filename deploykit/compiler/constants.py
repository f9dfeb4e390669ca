"""Constants of a module and the arrays that they are, without copies: a large model has room for few."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import tvm_ffi
from tvm import relax

from deploykit.mapped import forget

SHARED = 64 << 10
"""Bytes from which on a constant shares the memory of the array that it is made from."""


def constant(array: np.ndarray) -> relax.Constant:
    """A constant of the array's own dtype. A large array belongs to it from then on."""
    if array.nbytes < SHARED or not array.flags.c_contiguous or not array.flags.writeable:
        return relax.const(array, str(array.dtype))
    return relax.const(tvm_ffi.from_dlpack(array, require_alignment=0))


def array_of(value: relax.Constant) -> np.ndarray:
    """The elements of a constant, not to be written to."""
    array: np.ndarray = np.from_dlpack(value.value)
    array.flags.writeable = False
    return array


@contextmanager
def read(value: relax.Constant) -> Iterator[np.ndarray]:
    """`array_of`, for a while: its memory is given back where it lies in the model's file."""
    array = array_of(value)
    try:
        yield array
    finally:
        forget(array)
