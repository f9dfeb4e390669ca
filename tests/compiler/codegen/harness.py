"""Builds kernels with both emitters and runs them on NumPy arrays.

`build` makes a shared library that is called in this process. `run_program` compiles the C kernels into a program whose
buffers have exactly the bytes that they need, so that sanitizers see every access out of bounds.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from tvm import s_tir, te, tirx

from deploykit.compiler.codegen.c.kernels import emit_c
from deploykit.compiler.codegen.c.types import storage_type
from deploykit.compiler.codegen.native.cpus import host_cpu
from deploykit.compiler.codegen.native.objects import emit_object
from deploykit.compiler.lowering.lower import LoweredKernel, lower

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from deploykit.compiler.lowering.kernel import Kernel

PREFIX = "test"
WARNINGS = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g1")
COMPILERS = {"gcc": ("gcc",), "clang": (sys.executable, "-m", "ziglang", "cc")}


def elementwise(body: Callable[..., object], dtypes: Sequence[str], *, lanes: int | None = None) -> tirx.PrimFunc:
    """`y[i] = body(x0[i], x1[i], ...)` for `n` elements, with a symbolic `n`; with `lanes`, for `n` vectors of that
    many lanes."""
    n = tirx.Var("n", "int64")
    size = n if lanes is None else n * lanes
    inputs = [te.placeholder((size,), dtype, name=f"x{i}") for i, dtype in enumerate(dtypes)]
    out = te.compute((size,), lambda i: body(*(x(i) for x in inputs)), name="y")
    func = te.create_prim_func([*inputs, out])
    if lanes is None:
        return func
    schedule = s_tir.Schedule(func)
    (loop,) = schedule.get_loops(schedule.get_sblock("y"))
    _, inner = schedule.split(loop, [None, lanes])
    schedule.vectorize(inner)
    return schedule.mod["main"]


@dataclass(frozen=True)
class Call:
    """One call of a kernel: the arrays for its pointers, then its integers."""

    kernel: str
    arrays: tuple[np.ndarray, ...]
    scalars: tuple[int, ...] = ()


@dataclass(frozen=True)
class Library:
    """A loaded shared library of kernels."""

    handle: ctypes.CDLL
    lowered: Mapping[str, LoweredKernel]

    def run(self, kernel: str, arrays: Sequence[np.ndarray], scalars: Sequence[int] = ()) -> None:
        """Call a kernel on the arrays in place."""
        function = self.handle[f"{PREFIX}_{kernel}"]
        function.restype = None
        assert all(array.flags.c_contiguous for array in arrays)
        pointers = (ctypes.c_void_p(array.ctypes.data) for array in arrays)
        function(*pointers, *(ctypes.c_int64(scalar) for scalar in scalars))


def compile_c(source: Path, output: Path, *flags: str, compiler: str = "gcc") -> None:
    command = [*COMPILERS[compiler], *WARNINGS, *flags, str(source), "-o", str(output), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def build_c(kernels: Sequence[Kernel], folder: Path) -> Path:
    source, library = folder / "kernels.c", folder / "kernels.so"
    source.write_text(emit_c(kernels, PREFIX))
    compile_c(source, library, "-O1", "-shared", "-fPIC")
    return library


def build_native(kernels: Sequence[Kernel], folder: Path) -> Path:
    source, library = folder / "kernels.o", folder / "native.so"
    source.write_bytes(emit_object(kernels, PREFIX, host_cpu()))
    subprocess.run(["gcc", "-shared", "-Wl,-z,text", source, "-o", library, "-lm"], check=True)
    return library


EMITTERS = {"c": build_c, "native": build_native}


def build(functions: Mapping[str, tirx.PrimFunc], emitter: str, folder: Path, *, stack_limit: int = 1024) -> Library:
    """Lower every function for the emitter and build one library with all of them."""
    lowered = {
        name: lower(func, name, vectorize=emitter == "native", stack_limit=stack_limit)
        for name, func in functions.items()
    }
    path = EMITTERS[emitter]([k.kernel for k in lowered.values()], folder)
    return Library(ctypes.CDLL(str(path)), lowered)


def run_program(
    functions: Mapping[str, tirx.PrimFunc], calls: Sequence[Call], folder: Path, *flags: str
) -> list[list[np.ndarray]]:
    """Make the calls in a separate C program. Returns the arrays of each call after it."""
    kernels = [lower(func, name, vectorize=False).kernel for name, func in functions.items()]
    source, program, data = folder / "program.c", folder / "program", folder / "data"
    source.write_text(emit_c(kernels, PREFIX) + _main(calls))
    compile_c(source, program, *flags)
    data.write_bytes(b"".join(array.tobytes() for call in calls for array in call.arrays))
    done = subprocess.run([program, data], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    stream, offset, results = done.stdout, 0, []
    for call in calls:
        results.append([])
        for array in call.arrays:
            results[-1].append(np.frombuffer(stream, array.dtype, array.size, offset).reshape(array.shape))
            offset += array.nbytes
    return results


def _main(calls: Sequence[Call]) -> str:
    lines = ["#include <stdio.h>", "#include <stdlib.h>", "int main(int argc, char **argv) {"]
    lines.append('    FILE *data = argc == 2 ? fopen(argv[1], "rb") : NULL;')
    for number, call in enumerate(calls):
        names = [f"b{number}_{i}" for i in range(len(call.arrays))]
        for name, array in zip(names, call.arrays, strict=True):
            c_type = storage_type(str(array.dtype))
            lines.append(f"    {c_type} *{name} = malloc({array.nbytes});")
            lines.append(f"    if ({array.nbytes} != 0 && fread({name}, {array.nbytes}, 1, data) != 1) return 1;")
        args = ", ".join([*names, *map(str, call.scalars)])
        lines.append(f"    {PREFIX}_{call.kernel}({args});")
        for name, array in zip(names, call.arrays, strict=True):
            lines.append(f"    fwrite({name}, 1, {array.nbytes}, stdout);")
            lines.append(f"    free({name});")
    return "\n".join([*lines, "    return data == NULL || fclose(data);", "}", ""])
