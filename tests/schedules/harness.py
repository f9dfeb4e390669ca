"""Runs one scheduled kernel: lowered, compiled to an object or as C, called with numpy arrays."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm_ffi
from tvm import ir, sym, tirx

from deploykit.compiler.codegen.c_kernels import emit_c
from deploykit.compiler.codegen.lower import HOST_STACK_LIMIT, lower
from deploykit.compiler.codegen.native import emit_object, host_cpu
from deploykit.compiler.schedules import Device, schedule


class Compiled:
    """A scheduled kernel as a callable; arrays and integers are passed in the order of the parameters."""

    def __init__(self, func: tirx.PrimFunc, device: Device) -> None:
        self.func = schedule(func, device)
        scalar = device.vector_bits == 0
        lowered = lower(
            self.func, "kernel", vectorize=not scalar, **({} if scalar else {"stack_limit": HOST_STACK_LIMIT})
        )
        self._lowered = lowered
        self._library = _link_c(emit_c([lowered.kernel], "t")) if scalar else _link(lowered.kernel)

    def bind(self, arguments: Sequence[np.ndarray | int]) -> Callable[[], None]:
        """A call of the kernel."""
        values: dict[Any, int] = {}
        for param, argument in zip(self.func.params, arguments, strict=True):
            if isinstance(argument, int):
                values[param] = argument
                continue
            assert argument.flags.c_contiguous
            assert str(argument.dtype) == str(param.dtype), (argument.dtype, param.dtype)
            for extent, size in zip(param.shape, argument.shape, strict=True):
                if isinstance(extent, ir.Var):
                    values[extent] = size
        arrays = [argument for argument in arguments if not isinstance(argument, int)]
        lowered = self._lowered
        scratch = [
            np.empty(max(1, int(np.prod([_evaluate(e, values) for e in w.shape]))), w.dtype) for w in lowered.workspaces
        ]
        numbers = [values[var] for var in lowered.scalars]
        if lowered.kernel.parallel_extent is not None:
            numbers += [0, _evaluate(lowered.kernel.parallel_extent, values)]
        arguments = [ctypes.c_void_p(a.ctypes.data) for a in (*arrays, *scratch)]
        arguments += [ctypes.c_int64(n) for n in numbers]
        function = self._library.t_kernel
        function.restype = None
        keep = (arrays, scratch)

        def call() -> None:
            assert keep
            function(*arguments)

        return call


def _evaluate(expression: Any, values: dict[Any, int]) -> int:
    if isinstance(expression, int):
        return expression
    known = tvm_ffi.structural_map(
        expression, (ir.Var, lambda var: tirx.IntImm("int64", values[var]) if var in values else var)
    )
    return int(sym.Analyzer().simplify(known))


def _link(kernel: Any) -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        object_file = Path(folder) / "k.o"
        object_file.write_bytes(emit_object([kernel], "t", host_cpu()))
        subprocess.run(["cc", "-shared", "-o", f"{folder}/k.so", str(object_file), "-lm"], check=True)
        return ctypes.CDLL(f"{folder}/k.so")


def _link_c(source: str) -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "k.c").write_text(source)
        flags = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wno-unused-variable"]
        subprocess.run(["cc", *flags, "-shared", "-fPIC", "-o", f"{folder}/k.so", f"{folder}/k.c", "-lm"], check=True)
        return ctypes.CDLL(f"{folder}/k.so")
