"""Builds kernels with both emitters, loads them and runs them on numpy arrays."""

from __future__ import annotations

import ctypes
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from tvm import s_tir, te, tirx

from deploykit.compiler.codegen.c_kernels import emit_c
from deploykit.compiler.codegen.lower import LoweredKernel, lower
from deploykit.compiler.codegen.cpus import host_cpu
from deploykit.compiler.codegen.native import emit_object

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from deploykit.compiler.program.ir import Kernel

PREFIX = "test"
WARNINGS = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]


def elementwise(
    body: Callable[..., object], dtypes: Sequence[str], *, vectorize: int | None = None
) -> tirx.PrimFunc:
    """`out[i] = body(a[i], b[i], ...)` over a symbolic `n`; with `vectorize`, over blocks of that many lanes."""
    n = tirx.Var("n", "int64")
    size = n if vectorize is None else n * vectorize
    inputs = [te.placeholder((size,), dtype, name=f"x{i}") for i, dtype in enumerate(dtypes)]
    out = te.compute((size,), lambda i: body(*(x[i] for x in inputs)), name="y")
    func = te.create_prim_func([*inputs, out])
    if vectorize is None:
        return func
    schedule = s_tir.Schedule(func)
    (loop,) = schedule.get_loops(schedule.get_sblock("y"))
    _, inner = schedule.split(loop, [None, vectorize])
    schedule.vectorize(inner)
    return schedule.mod["main"]


@dataclass(frozen=True)
class Library:
    """A loaded shared library of kernels."""

    handle: ctypes.CDLL

    def run(self, name: str, arrays: Sequence[np.ndarray], scalars: Sequence[int] = ()) -> None:
        """Call kernel `name` on the arrays in place."""
        function = self.handle[f"{PREFIX}_{name}"]
        function.restype = None
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in arrays]
        function(*pointers, *(ctypes.c_int64(s) for s in scalars))


def build_c(kernels: Sequence[Kernel], folder: Path, compiler: str = "gcc") -> Library:
    source = folder / "kernels.c"
    source.write_text(emit_c(kernels, PREFIX))
    library = folder / f"kernels_{compiler}.so"
    subprocess.run([compiler, *WARNINGS, "-O1", "-shared", "-fPIC", source, "-o", library, "-lm"], check=True)
    return Library(ctypes.CDLL(str(library)))


def build_native(kernels: Sequence[Kernel], folder: Path) -> Library:
    source, library = folder / "kernels.o", folder / "native.so"
    source.write_bytes(emit_object(kernels, PREFIX, host_cpu()))
    subprocess.run(["gcc", "-shared", source, "-o", library, "-lm"], check=True)
    return Library(ctypes.CDLL(str(library)))


BUILDERS: Mapping[str, Callable[[Sequence[Kernel], Path], Library]] = {"c": build_c, "native": build_native}


def build(functions: Mapping[str, tirx.PrimFunc], emitter: str, folder: Path) -> tuple[Library, dict[str, LoweredKernel]]:
    """Lower every function for the emitter and build one library of all."""
    lowered = {name: lower(func, name, vectorize=emitter == "native") for name, func in functions.items()}
    return BUILDERS[emitter]([k.kernel for k in lowered.values()], folder), lowered
