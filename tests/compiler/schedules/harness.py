"""Runs scheduled kernels: lowers them, compiles them to an object or as C, and calls them.

The arrays of a call end at a protected page, so that an access behind the end crashes. `run` takes a Relax module whose
`main` consists of kernels and of operators that `legalize` knows, fuses its kernels, and computes its result.
"""

from __future__ import annotations

import ctypes
import mmap
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import ir, relax, sym, tirx

from deploykit.compiler.codegen.c.kernels import emit_c
from deploykit.compiler.codegen.native.cpus import host_cpu
from deploykit.compiler.codegen.native.objects import emit_object
from deploykit.compiler.graph.legalize import legalize
from deploykit.compiler.lowering.lower import HOST_STACK_LIMIT, lower
from deploykit.compiler.schedules import DEVICES, Device, schedule

VECTORS, SCALAR = DEVICES["x86-64-v3"], DEVICES["scalar-c"]
BOTH = (VECTORS, SCALAR)
BY_ELEMENT = replace(VECTORS, name="by-element", by_element=True)
"""A device whose products take their left factors from vectors."""
LOADS_FIRST = replace(VECTORS, name="loads-first", loads_first=True)
"""A device whose tiles have registers for all factors of a step."""
SPELLED = replace(SCALAR, name="spelled", float_sums=20)
"""A device without vectors, but with registers for sums of floats."""

Argument = np.ndarray | int
Rule = Callable[[tirx.PrimFunc, Device], tirx.PrimFunc]

_libc = ctypes.CDLL(None, use_errno=True)


def tiles_permitted() -> bool:
    """Whether this process may use the tile registers of AMX. It asks for them, as `runtime/host/cpu.c` does."""
    arch_prctl, req_xcomp_perm, tile_data = 158, 0x1023, 18
    asked = {"amx-tile", "amx-bf16", "amx-int8"} <= set(host_cpu().requires)
    return asked and _libc.syscall(arch_prctl, req_xcomp_perm, tile_data) == 0


TILES = pytest.param(
    DEVICES["x86-64-v4-amx"],
    marks=pytest.mark.skipif(not tiles_permitted(), reason="this machine has no AMX"),
)
"""A device whose products are computed in tile registers."""


def fenced(array: np.ndarray) -> np.ndarray:
    """A copy of `array` that ends directly before a protected page."""
    pages = -(-max(array.nbytes, 1) // mmap.PAGESIZE) + 1
    memory = mmap.mmap(-1, pages * mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    end = (pages - 1) * mmap.PAGESIZE
    assert _libc.mprotect(ctypes.c_void_p(address + end), mmap.PAGESIZE, 0) == 0
    start = end - array.nbytes
    copy = np.frombuffer(memory, array.dtype, array.size, start).reshape(array.shape)
    copy[...] = array
    return copy


class Compiled:
    """A compiled kernel. It takes arrays and integers in the order of its parameters. `rule` schedules it."""

    def __init__(self, func: tirx.PrimFunc, device: Device, rule: Rule = schedule) -> None:
        self.func = rule(func, device)
        scalar = device.vector_bits == 0
        limit = {} if scalar else {"stack_limit": HOST_STACK_LIMIT}
        self._lowered = lower(self.func, "kernel", vectorize=not scalar, **limit)
        kernel = self._lowered.kernel
        library = _link_c(emit_c([kernel], "t")) if scalar else _link_object(emit_object([kernel], "t", host_cpu()))
        self._function = library.t_kernel
        self._function.restype = None

    @property
    def workspaces(self) -> tuple[Any, ...]:
        """Scratch memory that a call needs."""
        return self._lowered.workspaces

    def bind(self, arguments: Sequence[Argument]) -> Callable[[], None]:
        """A function that calls the kernel. The values of symbolic dims are taken from the shapes of the arrays."""
        arrays = [argument for argument in arguments if isinstance(argument, np.ndarray)]
        values = self._dims(arguments)
        scratch = [np.empty(max(1, _size(w.shape, values)), w.dtype) for w in self._lowered.workspaces]
        numbers = [values[var] for var in self._lowered.scalars]
        if self._lowered.kernel.parallel_extent is not None:
            numbers += [0, evaluate(self._lowered.kernel.parallel_extent, values)]
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in (*arrays, *scratch)]
        passed = [*pointers, *(ctypes.c_int64(number) for number in numbers)]

        def call() -> None:
            self._function(*passed)
            assert len(arrays) + len(scratch) == len(pointers)

        return call

    def _dims(self, arguments: Sequence[Argument]) -> dict[Any, int]:
        values: dict[Any, int] = {}
        for param, argument in zip(self.func.params, arguments, strict=True):
            if isinstance(argument, int):
                values[param] = argument
                continue
            assert argument.flags.c_contiguous
            assert str(argument.dtype) == str(param.dtype), (argument.dtype, param.dtype)
            pairs = zip(param.shape, argument.shape, strict=True)
            values |= {extent: size for extent, size in pairs if isinstance(extent, ir.Var)}
        return values


def evaluate(expression: Any, values: Mapping[Any, int]) -> int:
    """The value of an integer expression for these values of its variables."""
    if isinstance(expression, int):
        return expression

    def known(var: Any) -> Any:
        return tirx.IntImm("int64", values[var]) if var in values else var

    return int(sym.Analyzer().simplify(tvm_ffi.structural_map(expression, (ir.Var, known))))


def _size(shape: Sequence[Any], values: Mapping[Any, int]) -> int:
    return int(np.prod([evaluate(extent, values) for extent in shape]))


def _link_object(contents: bytes) -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "k.o").write_bytes(contents)
        subprocess.run(["cc", "-shared", "-o", f"{folder}/k.so", f"{folder}/k.o", "-lm"], check=True)
        return ctypes.CDLL(f"{folder}/k.so")


def _link_c(source: str) -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "k.c").write_text(source)
        flags = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
        subprocess.run(["cc", *flags, "-shared", "-fPIC", "-o", f"{folder}/k.so", f"{folder}/k.c", "-lm"], check=True)
        return ctypes.CDLL(f"{folder}/k.so")


def module(params: Sequence[tuple[str, Sequence[Any], str]], body: Callable[..., relax.Expr]) -> ir.IRModule:
    """A module whose `main` has these parameters (name, shape, dtype) and emits `body(builder, *params)`."""
    builder = relax.BlockBuilder()
    variables = [relax.Var(name, relax.TensorType(shape, dtype)) for name, shape, dtype in params]
    with builder.function("main", variables):
        with builder.dataflow():
            result = builder.emit_output(body(builder, *variables))
        builder.emit_func_output(result)
    return builder.get()


class Model:
    """A module compiled for a device. `rule` schedules its kernels; `options` are those of `legalize`."""

    def __init__(self, mod: ir.IRModule, device: Device, rule: Rule = schedule, **options: Any) -> None:
        fuse = [relax.transform.AnnotateTIROpPattern(), relax.transform.FuseOps(2), relax.transform.FuseTIR()]
        self.mod = tvm.ir.transform.Sequential(fuse)(legalize(mod, device, **options))
        self.main = self.mod["main"]
        self.kernels = {
            name.name_hint: Compiled(func, device, rule)
            for name, func in self.mod.functions.items()
            if isinstance(func, tirx.PrimFunc)
        }

    def __call__(self, *inputs: np.ndarray) -> np.ndarray:
        dims: dict[Any, int] = {}
        environment: dict[Any, np.ndarray] = {}
        for param, array in zip(self.main.params, inputs, strict=True):
            environment[param] = fenced(array)
            pairs = zip(param.ty.shape.values, array.shape, strict=True)
            dims |= {extent: size for extent, size in pairs if isinstance(extent, ir.Var)}
        for binding in (binding for block in self.main.body.blocks for binding in block.bindings):
            environment[binding.var] = self._evaluate(binding.value, environment, dims)
        return environment[binding.var]

    def _evaluate(self, value: Any, environment: Mapping[Any, np.ndarray], dims: Mapping[Any, int]) -> np.ndarray:
        if isinstance(value, ir.Var):
            return environment[value]
        if value.op.name == "relax.reshape":
            shape = [evaluate(extent, dims) for extent in value.ty.shape.values]
            return fenced(environment[value.args[0]].reshape(shape))
        assert value.op.name == "relax.call_tir"
        arguments = [_argument(field, environment, dims) for field in value.args[1].fields]
        shape = [evaluate(extent, dims) for extent in value.ty.shape.values]
        result = fenced(np.full(shape, 7, str(value.ty.dtype)))
        self.kernels[value.args[0].name_hint].bind([*arguments, result])()
        return result


def _argument(field: Any, environment: Mapping[Any, np.ndarray], dims: Mapping[Any, int]) -> Argument:
    if ir.is_prim_expr(field):
        return evaluate(field, dims)
    return environment[field] if isinstance(field, ir.Var) else fenced(field.value.numpy())
