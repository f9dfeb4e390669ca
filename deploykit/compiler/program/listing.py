"""Prints a program as text for people: dims, tensors with their places, steps in order."""

from __future__ import annotations

from collections.abc import Sequence

from deploykit.compiler.dims import to_text
from deploykit.compiler.model import Port
from deploykit.compiler.program.ir import (
    ArenaStorage,
    BindDim,
    Call,
    Check,
    CheckIndices,
    ConstantStorage,
    Copy,
    CopySlice,
    Function,
    If,
    InputStorage,
    Launch,
    Loop,
    OutputStorage,
    Program,
    Reserve,
    RunInstances,
    SetDim,
    StateStorage,
    Step,
    Tensor,
    Transfer,
)


def listing(program: Program) -> str:
    """The whole program, one fact per line."""
    lines = [f"program {program.name}", ""]
    for port, offset in zip(program.states.tensors, program.states.offsets, strict=True):
        lines.append(f"state  {_port(port)} @ state+{to_text(offset)}")
    lines += [f"states {to_text(program.states.size)} bytes"] if program.states.tensors else []
    for function in program.functions:
        lines += ["", f"function {function.name}", ""] if len(program.functions) > 1 else []
        lines += _function(program, function)
    return "\n".join(lines) + "\n"


def _function(program: Program, function: Function) -> list[str]:
    lines = [f"dim    {d.name} in {d.minimum}..{'' if d.maximum is None else d.maximum}" for d in function.dims]
    lines += [f"input  {_port(p)}" for p in function.inputs]
    lines += [f"output {_port(p)}" for p in function.outputs]
    lines += ["", f"arena  {to_text(function.arena.size)} bytes", ""]
    return lines + _Lister(program, function).block(function.steps, 0)


def shape_text(shape: Sequence[object]) -> str:
    """`[batch, 3, 224]`"""
    return "[" + ", ".join(to_text(n) for n in shape) + "]"


def _port(port: Port) -> str:
    return f"{port.name}: {port.dtype}{shape_text(port.shape)}"


class _Lister:
    """The steps of a function as lines."""

    def __init__(self, program: Program, function: Function) -> None:
        self.program = program
        self.function = function
        self.tensors = function.tensors

    def place(self, tensor: Tensor) -> str:
        match tensor.storage:
            case ArenaStorage(slot):
                return f"arena[{slot}]"
            case ConstantStorage(index):
                return f"weights+{self.program.constants[index].offset}"
            case StateStorage(index):
                return f"state {self.program.states.tensors[index].name}"
            case InputStorage(index):
                return f"input {self.function.inputs[index].name}"
            case OutputStorage(index):
                return f"output {self.function.outputs[index].name}"

    def tensor(self, index: int) -> str:
        tensor = self.tensors[index]
        start = "" if tensor.start is None else f"+{to_text(tensor.start)}"
        return f"{tensor.name}: {tensor.dtype}{shape_text(tensor.shape)} @ {self.place(tensor)}{start}"

    def block(self, steps: Sequence[Step], depth: int) -> list[str]:
        lines: list[str] = []
        for step in steps:
            lines += [f"{'    ' * depth}{line}" for line in self.step(step)]
        return lines

    def step(self, step: Step) -> list[str]:
        match step:
            case If():
                then, otherwise = self.block(step.then, 1), self.block(step.otherwise, 1)
                return [f"if {self.tensors[step.condition].name}", *then, "else", *otherwise]
            case Loop():
                trips = "" if step.trips is None else f" in 0..{to_text(step.trips)}"
                test = "" if step.condition is None else f" while {self.tensors[step.condition].name}"
                return [f"loop {step.index.name}{trips}{test}", *self.block(step.body, 1)]
            case RunInstances():
                results = ", ".join(map(self.tensor, step.outputs))
                return [f"{results} = run instances with the cells {', '.join(step.cells)}"]
            case _:
                return [self.line(step)]

    def line(self, step: Step) -> str:
        """The line of a step that holds no other steps."""
        names = [tensor.name for tensor in self.tensors]
        match step:
            case Launch():
                written = len(step.tensors) - step.outputs - step.workspaces
                arguments = [*(names[t] for t in step.tensors[:written]), *(to_text(s) for s in step.scalars)]
                call = f"{self.program.kernels[step.kernel].name}({', '.join(arguments)})"
                return f"{self.tensor(step.tensors[written])} = {call}"
            case Copy():
                return f"{self.tensor(step.target)} = copy {names[step.source]}"
            case CopySlice():
                return f"{names[step.target]}[{to_text(step.row)}] = {names[step.source]}"
            case Transfer():
                moved = ", ".join(names[t] for t in step.tensors)
                return f"{'upload' if step.to_gpu else 'download'} {moved}" if moved else "wait"
            case BindDim():
                return f"bind {step.var.name} = {names[step.tensor]}[{to_text(step.index)}]"
            case SetDim():
                return f"set {step.var.name} = {to_text(step.value)}"
            case Check():
                return f"check {to_text(step.condition)}"
            case CheckIndices():
                bounds = ", ".join(f"{to_text(low)}..{to_text(high)}" for low, high in step.bounds)
                return f"check {names[step.tensor]} in {bounds}"
            case Reserve():
                return f"reserve {to_text(step.bytes_needed)} bytes for {step.what}"
            case Call():
                results = ", ".join(map(self.tensor, step.outputs))
                return f"{results} = {step.function}({', '.join(names[t] for t in step.inputs)})"
            case If() | Loop() | RunInstances():
                raise ValueError("it has lines of its own")
