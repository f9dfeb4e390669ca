"""A program as text that a person reads: dims, tensors with their places, steps in order."""

from __future__ import annotations

from collections.abc import Sequence

from deploykit.compiler.dims import to_text
from deploykit.compiler.model import Port
from deploykit.compiler.program.ir import (
    ArenaStorage,
    BindDim,
    Check,
    CheckIndices,
    ConstantStorage,
    Copy,
    CopySlice,
    If,
    InputStorage,
    Launch,
    Loop,
    OutputStorage,
    Program,
    Reserve,
    SetDim,
    Step,
    Tensor,
    Transfer,
)


def listing(program: Program) -> str:
    """The whole program, a line a fact."""
    lines = [f"program {program.name}", ""]
    lines += [f"dim    {d.name} in {d.minimum}..{'' if d.maximum is None else d.maximum}" for d in program.dims]
    lines += [f"input  {_port(p)}" for p in program.inputs]
    lines += [f"output {_port(p)}" for p in program.outputs]
    lines += ["", f"arena  {to_text(program.arena.size)} bytes", ""]
    lines += _block(program, program.steps, 0)
    return "\n".join(lines) + "\n"


def shape_text(shape: Sequence[object]) -> str:
    """`[batch, 3, 224]`"""
    return "[" + ", ".join(to_text(n) for n in shape) + "]"


def _port(port: Port) -> str:
    return f"{port.name}: {port.dtype}{shape_text(port.shape)}"


def _place(program: Program, tensor: Tensor) -> str:
    storage = tensor.storage
    if isinstance(storage, ArenaStorage):
        return f"arena[{storage.slot}]"
    if isinstance(storage, ConstantStorage):
        return f"weights+{program.constants[storage.index].offset}"
    if isinstance(storage, InputStorage):
        return f"input {program.inputs[storage.index].name}"
    assert isinstance(storage, OutputStorage)
    return f"output {program.outputs[storage.index].name}"


def _tensor(program: Program, index: int) -> str:
    tensor = program.tensors[index]
    return f"{tensor.name}: {tensor.dtype}{shape_text(tensor.shape)} @ {_place(program, tensor)}"


def _block(program: Program, steps: Sequence[Step], depth: int) -> list[str]:
    lines: list[str] = []
    for step in steps:
        lines += [f"{'    ' * depth}{line}" for line in _step(program, step)]
    return lines


def _step(program: Program, step: Step) -> list[str]:
    if isinstance(step, Launch):
        written = len(step.tensors) - step.outputs - step.workspaces
        names = [program.tensors[t].name for t in step.tensors[:written]]
        call = f"{program.kernels[step.kernel].name}({', '.join([*names, *(to_text(s) for s in step.scalars)])})"
        return [f"{_tensor(program, step.tensors[written])} = {call}"]
    if isinstance(step, Copy):
        return [f"{_tensor(program, step.target)} = copy {program.tensors[step.source].name}"]
    if isinstance(step, CopySlice):
        return [f"{program.tensors[step.target].name}[{to_text(step.row)}] = {program.tensors[step.source].name}"]
    if isinstance(step, Transfer):
        moved = ", ".join(program.tensors[t].name for t in step.tensors)
        return [f"{'upload' if step.to_gpu else 'download'} {moved}"]
    if isinstance(step, BindDim):
        return [f"bind {step.var.name} = {program.tensors[step.tensor].name}[{step.index}]"]
    if isinstance(step, SetDim):
        return [f"set {step.var.name} = {to_text(step.value)}"]
    if isinstance(step, Check):
        return [f"check {to_text(step.condition)}"]
    if isinstance(step, CheckIndices):
        bounds = ", ".join(f"{to_text(low)}..{to_text(high)}" for low, high in step.bounds)
        return [f"check {program.tensors[step.tensor].name} in {bounds}"]
    if isinstance(step, Reserve):
        return [f"reserve {to_text(step.bytes_needed)} bytes for {step.what}"]
    if isinstance(step, If):
        then, otherwise = _block(program, step.then, 1), _block(program, step.otherwise, 1)
        return [f"if {program.tensors[step.condition].name}", *then, "else", *otherwise]
    assert isinstance(step, Loop)
    trips = "" if step.trips is None else f" in 0..{to_text(step.trips)}"
    test = "" if step.condition is None else f" while {program.tensors[step.condition].name}"
    return [f"loop {step.index.name}{trips}{test}", *_block(program, step.body, 1)]
