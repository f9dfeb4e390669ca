"""The C functions of `model.c` that a function of a program becomes, for templates.

These are its kernels, the sizes of its arena and of its outputs, and its steps with everything that they declare: the
dims and data dims that they read, and a pointer for each tensor. `Scope.reads` says what they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tvm import tirx

from deploykit.basics.dtypes import logical_dtype
from deploykit.compiler.codegen.c.types import storage_type
from deploykit.compiler.codegen.host.header import state_header
from deploykit.compiler.codegen.host.identifiers import constants
from deploykit.compiler.codegen.host.lines import Lines, in_comment, shape_text, statement
from deploykit.compiler.codegen.host.reads import is_static, variables_in
from deploykit.compiler.codegen.host.scope import Scope
from deploykit.compiler.codegen.host.steps import field_name, step_lines
from deploykit.compiler.dims import free_vars
from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.model import Port
from deploykit.compiler.program.ir import (
    ArenaStorage,
    Call,
    ConstantStorage,
    InputStorage,
    Launch,
    OutputStorage,
    RunInstances,
    StateStorage,
    Step,
)
from deploykit.compiler.program.sizes import element_count
from deploykit.compiler.program.steps import number_steps, reads_and_writes

HOST_ARENA, HOST_STATES = 1, 4
"""Bits of `host_memory`."""


def functions_view(scope: Scope) -> dict[str, Any]:
    """The functions that are the same for every CPU, and the functions of the program that the steps call."""
    return {
        "calls": sorted(map(scope.prefix_of, set(calls_in(scope.function.steps)))),
        "axis_checks": _axis_checks(scope),
        "arena_size": _arena_size(scope),
        "output_shape": _output_shape(scope),
        "prepare": _prepare(scope),
    }


def steps_view(scope: Scope) -> dict[str, Any]:
    """The function that runs the steps, and the kernels that it calls."""
    return {"kernels": _kernels(scope), "steps": _steps(scope)}


def host_memory(scope: Scope) -> int:
    """The kinds of memory that steps on the host use beside inputs and outputs, a bit for each."""
    kinds = _kinds(scope)
    return HOST_ARENA * (ArenaStorage in kinds) + 2 * (ConstantStorage in kinds) + HOST_STATES * (StateStorage in kinds)


def resident_ports(scope: Scope) -> list[int]:
    """For each input, then each output, 1 if its value may stay on the GPU between runs: no step on the host reads or
    writes it, except to transfer it at the beginning or at the end."""
    function = scope.function
    used = {function.tensors[index].storage for index in scope.reads.on_host}
    ports = [*map(InputStorage, range(len(function.inputs))), *map(OutputStorage, range(len(function.outputs)))]
    return [int(port not in used) for port in ports]


def calls_in(steps: Iterable[Step]) -> Iterator[str]:
    """The names of the functions that `steps` call."""
    for numbered in number_steps(tuple(steps)):
        match numbered.step:
            case Call(name):
                yield name
            case RunInstances() as step:
                yield from step.cells
            case _:
                pass


def first_change(scope: Scope) -> int:
    """The number of the first step that may change a state, or holds such steps; `INT32_MAX - 1` if there is none."""
    tensors, at = scope.function.tensors, 0
    for each in number_steps(scope.function.steps):
        at = each.number if each.depth == 0 else at
        written = (tensors[index].storage for index in reads_and_writes(each.step)[1])
        if any(isinstance(storage, StateStorage) for storage in written):
            return at
        if isinstance(each.step, Call) and scope.callee(each.step.function).states:
            return at
    return (1 << 31) - 2


def _kernels(scope: Scope) -> list[dict[str, Any]]:
    """The prototypes of the kernels and, of those with a parallel loop, how a part of the loop is run."""
    steps = [numbered.step for numbered in number_steps(scope.function.steps)]
    used = {step.kernel for step in steps if isinstance(step, Launch)}
    return [_kernel(scope, index) for index in sorted(used) if not scope.program.kernels[index].gpu]


def _kernel(scope: Scope, index: int) -> dict[str, Any]:
    kernel, name = scope.program.kernels[index], scope.kernel(index)
    prototype = scope.prototype(index)
    if kernel.parallel_extent is None:
        return {"name": name, "prototype": prototype, "call": None}
    fields = scope.call_fields(index)
    arguments = ", ".join([*(f"call->{field_name(field)}" for field in fields), "begin", "end"])
    call = {"fields": fields, "statement": "\n".join(statement(f"{name}({arguments});"))}
    return {"name": name, "prototype": prototype, "call": call}


def _axis_checks(scope: Scope) -> list[dict[str, Any]]:
    """The axes of inputs that are formulas over dims. There the dims are called `values[index]`."""
    names = {dim.var: f"values[{index}]" for index, dim in enumerate(scope.function.dims)}
    return [
        {"input": index, "axis": axis, "expected": scope.kernel_expr(extent, names)}
        for index, port in enumerate(scope.function.inputs)
        for axis, extent in enumerate(port.shape)
        if not isinstance(extent, tirx.Var) and free_vars(extent)
    ]


def _arena_size(scope: Scope) -> Lines:
    size = scope.function.arena.size
    locals_ = scope.locals("dims->", free_vars(size)) or ["(void)dims;"]
    return [*locals_, *statement(f"return {scope.size(size)};")]


def _output_shape(scope: Scope) -> dict[str, Any]:
    ports = scope.function.outputs
    words = constants(port.name for port in ports)
    shapes = [_known_shape(scope, port) for port in ports]
    read = variables_in(extent for shape in shapes for extent in shape)
    found = [
        {"constant": word, "lines": _extents(scope, shape, "tensor->")}
        for word, shape in zip(words, shapes, strict=True)
    ]
    return {
        "locals": scope.locals("dims->", read) or ["(void)dims;"],
        "cases": [case for case in found if case["lines"]],
    }


def _known_shape(scope: Scope, port: Port) -> list[IntExpr]:
    """The extents of a port, or -1 where only the run can tell one."""
    return [extent if is_static(scope.function, [extent]) else -1 for extent in port.shape]


def _extents(scope: Scope, shape: Iterable[IntExpr], target: str) -> Lines:
    return [
        line
        for axis, extent in enumerate(shape)
        for line in statement(f"{target}shape[{axis}] = {scope.expr(extent)};")
    ]


def _prepare(scope: Scope) -> dict[str, Any]:
    """Room for the outputs whose size is known before the run."""
    sizes = {
        index: element_count(port.shape) * logical_dtype(port.dtype).storage.itemsize
        for index, port in enumerate(scope.function.outputs)
        if is_static(scope.function, port.shape)
    }
    return {
        "locals": scope.locals("model->dims.", variables_in(sizes.values())) if sizes else ["(void)outputs;"],
        "outputs": [{"index": index, "bytes": scope.size(size)} for index, size in sizes.items()],
    }


def _steps(scope: Scope) -> dict[str, Any]:
    gpu = scope.program.gpu is not None
    values = [f"model->saved[{index}]" if gpu else f"DK_SAVED({index})" for index in range(len(scope.data_dims))]
    body = step_lines(scope, scope.function.steps)
    return {
        "declarations": [
            *_bases(_kinds(scope), state_header(scope.program.states)),
            *scope.locals("model->dims.", scope.reads.variables),
            *(f"int64_t {name} = {value};" for name, value in zip(scope.data_dims, values, strict=True)),
            *_pointers(scope),
        ],
        "body": body,
        "shapes": _shapes_after_run(scope),
        "saved": scope.data_dims,
        "pauses": any(line.lstrip().startswith("DK_STEP(") for line in body),
        "suspends": bool(scope.resumes),
    }


def _shapes_after_run(scope: Scope) -> Lines:
    lines: Lines = []
    for index, port in enumerate(scope.function.outputs):
        lines.append(f"(void)dk_describe_output(base->descriptor, {index}, &outputs[{index}]);")
        lines += _extents(scope, port.shape, f"outputs[{index}].")
    return lines


def _kinds(scope: Scope) -> set[type]:
    """Where the tensors lie that steps on the host use."""
    return {type(scope.function.tensors[index].storage) for index in scope.reads.tensors}


def _bases(kinds: set[type], header: int) -> Lines:
    """Where each kind of memory begins. States lie `header` bytes behind the start of their memory."""
    lines = [] if InputStorage in kinds else ["(void)inputs;"]
    if StateStorage in kinds:
        lines.insert(0, f"unsigned char* state = &model->state[{header}];")
    if ArenaStorage in kinds:
        lines.insert(0, "unsigned char* arena = base->arena;")
    if ConstantStorage in kinds:
        lines.insert(0, "const unsigned char* weights = base->weights;")
    return lines


_SECTIONS = {
    InputStorage: "/* Inputs */",
    OutputStorage: "/* Outputs */",
    ConstantStorage: "/* Constants */",
    StateStorage: "/* States */",
    ArenaStorage: "/* Intermediate results */",
}


def _pointers(scope: Scope) -> Lines:
    """A pointer for each tensor that steps use, with its shape unless it is for parts of several shapes. The pointers
    are grouped by where tensors lie."""
    lines: Lines = []
    for kind, title in _SECTIONS.items():
        used = sorted(scope.reads.tensors)
        indices = [index for index in used if isinstance(scope.function.tensors[index].storage, kind)]
        lines += [title] if indices else []
        shapes: dict[str, dict[str, int]] = {}
        for index in indices:
            shape = shape_text(scope.function.tensors[index].shape)
            shapes.setdefault(scope.pointer(index), {}).setdefault(shape, index)
        for found in shapes.values():
            (shape, index), *others = found.items()
            lines += _pointer(scope, index, "" if others else f" /* {in_comment(shape)} */")
    return lines


def _pointer(scope: Scope, index: int, comment: str) -> Lines:
    tensor = scope.function.tensors[index]
    match tensor.storage:
        case InputStorage(port):
            place, const = f"inputs[{port}].data", "const "
        case OutputStorage(port):
            place, const = f"outputs[{port}].data", ""
        case ConstantStorage(constant):
            offset = scope.program.constants[constant].offset
            place, const = f"(const void*){_at('weights', offset, scope)}", "const "
        case StateStorage(state):
            place, const = f"(void*){_at('state', scope.program.states.offsets[state], scope)}", ""
        case ArenaStorage(slot):
            place, const = f"(void*){_at('arena', scope.function.arena.slots[slot].offset, scope)}", ""
    *first, last = statement(f"{const}{storage_type(tensor.dtype)}* {scope.pointer(index)} = {place};")
    return [*first, f"{last}{comment}"]


def _at(memory: str, offset: IntExpr, scope: Scope) -> str:
    """C text of a place in a memory."""
    text = scope.expr(offset)
    return memory if text == "0" else f"&{memory}[{text}]"
