"""Measures the limits of this CPU with the loops in `peak.c`: floating-point operations and bytes per second.

Each limit is the best of many attempts, which are so short that some run undisturbed on a busy machine. Memory is read
piece by piece from arrays several times as large as the caches.
"""

from __future__ import annotations

import ctypes
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deploykit.basics.toolchain import find_c_compiler

_SOURCE = Path(__file__).with_name("peak.c")
_OPTIONS = ("-O3", "-march=native", "-ffp-contract=fast", "-fPIC")
_ATTEMPTS = 400
_ROUNDS = 200_000
_FLOATS, _PIECE = 64 << 20, 1 << 20
"""The number of floats in each array, and in a piece of it."""


@dataclass(frozen=True)
class Peak:
    """The limits on `threads` threads, per second: `flops` operations (a fused multiply-add is two), `read` bytes that
    a loop reads from memory, and `triad` bytes that a triad reads and writes.
    """

    threads: int
    flops: float
    read: float
    triad: float

    def seconds(self, flops: float, traffic: float) -> float:
        """The least time of this many operations and bytes, if the bytes come from memory."""
        return max(flops / self.flops, traffic / self.read)


def measure(threads: int = 1) -> Peak:
    """Measure the limits, in a few seconds. Raises `ToolchainError` if there is no C compiler."""
    library = _library()
    with ThreadPoolExecutor(threads) as pool:

        def best(work: Callable[[int, int], object]) -> float:
            """The least seconds in which all threads did the work once."""
            found = []
            for attempt in range(_ATTEMPTS):
                start = time.perf_counter()
                list(pool.map(work, range(threads), [attempt] * threads))
                found.append(time.perf_counter() - start)
            return min(found)

        compute = best(
            lambda *_: library.peak_fma(ctypes.c_int64(_ROUNDS), ctypes.c_float(0.999), ctypes.c_float(1e-3))
        )
        arrays = [np.ones(_FLOATS, np.float32) for _ in range(3)]
        pieces = _FLOATS // _PIECE
        count = ctypes.c_int64(_PIECE)

        def place(array: np.ndarray, thread: int, attempt: int) -> ctypes.c_void_p:
            """The address of the next piece. Pieces take turns, so that each has left the caches when it is reused."""
            return ctypes.c_void_p(array[(attempt * threads + thread) % pieces * _PIECE :].ctypes.data)

        read = best(lambda *at: library.peak_read(place(arrays[0], *at), count))
        triad = best(lambda *at: library.peak_triad(*(place(a, *at) for a in arrays), ctypes.c_float(0.5), count))
    moved = 4 * _PIECE * threads
    return Peak(threads, threads * library.peak_flops_per_round() * _ROUNDS / compute, moved / read, 3 * moved / triad)


def _library() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        made, linked = Path(folder) / "peak.o", Path(folder) / "peak.so"
        compiler = find_c_compiler()
        compiler.compile(_SOURCE, made, *_OPTIONS)
        compiler.link_shared([made], linked)
        library = ctypes.CDLL(str(linked))
    library.peak_flops_per_round.restype = ctypes.c_int64
    library.peak_fma.restype = library.peak_read.restype = ctypes.c_float
    library.peak_triad.restype = None
    return library
