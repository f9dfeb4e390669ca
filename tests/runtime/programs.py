"""Programs made by hand, step by step, with small kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tvm import s_tir, te, tirx

from deploykit.basics.dtypes import logical_dtype
from deploykit.compiler.codegen.shaders.lowering import shaders
from deploykit.compiler.devices.gpu import Gpu
from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.lowering.kernel import Kernel
from deploykit.compiler.lowering.lower import LoweredParts, lower
from deploykit.compiler.model import Dim, Port
from deploykit.compiler.program.assembly import laid_out
from deploykit.compiler.program.ir import (
    ALIGNMENT,
    Arena,
    ArenaStorage,
    Constant,
    ConstantStorage,
    Function,
    InputStorage,
    Launch,
    OutputStorage,
    Program,
    Slot,
    Step,
    Storage,
    Tensor,
)
from deploykit.compiler.program.residence import with_transfers


class Draft:
    """A program of one function under construction. Tensors are named by index, as in `Function`. Slots of the arena
    are never reused."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dims: list[Dim] = []
        self.inputs: list[Port] = []
        self.outputs: list[Port] = []
        self.tensors: list[Tensor] = []
        self.constants: list[Constant] = []
        self.kernels: list[tuple[tirx.PrimFunc, str]] = []
        self.slots: list[tuple[str, IntExpr]] = []

    def dim(self, name: str, minimum: int = 1, maximum: int | None = 100, capacity_of: str | None = None) -> tirx.Var:
        var = tirx.Var(name, "int64")
        self.dims.append(Dim(name, var, minimum, maximum, capacity_of))
        return var

    def input(self, name: str, dtype: str, shape: Sequence[IntExpr]) -> int:
        self.inputs.append(Port(name, dtype, tuple(shape)))
        return self._tensor(name, dtype, shape, InputStorage(len(self.inputs) - 1))

    def output(self, name: str, dtype: str, shape: Sequence[IntExpr]) -> int:
        self.outputs.append(Port(name, dtype, tuple(shape)))
        return self._tensor(name, dtype, shape, OutputStorage(len(self.outputs) - 1))

    def constant(self, name: str, data: np.ndarray) -> int:
        self.constants.append(Constant(name, data, 0))
        return self._tensor(name, str(data.dtype), data.shape, ConstantStorage(len(self.constants) - 1))

    def scratch(self, name: str, dtype: str, shape: Sequence[IntExpr], size: IntExpr) -> int:
        """An arena tensor; `size` in bytes bounds its slot."""
        self.slots.append((name, size))
        return self._tensor(name, dtype, shape, ArenaStorage(len(self.slots) - 1))

    def view(self, name: str, dtype: str, shape: Sequence[IntExpr], of: int) -> int:
        """Another tensor in the memory of `of`."""
        return self._tensor(name, dtype, shape, self.tensors[of].storage)

    def kernel(self, func: tirx.PrimFunc, name: str) -> int:
        self.kernels.append((func, name))
        return len(self.kernels) - 1

    def program(self, *steps: Step, gpu: Gpu | None = None) -> Program:
        """The program for a CPU, or for a GPU with the kernels that it can run."""
        alignment = ALIGNMENT if gpu is None else gpu.alignment
        kernels = [lower(func, name, vectorize=False).kernel for func, name in self.kernels]
        if gpu is not None:
            kernels = [_shader(*kernel, gpu) or other for kernel, other in zip(self.kernels, kernels, strict=True)]
        slots: list[Slot] = []
        end: IntExpr = 0
        for name, size in self.slots:
            slots.append(Slot(name, size, end, 0, 0))
            end = end + (size + (alignment - 1)) // alignment * alignment
        function = Function(
            name="main",
            dims=tuple(self.dims),
            inputs=tuple(self.inputs),
            outputs=tuple(self.outputs),
            tensors=tuple(self.tensors),
            steps=tuple(steps if gpu is None else with_transfers(steps, self.tensors, kernels)),
            arena=Arena(tuple(slots), end),
        )
        constants = tuple(laid_out(self.constants, alignment))
        return Program(self.name, (function,), constants, tuple(kernels), alignment=alignment, gpu=gpu)

    def _tensor(self, name: str, dtype: str, shape: Sequence[IntExpr], storage: Storage) -> int:
        self.tensors.append(Tensor(name, str(logical_dtype(dtype).storage), tuple(shape), storage))
        return len(self.tensors) - 1


def _shader(func: tirx.PrimFunc, name: str, gpu: Gpu) -> Kernel | None:
    """The function as a single shader, if it can be one."""
    found = shaders(func, name, gpu)
    return found.parts[0].kernel.kernel if isinstance(found, LoweredParts) and len(found.parts) == 1 else None


def elementwise(
    body: Callable[..., Any], *dtypes: str, result: str | None = None, parallel: bool = False, in_place: bool = False
) -> tirx.PrimFunc:
    """`y[i] = body(x0[i], ...)` over a symbolic `m`; a launch passes the element count."""
    m = tirx.Var("m", "int64")
    inputs = [te.placeholder((m,), dtype, name=f"x{i}") for i, dtype in enumerate(dtypes)]
    y = te.compute((m,), lambda i: body(*(x[i] for x in inputs)).astype(result or dtypes[0]), name="y")
    schedule = s_tir.Schedule(te.create_prim_func([*inputs, y]))
    if parallel:
        schedule.parallel(schedule.get_loops(schedule.get_sblock("y"))[0])
    func = schedule.mod["main"]
    return func.without_attr("tirx.noalias") if in_place else func


def matmul(k: int, n: int) -> tirx.PrimFunc:
    """`h[m, n] = x[m, k] w[k, n]` over a symbolic `m`."""
    m = tirx.Var("m", "int64")
    x, w = te.placeholder((m, k), "float32", name="x"), te.placeholder((k, n), "float32", name="w")
    axis = te.reduce_axis((0, k), "k")
    h = te.compute((m, n), lambda i, j: te.sum(x[i, axis] * w[axis, j], axis=axis), name="h")
    return te.create_prim_func([x, w, h])


Reference = Callable[[np.ndarray], np.ndarray]


def mlp(name: str = "mlp", maximum: int | None = 64) -> tuple[Program, Reference]:
    """`y = relu(x w + b) v` with a batch, and the same in NumPy. The ReLU is a parallel loop."""
    draft, steps, reference = mlp_steps(name, maximum)
    return draft.program(*steps), reference


def mlp_steps(name: str = "mlp", maximum: int | None = 64) -> tuple[Draft, tuple[Step, ...], Reference]:
    """The program of `mlp` as a draft and its steps, and the same in NumPy."""
    draft, random = Draft(name), np.random.default_rng(7)
    w = random.standard_normal((8, 4), dtype=np.float32)
    v = random.standard_normal((4, 3), dtype=np.float32)
    batch = draft.dim("batch", 1, maximum)
    x = draft.input("x", "float32", (batch, 8))
    y = draft.output("y", "float32", (batch, 3))
    weight, head = draft.constant("w", w), draft.constant("v", v)
    hidden = draft.scratch("hidden", "float32", (batch, 4), batch * 16)
    active = draft.scratch("active", "float32", (batch, 4), batch * 16)
    first = draft.kernel(matmul(8, 4), "matmul_8x4")
    relu = draft.kernel(
        elementwise(lambda a: tirx.max(a, tirx.const(0.0, "float32")), "float32", parallel=True), "relu"
    )
    second = draft.kernel(matmul(4, 3), "matmul_4x3")
    steps = (
        Launch(first, (x, weight, hidden), (batch,)),
        Launch(relu, (hidden, active), (batch * 4,)),
        Launch(second, (active, head, y), (batch,)),
    )
    return draft, steps, lambda data: np.maximum(data @ w, 0) @ v
