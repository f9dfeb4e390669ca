"""A model's C interface through ctypes: the structs of `deploykit.h` and the functions of a shared library.

Each load uses a new file name, so that a rebuilt artifact at the same path is not mistaken for the loaded one.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
from pathlib import Path

from deploykit.basics.scratch import Scratch
from deploykit.errors import ArtifactError, UsageError

MAX_RANK = 16
ALIGNMENT = 64

DK_OK, DK_ERROR_SHAPE, DK_ERROR_DTYPE, DK_ERROR_BUFFER = range(4)
DK_ERROR_ARENA, DK_ERROR_CAPACITY, DK_ERROR_WEIGHTS, DK_ERROR_DATA, DK_ERROR_USAGE = range(4, 9)
DK_ERROR_CPU, DK_ERROR_DEVICE = 9, 10


class CTensor(ctypes.Structure):
    """`dk_tensor`."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
        ("dtype", ctypes.c_int),
        ("rank", ctypes.c_int32),
        ("shape", ctypes.c_int64 * MAX_RANK),
    )


class CNeed(ctypes.Structure):
    """`dk_need`."""

    _fields_ = (
        ("bytes", ctypes.c_int64),
        ("output", ctypes.c_int32),
        ("dim", ctypes.c_int32),
        ("extent", ctypes.c_int64),
    )


class CModel(ctypes.Structure):
    """`dk_model`."""

    _fields_ = (
        ("descriptor", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
        ("arena", ctypes.c_void_p),
        ("arena_bytes", ctypes.c_size_t),
        ("executor", ctypes.c_void_p),
        ("stop", ctypes.c_void_p),
        ("level", ctypes.c_int32),
        ("busy", ctypes.c_int32),
        ("refused", ctypes.c_int),
        ("need", CNeed),
        ("error", ctypes.c_char * 256),
    )


class CDescriptor(ctypes.Structure):
    """`dk_model_descriptor`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("input_count", ctypes.c_int32),
        ("output_count", ctypes.c_int32),
        ("dim_count", ctypes.c_int32),
        ("inputs", ctypes.c_void_p),
        ("outputs", ctypes.c_void_p),
        ("dims", ctypes.c_void_p),
        ("weights_bytes", ctypes.c_size_t),
        ("arena_least", ctypes.c_int64),
        ("model_bytes", ctypes.c_size_t),
    )


class CStream(ctypes.Structure):
    """The numbers of a `dk_stream` that are for callers."""

    _fields_ = (
        ("running", ctypes.c_int32),
        ("finished", ctypes.c_int32),
        ("ticket", ctypes.c_int32),
        ("failed", ctypes.c_int32),
    )


def model_struct(dim_count: int, *, states: bool, dynamic_bytes: int = 0, gpu_bytes: int = 0) -> type[ctypes.Structure]:
    """The struct of a model: a `dk_model`, then an int64 per dim, at least one, then the place of its `states`. That of
    a dynamic model ends with a `dk_stream` and has `dynamic_bytes` in all; that of a model on a GPU has `gpu_bytes` in
    all, of which the first ones are the place of its driver."""
    fields = [("base", CModel), ("dims", ctypes.c_int64 * max(dim_count, 1))]
    if states:
        fields += [("state", ctypes.c_void_p), ("state_bytes", ctypes.c_size_t)]
    if dynamic_bytes:
        known = ctypes.sizeof(CModel) + 8 * max(dim_count, 1) + ctypes.sizeof(CStream)
        fields += [("stream", CStream), ("queue", ctypes.c_byte * max(dynamic_bytes - known, 0))]
    if gpu_bytes:
        fields += [("driver", ctypes.c_void_p)]
        known = ctypes.sizeof(type("Known", (ctypes.Structure,), {"_fields_": fields}))
        fields += [("rest", ctypes.c_byte * (gpu_bytes - known))]
    return type("Model", (ctypes.Structure,), {"_fields_": fields})


class Library:
    """The C functions of the model with `prefix` in a shared library, which is never unloaded.

    Raises `ArtifactError` if the file cannot be loaded or has another interface.
    """

    def __init__(self, path: Path, prefix: str, shared_prefix: str, *, states: bool) -> None:
        """`shared_prefix` is the prefix of symbols that all functions of the model share; `states` says whether this
        function uses states."""
        self._handle = load(path)
        self._prefix, self._own = shared_prefix or prefix, prefix
        try:
            self.init = self.function("init", ctypes.c_int)
            self.bind = self.function("bind", ctypes.c_int)
            self.run = self.function("run", ctypes.c_int)
            self.output_shape = self.function("output_shape", ctypes.c_int)
            self.arena_bytes = self.function("arena_bytes", ctypes.c_int64)
            self.set_arena = self._handle.dk_set_arena
            if states:
                self.state_bytes = self.function("state_bytes", ctypes.c_int64)
                self.reset_state = self.function("reset_state", ctypes.c_int)
                self.set_state = self.function("set_state", ctypes.c_int)
                self.reset_state.argtypes = self.set_state.argtypes = (
                    *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t),
                )
            self.descriptor = CDescriptor.in_dll(self._handle, f"{prefix}_descriptor")
        except (AttributeError, ValueError) as error:
            raise ArtifactError(f"{path} does not hold the model '{prefix}': {error}") from error
        self.set_arena.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
        self.init.argtypes = (
            *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t),
            *(ctypes.c_void_p, ctypes.c_size_t),
        )

    def embedded_weights(self) -> int | None:
        """The address of the weights in the library; None if they are not part of it."""
        try:
            return ctypes.addressof(ctypes.c_char.in_dll(self._handle, f"{self._prefix}_weights"))
        except ValueError:
            return None

    def attach_profile(self, calls: ctypes.Array[ctypes.c_int64], nanoseconds: ctypes.Array[ctypes.c_int64]) -> None:
        """Count and time the steps of all runs from now on, in arrays with an element per step.

        The library must be compiled for profiling."""
        self._handle.dk_profile_attach(calls, nanoseconds, ctypes.c_int32(len(calls)))

    def follow_profile(self, step: int) -> None:
        """Write the number of each step to the int32 at this address when the step begins, too."""
        self._handle.dk_profile_follow(ctypes.c_void_p(step))

    def start_pool(self, threads: int) -> int:
        """Start a pool of `threads` threads; returns its address. Raises `UsageError` if the library has no threads, or
        if memory is short."""
        try:
            start = self._handle.dk_pool_start
        except AttributeError as error:
            raise UsageError("this artifact runs on one thread") from error
        start.restype = ctypes.c_void_p
        pool = start(ctypes.c_int(threads))
        if not pool:
            raise UsageError(f"no memory for a pool of {threads} threads")
        return int(pool)

    def executor(self, pool: int) -> int:
        function = self._handle.dk_pool_executor
        function.restype = ctypes.c_void_p
        return int(function(ctypes.c_void_p(pool)))

    def stop_pool(self, pool: int) -> None:
        self._handle.dk_pool_stop(ctypes.c_void_p(pool))

    def function(self, name: str, result: type[ctypes.c_int | ctypes.c_int64]) -> ctypes._NamedFuncPointer:
        """The function of the model with this name behind the prefix. Raises `AttributeError` if there is none."""
        function: ctypes._NamedFuncPointer = self._handle[f"{self._own}_{name}"]
        function.restype = result
        return function

    def table(self, name: str, count: int) -> bytes:
        """The first `count` bytes of the array of the model with this name behind the prefix. Raises `ArtifactError` if
        there is none."""
        try:
            return bytes((ctypes.c_ubyte * count).in_dll(self._handle, f"{self._own}_{name}"))
        except ValueError as error:
            raise ArtifactError(f"the library is of another version ({error}): build the model again") from error


class StreamCalls:
    """The functions of a dynamic model for instances that join while others run. The first argument is the model.

    Raises `ArtifactError` if the library was built without them."""

    def __init__(self, library: Library) -> None:
        try:
            self.submit = library.function("submit", ctypes.c_int)
            self.step = library.function("step", ctypes.c_int)
            self.take = library.function("take", ctypes.c_int)
        except AttributeError as error:
            raise ArtifactError(f"this artifact runs whole batches only ({error}): build the model again") from error
        self.cancel = library.function("cancel", ctypes.c_int)
        self.has_room = library.function("has_room", ctypes.c_int)


def load(path: Path) -> ctypes.CDLL:
    """Load a library through a link with a new name, because the loader recognises libraries by name."""
    with Scratch() as folder:
        link = Path(folder) / path.name
        link.symlink_to(path.resolve())
        try:
            return ctypes.CDLL(str(link), mode=os.RTLD_LOCAL | os.RTLD_NOW)
        except OSError as error:
            raise ArtifactError(_reason(path, str(error))) from error


def _reason(path: Path, error: str) -> str:
    """Why a library cannot be loaded, from the message of the loader."""
    missing = re.search(r"version [`']GLIBC_([0-9.]+)' not found", error)
    if missing is None:
        return f"{path} cannot be loaded: {error}"
    name, version = platform.libc_ver()
    here = f"{name} {version}" if name else "another C library"
    return f"{path} needs glibc {missing[1]}, and this system has {here}: build it on this system, or on an older one"
