"""Values that stay on a GPU of this machine between runs."""

from __future__ import annotations

import weakref
from typing import Any, Protocol

import numpy as np

from deploykit.engines.native.library import CTensor

ON_DEVICE = 64
"""`DK_ON_DEVICE`: the address of a value that is in a buffer of the caller."""


class Device(Protocol):
    """What buffers need of the GPU that they are on; see `engines.native.gpu.Gpu`."""

    def keep(self, size: int) -> int: ...

    def discard(self, number: int) -> None: ...

    def read(self, number: int, array: np.ndarray) -> None: ...


class Buffer:
    """A buffer of `gpu` with room for `size` bytes. It is released when the object is; any thread may do that.

    Raises `DeviceError` if there is no room."""

    def __init__(self, gpu: Device, size: int) -> None:
        self.gpu, self.number = gpu, gpu.keep(size)
        self.release = weakref.finalize(self, gpu.discard, self.number)
        self.release.atexit = False


class Held:
    """A dense tensor at the beginning of a buffer. `dtype` is that of its elements, `code` the same as a `dk_dtype`."""

    def __init__(self, buffer: Buffer, shape: tuple[int, ...], dtype: np.dtype[Any], code: int) -> None:
        self.shape, self.dtype, self.code = shape, dtype, code
        self._buffer = buffer

    @property
    def gpu(self) -> Device:
        return self._buffer.gpu

    @property
    def number(self) -> int:
        return self._buffer.number

    def describe(self, tensor: CTensor) -> None:
        """Describe it as an input of a run."""
        size = self.dtype.itemsize * int(np.prod(self.shape, dtype=np.int64))
        tensor.data, tensor.bytes, tensor.dtype, tensor.rank = ON_DEVICE, size, self.code, len(self.shape)
        tensor.shape[: len(self.shape)] = self.shape

    def read(self) -> np.ndarray:
        """A copy in host memory. Raises `DeviceError`, and `UsageError` if the device is closed."""
        array = np.empty(self.shape, self.dtype)
        self.gpu.read(self.number, array)
        return array

    def release(self) -> None:
        """Release the buffer. Neither this nor another run may use the value afterwards."""
        self._buffer.release()
