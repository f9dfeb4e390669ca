"""The limits of this CPU as measured: floating-point operations and bytes a second, by the kernels in `peak.c`.

Each is the best of many attempts, short enough that some run undisturbed on a busy machine. Memory is read piece by
piece from arrays that are several times as large as the caches.
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

from deploykit.toolchain import find_c_compiler

_SOURCE = Path(__file__).with_name("peak.c")
_OPTIONS = ("-O3", "-march=native", "-ffp-contract=fast", "-fPIC")
_ATTEMPTS = 400
_ROUNDS = 200_000
_FLOATS, _PIECE = 64 << 20, 1 << 20
"""Of each array, and of a piece of it."""


@dataclass(frozen=True)
class Peak:
    """Operations a second (a fused multiply-add is two), and bytes a second that a loop reads from memory, and that a
    triad reads and writes.
    """

    threads: int
    flops: float
    read: float
    triad: float

    def seconds(self, flops: float, traffic: float) -> float:
        """What so many operations and bytes take at least, when the bytes come from memory."""
        return max(flops / self.flops, traffic / self.read)


def measure(threads: int = 1) -> Peak:
    """Takes a few seconds. Raises `ToolchainError` when there is no C compiler."""
    library = _library()
    with ThreadPoolExecutor(threads) as pool:

        def best(work: Callable[[int, int], object]) -> float:
            """The least seconds in which all threads do the work once."""
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
            """Pieces take turns, so that each has left the caches when it comes again."""
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
