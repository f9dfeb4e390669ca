"""Opens GPUs through the drivers in an artifact's library: the structs of `gpu.h` through ctypes."""

from __future__ import annotations

import ctypes
import os
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deploykit.artifact.devices import CODE, ON_GPU
from deploykit.basics.caches import cache_folder
from deploykit.engines import failure
from deploykit.engines.lanes import Lanes
from deploykit.engines.native.library import DK_OK
from deploykit.errors import DeviceError, UsageError

FEATURES = {1: "float16", 2: "subgroups", 4: "dot products"}
"""`DK_GPU_...`: what kernels have forms for."""

KINDS = ("other", "integrated", "discrete", "software")
"""`dk_gpu_kind`."""

_STATES = 2
"""`DK_BUFFER_STATES`."""

_TEXT = 256


class CProgram(ctypes.Structure):
    """`dk_gpu_program`."""

    _fields_ = (
        ("kernels", ctypes.c_void_p),
        ("kernel_count", ctypes.c_int32),
        ("workgroup", ctypes.c_int32),
        ("groups", ctypes.c_int32),
        ("start_count", ctypes.c_int32),
        ("starts", ctypes.c_void_p),
        ("first_weight", ctypes.c_int64),
        ("weights_bytes", ctypes.c_int64),
        ("code_bytes", ctypes.c_int64),
        ("code_hash", ctypes.c_uint64),
        ("packed_bytes", ctypes.c_int64),
    )


class COptions(ctypes.Structure):
    """`dk_gpu_options`."""

    _fields_ = (
        ("library", ctypes.c_char_p),
        ("cache", ctypes.c_char_p),
        ("adapter", ctypes.c_int32),
        ("without", ctypes.c_uint32),
        ("buffer_bytes", ctypes.c_int64),
        ("binding_bytes", ctypes.c_int64),
    )


class CAdapter(ctypes.Structure):
    """`dk_gpu_adapter`."""

    _fields_ = (
        ("name", ctypes.c_char * 128),
        ("driver", ctypes.c_char * 128),
        ("kind", ctypes.c_int),
        ("features", ctypes.c_uint32),
        ("subgroup", ctypes.c_int32),
        ("memory_bytes", ctypes.c_int64),
        ("buffer_bytes", ctypes.c_int64),
        ("binding_bytes", ctypes.c_int64),
        ("unusable", ctypes.c_char_p),
    )


class CDriver(ctypes.Structure):
    """`dk_driver`."""

    _fields_ = (
        ("binding_bytes", ctypes.c_int64),
        ("error", ctypes.c_char_p),
        *((name, ctypes.c_void_p) for name in ("dispatch", "copy", "upload", "download", "wait", "restart", "provide")),
        ("kept", ctypes.c_void_p),
        ("uploaded", ctypes.c_int64),
        ("downloaded", ctypes.c_int64),
    )


class CGpu(ctypes.Structure):
    """`dk_gpu`."""

    _fields_ = (
        ("driver", CDriver),
        ("adapter", CAdapter),
        ("load", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)),
        ("clear", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64)),
        ("keep", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)),
        ("read", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p)),
        ("discard", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32)),
        ("profile", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32)),
        ("times", ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32)),
        ("close", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        ("step", ctypes.c_int32),
    )


@dataclass(frozen=True)
class GpuOptions:
    """What a caller chooses: `adapter` is the number of one, from 1 on, or 0 for the best. `library` replaces the
    system's library. `without` are features, as bits, whose forms are not used. Limits of 0 are those of the
    device."""

    adapter: int = 0
    library: str | None = None
    without: int = 0
    buffer_bytes: int = 0
    binding_bytes: int = 0


def chosen(device: str) -> tuple[str, GpuOptions]:
    """The driver and the adapter that a text such as `vulkan` or `vulkan:2` stands for. Raises `UsageError` if it is
    malformed."""
    driver, colon, number = device.partition(":")
    if colon and not (number.isdecimal() and int(number) > 0):
        raise UsageError(f"cannot read the device '{device}': write {driver}, or {driver}:1 for its first adapter")
    return driver, GpuOptions(adapter=int(number) if colon else 0)


class Gpu:
    """An open device with the kernels of one model, which all functions of the model share. It serves one thread at a
    time: those that use it take turns (`turn`).

    Raises `DeviceError` if it cannot be opened."""

    def __init__(self, handle: ctypes.CDLL, prefix: str, driver: str, folder: Path, options: GpuOptions) -> None:
        """`handle` is the library of the model with `prefix`."""
        program = CProgram.in_dll(handle, f"{prefix}{ON_GPU}_{driver}")
        code = (folder / CODE[driver]).read_bytes()
        if len(code) != (program.packed_bytes or program.code_bytes):
            raise DeviceError(f"{driver}: {folder / CODE[driver]} is damaged, or of another build than the library")
        error = ctypes.create_string_buffer(_TEXT)
        given = COptions(
            library=options.library and os.fsencode(options.library),
            cache=_cache(driver, program.code_hash),
            adapter=options.adapter,
            without=options.without,
            buffer_bytes=options.buffer_bytes,
            binding_bytes=options.binding_bytes,
        )
        function: Any = handle[f"dk_{driver}_open"]
        function.restype = ctypes.POINTER(CGpu)
        found = function(ctypes.byref(program), code, ctypes.byref(given), error, ctypes.c_size_t(_TEXT))
        if not found:
            raise DeviceError(f"{driver}: {error.value.decode(errors='replace')}")
        self.address: int = ctypes.cast(found, ctypes.c_void_p).value or 0
        self.first_weight, self.weights_bytes = int(program.first_weight), int(program.weights_bytes)
        self._gpu: CGpu | None = found.contents
        self._discarded: deque[int] = deque()
        self._process = os.getpid()
        self._turns = Lanes(self._here)

    def turn(self) -> AbstractContextManager[int]:
        """A block in which no other thread uses the device. Raises `ClosedError`, and `DeviceError` in a process that
        was forked after the device was opened."""
        return self._turns.one()

    @property
    def name(self) -> str:
        """The name of the adapter."""
        return bytes(self._open.adapter.name).decode("utf-8", "replace")

    @property
    def features(self) -> int:
        """The features whose forms are used, as bits."""
        return int(self._open.adapter.features)

    def load(self, weights: int) -> None:
        """Copy the weights at this address to the device. Raises `DeviceError`."""
        self._check(self._open.load(self.address, weights))

    def clear_states(self, size: int) -> None:
        """Make the states anew: `size` bytes of zeros. Raises `DeviceError`."""
        self._check(self._open.clear(self.address, _STATES, size))

    def keep(self, size: int) -> int:
        """A buffer for a value of `size` bytes that stays on the device; returns its number. Raises `DeviceError`."""
        self._sweep()
        number = ctypes.c_int32()
        self._check(self._open.keep(self.address, size, ctypes.addressof(number)))
        return number.value

    def discard(self, number: int) -> None:
        """Release a buffer before the next value is kept. Any thread may call this, at any time."""
        self._discarded.append(number)

    def _sweep(self) -> None:
        while self._discarded:
            self._open.discard(self.address, self._discarded.popleft())

    def read(self, number: int, array: np.ndarray) -> None:
        """Copy what a buffer keeps to an array. Raises `DeviceError`, and `UsageError` if the device is closed."""
        if self._gpu is None:
            raise UsageError("the session of a value on the device is closed: take its numpy() before")
        with self.turn():
            self._check(self._gpu.read(self.address, number, array.nbytes, array.ctypes.data))

    @contextmanager
    def binding(self, kept: ctypes.Array[ctypes.c_int32]) -> Iterator[None]:
        """Let runs find inputs and leave outputs in these buffers (`dk_driver.kept`)."""
        self._open.driver.kept = ctypes.addressof(kept)
        try:
            yield
        finally:
            self._open.driver.kept = None

    @property
    def transferred(self) -> tuple[int, int]:
        """The bytes of tensors that runs have sent to the device and back so far."""
        driver = self._open.driver
        return driver.uploaded, driver.downloaded

    @property
    def step(self) -> int:
        """The address of the number of the step that makes the next calls."""
        return self.address + CGpu.step.offset

    def profile(self, *, on: bool) -> None:
        """Measure how long operations take from now on, or stop doing so."""
        self._open.profile(self.address, on)

    def times(self) -> tuple[np.ndarray, np.ndarray]:
        """The step and the nanoseconds of each operation since the last call."""
        count = self._open.times(self.address, None, None, 0)
        steps, nanoseconds = np.empty(count, np.int32), np.empty(count, np.float64)
        if count:
            self._open.times(self.address, nanoseconds.ctypes.data, steps.ctypes.data, count)
        return steps, nanoseconds

    def close(self) -> None:
        self._turns.close()
        if self._gpu is not None and self._process == os.getpid():
            self._gpu.close(self.address)
        self._gpu = None

    def __del__(self) -> None:
        if hasattr(self, "_turns") and self._turns.idle:
            self.close()

    def _here(self) -> int:
        """The address of the device, which cannot be used in another process."""
        if self._process != os.getpid():
            raise DeviceError("a device cannot be used in a forked process: open the session there")
        return self.address

    @property
    def _open(self) -> CGpu:
        assert self._gpu is not None, "the device is closed"
        return self._gpu

    def _check(self, status: int) -> None:
        if status != DK_OK:
            text = self._open.driver.error or b"the device failed"
            raise failure(status, text.decode(errors="replace"))


def _cache(driver: str, code_hash: int) -> bytes | None:
    """The path of the file that keeps compiled kernels."""
    folder = cache_folder()
    return None if folder is None else os.fsencode(folder / f"{driver}-{code_hash:016x}.bin")


def listed(handle: ctypes.CDLL, driver: str) -> tuple[Sequence[CAdapter], str]:
    """The adapters that a driver finds, and why there are none."""
    most = 16
    found = (CAdapter * most)()
    error = ctypes.create_string_buffer(_TEXT)
    count = handle[f"dk_{driver}_adapters"](None, found, most, error, ctypes.c_size_t(_TEXT))
    return found[: min(count, most)], error.value.decode(errors="replace")
