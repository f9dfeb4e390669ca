"""The host code of a program: `model.h`, the whole public interface, and `model.c`, its steps as straight-line C99.

What becomes what:

* the program's name -> the prefix of every public symbol, so that two models link into one program;
* dims -> an `int64_t` field each of `<prefix>_dims`, found from the shapes of the inputs and checked there;
* data dims -> local variables; tensors -> local pointers into the caller's memory, the weights or the arena;
* steps -> statements, in order (`steps`);
* kernels for a GPU -> calls of its driver, by their number in `shaders.bindings`; where the host reads what they
  computed, the run may return and go on later, with its variables saved in the model;
* kernels for one CPU -> a check when the model is initialised that this is such a CPU; for several -> the
  choice of the best there;
* a kernel with a parallel loop -> a struct of its arguments and a function that runs a part of the loop, which
  `dk_parallel_for` calls.

The code calls `deploykit.c` for checks and `memcpy` for copies; it allocates nothing and has no globals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, TypeVar

import jinja2
from tvm import tirx

from deploykit.compiler.codegen.c.types import storage_type
from deploykit.compiler.codegen.host.data_dims import require_order
from deploykit.compiler.codegen.host.identifiers import c_string, constants, identifier, prefix
from deploykit.compiler.codegen.host.scope import Scope, function_prefix
from deploykit.compiler.codegen.host.steps import (
    Lines,
    field_name,
    in_comment,
    shape_text,
    statement,
    step_lines,
)
from deploykit.compiler.codegen.native.cpus import find_cpu
from deploykit.compiler.codegen.weights.blob import weights_bytes
from deploykit.compiler.dims import evaluate, free_vars, to_text
from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.model import Port
from deploykit.compiler.program.ir import (
    ALIGNMENT,
    ArenaStorage,
    Call,
    ConstantStorage,
    Function,
    InputStorage,
    Launch,
    OutputStorage,
    Program,
    States,
    StateStorage,
    Step,
)
from deploykit.compiler.program.sizes import element_count
from deploykit.compiler.program.steps import number_steps
from deploykit.dtypes import logical_dtype
from deploykit.errors import UnsupportedModelError

Made = TypeVar("Made")

MAX_RANK = 16
"""`DK_MAX_RANK`."""

HOST_STATES = 4
"""The bit of `DK_HOST_MEMORY` for states."""

__all__ = ["arena_bytes_at_bounds", "emit_host", "interface_view", "kernel_prefix", "prefix_of"]


def emit_host(programs: Sequence[Program], version: str) -> dict[str, str]:
    """The text of `model.h` and `model.c`, which say that `version` of deploykit generated them. Of programs for
    several CPUs, the best first, the steps of each are in a file of their own, `part_<cpu>.c`. Of several functions
    each has such files of its own, which begin with its prefix, and `model.h` includes the headers.

    Raises `UnsupportedModelError` for ranks above `MAX_RANK`, and `ValueError` for a program that makes no sense:
    without outputs, with a dim that neither an input's shape gives nor the caller chooses, or with a data dim that is
    read before it is set.
    """
    program = programs[0]
    for part in programs:
        for function in part.functions:
            _require_interface(program, function)
            require_order(function)
    if len(program.functions) == 1:
        return _emit_function(programs, program.functions[0], version, "model", "part_")
    headers = [f"{function_prefix(program, function)}.h" for function in program.functions]
    texts = {
        "model.h": _render("headers.h.j2", {"name": in_comment(program.name), "version": version, "headers": headers})
    }
    for function, header in zip(program.functions, headers, strict=True):
        stem = header.removesuffix(".h")
        texts |= _emit_function(programs, function, version, stem, f"{stem}_part_")
    return texts


def _emit_function(parts: Sequence[Program], function: Function, version: str, stem: str, start: str) -> dict[str, str]:
    """The files of one function: `stem` names them, `start` those with the steps of each of several parts."""
    program = parts[0]
    called = {step.function for other in program.functions for step in _calls(other.steps)}
    shared = {"header": f"{stem}.h", "storage": "" if function.name in called else "static ", "level": ""}
    view = interface_view(program, function, version) | _functions(Scope(program, function)) | shared
    view |= {"parts": [], "levels": _levels(parts), "steps_name": "steps", "gpu": program.gpu}
    if view["states"]:
        on_host = program.gpu is None or view["steps"]["host_memory"] & HOST_STATES
        view["states"] |= {"on_host": "needed" if on_host else "DK_STATE_HEADER"}
    view |= {"host_memory": view["steps"]["host_memory"], "part_bytes": program.gpu and program.gpu.binding_bytes}
    if function.name in called:
        view["steps_name"] = f"{view['prefix']}_steps"
    texts = {f"{stem}.h": _render("model.h.j2", view)}
    if len(parts) > 1:
        names = [f"{view['prefix']}_steps_{identifier(part.cpu)}" for part in parts]
        view["parts"] = [{"steps": name} for name in names]
        for part, name in zip(parts, names, strict=True):
            same = next(each for each in part.functions if each.name == function.name)
            own = _functions(Scope(part, same, kernel_prefix(part, parts), f"_{identifier(part.cpu)}"))
            own |= {"steps_name": name, "storage": "", "cpu": part.cpu, "gpu": False}
            own |= {"level": f"_{identifier(part.cpu)}"}
            texts[f"{start}{identifier(part.cpu)}.c"] = _render("part.c.j2", view | own)
    return texts | {f"{stem}.c": _render("model.c.j2", view)}


def _calls(steps: Iterable[Step]) -> Iterator[Call]:
    return (numbered.step for numbered in number_steps(tuple(steps)) if isinstance(numbered.step, Call))


def _render(template: str, view: dict[str, Any]) -> str:
    return _environment().get_template(template).render(view)


def _levels(parts: Sequence[Program]) -> list[Lines]:
    """Entries of the table of CPUs; none for kernels that any CPU runs."""
    if not parts[0].cpu or parts[0].gpu:
        return []
    entries = []
    for part in parts:
        macros = [f"DK_CPU_{identifier(feature).upper()}" for feature in find_cpu(part.cpu).requires]
        entries.append(statement(f"{{{c_string(part.cpu)}, {' | '.join(macros) or '0'}}},"))
    return entries


def kernel_prefix(part: Program, programs: Sequence[Program]) -> str:
    """What the symbols of a program's kernels start with; `programs` are all those of one library."""
    start = prefix_of(part)
    return f"{start}_{identifier(part.cpu)}" if len(programs) > 1 else start


def prefix_of(program: Program) -> str:
    """What every public C symbol of the program starts with."""
    return prefix(program.name)


def arena_bytes_at_bounds(function: Function) -> int | None:
    """Bytes of arena when every dim is at its upper bound; None while one is unbounded."""
    values = at_upper_bounds(function, [function.arena.size])
    return None if values is None else values[0]


def at_upper_bounds(function: Function, exprs: Iterable[IntExpr]) -> list[int] | None:
    """Values of `exprs` with every dim at its upper bound; None when one reads a data dim or an unbounded dim.

    A capacity dim without a bound counts at its minimum, what the caller starts from."""
    bounds = {dim.var: dim.maximum or (dim.capacity_of and dim.minimum) for dim in function.dims}
    values = {var: bound for var, bound in bounds.items() if isinstance(bound, int)}
    wanted = list(exprs)
    if not all(var in values for expr in wanted for var in free_vars(expr)):
        return None
    return [evaluate(expr, values) for expr in wanted]


def _bytes_at_bounds(function: Function, port: Port) -> int | None:
    shape = at_upper_bounds(function, port.shape)
    return None if shape is None else math.prod(shape) * logical_dtype(port.dtype).storage.itemsize


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("deploykit.compiler.codegen.host"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701 - the output is C
    )


def _require_interface(program: Program, function: Function) -> None:
    if not function.outputs and not function.states:
        raise ValueError(f"'{program.name}' has no outputs")
    for port in (*function.inputs, *function.outputs):
        if len(port.shape) > MAX_RANK:
            raise UnsupportedModelError(f"'{port.name}' has rank {len(port.shape)}, more than {MAX_RANK}")
    bound = {extent for port in function.inputs for extent in port.shape if isinstance(extent, tirx.Var)}
    for dim in function.dims:
        if dim.capacity_of is None and dim.var not in bound:
            raise ValueError(f"dim '{dim.name}' is no axis of an input of '{program.name}'")


def interface_view(program: Program, function: Function, version: str) -> dict[str, Any]:
    """What the header and the descriptor of a function say, and example programs need, for templates."""
    scope = Scope(program, function)
    inputs, outputs = _ports(scope, "input", function.inputs), _ports(scope, "output", function.outputs)
    name = function.name if len(program.functions) > 1 else None
    return {
        "version": version,
        "name": in_comment(program.name),
        "function": name,
        "string": c_string(program.name if name is None else f"{program.name}.{name}"),
        "prefix": scope.prefix,
        "macro": scope.prefix.upper(),
        "inputs": inputs,
        "outputs": outputs,
        "ports": inputs + outputs,
        "dims": [_dim(scope, index) for index in range(len(function.dims))],
        "has_capacity": any(dim.capacity_of is not None for dim in function.dims),
        "arena_text": in_comment(to_text(function.arena.size)),
        "arena_bytes": arena_bytes_at_bounds(function),
        "weights_bytes": weights_bytes(program),
        "states": _states(scope),
    }


def package_view(program: Program, version: str) -> dict[str, Any]:
    """What files say that stand beside the code of all functions, which are `functions`, and what the first one is."""
    functions = [interface_view(program, function, version) for function in program.functions]
    stateful = next((function for function in functions if function["states"]), None)
    return functions[0] | {"prefix": prefix_of(program), "functions": functions, "stateful": stateful}


def _states(scope: Scope) -> dict[str, Any] | None:
    """What templates need to know of states; `header`: bytes in front of them."""
    states = scope.program.states
    if not scope.function.states:
        return None
    size, locals_ = _with_locals(scope, "dims->", lambda: scope.size(states.size))
    bounds = at_upper_bounds(scope.function, [dim.var for dim in states.dims] + [states.size])
    names = dict(zip((dim.var for dim in scope.function.dims), scope.dims, strict=True))
    first = next((i for i, dim in enumerate(scope.function.dims) if dim in states.dims), 0)
    return {
        "size": [*(locals_ or ["(void)dims;"]), *statement(f"return {size};")],
        "dims": [names[dim.var] for dim in states.dims],
        "names": [dim.name for dim in states.dims],
        "at_bounds": bounds,
        "range": f"{first}, {len(states.dims)}",
        "header": _state_header(states),
        "comments": [in_comment(f"{port.name}  {port.dtype}{shape_text(port.shape)}") for port in states.tensors],
        "text": in_comment(to_text(states.size)),
    }


def _state_header(states: States) -> int:
    """Bytes in front of the states, where `dk_reset_state` notes what they were made for."""
    return -(-8 * (1 + len(states.dims)) // ALIGNMENT) * ALIGNMENT


def _ports(scope: Scope, kind: str, ports: Sequence[Port]) -> list[dict[str, Any]]:
    words = constants(port.name for port in ports)
    return [_port(scope, f"{kind}_{i}", word, port) for i, (word, port) in enumerate(zip(words, ports, strict=True))]


def _port(scope: Scope, table: str, constant: str, port: Port) -> dict[str, Any]:
    shape = shape_text(port.shape)
    return {
        "name": port.name,
        "type": f"{port.dtype}{shape}",
        "comment": in_comment(f"{port.name}  {port.dtype}{shape}"),
        "constant": constant,
        "string": c_string(port.name),
        "dtype": logical_dtype(port.dtype).c_name,
        "rank": len(port.shape),
        "shape_at_bounds": at_upper_bounds(scope.function, port.shape),
        "bytes_at_bounds": _bytes_at_bounds(scope.function, port),
        "axes": [_axis(scope, extent) for extent in port.shape],
        "table": table,
    }


def _axis(scope: Scope, extent: IntExpr) -> dict[str, Any]:
    text = c_string(to_text(extent))
    if not free_vars(extent):
        return {"dim": "DK_AXIS_FIXED", "extent": evaluate(extent, {}), "text": text}
    for index, dim in enumerate(scope.function.dims):
        if isinstance(extent, tirx.Var) and extent.same_as(dim.var):
            return {"dim": index, "extent": 0, "text": c_string(dim.name)}
    return {"dim": "DK_AXIS_FORMULA" if scope.is_static([extent]) else "DK_AXIS_DATA", "extent": 0, "text": text}


def _dim(scope: Scope, index: int) -> dict[str, Any]:
    dim = scope.function.dims[index]
    bounds = f"{dim.minimum}..{'' if dim.maximum is None else dim.maximum}"
    use = "" if dim.capacity_of is None else f", room for elements of {dim.capacity_of}"
    use = ", chosen when the states are made" if dim in scope.program.states.dims else use
    return {
        "index": index,
        "name": dim.name,
        "field": scope.dims[index],
        "comment": in_comment(f"{dim.name}  {bounds}{use}"),
        "string": c_string(dim.name),
        "minimum": dim.minimum,
        "maximum": -1 if dim.maximum is None else dim.maximum,
        "capacity": dim.capacity_of is not None,
        "capacity_of": "NULL" if dim.capacity_of is None else c_string(dim.capacity_of),
    }


def _functions(scope: Scope) -> dict[str, Any]:
    return {
        "kernels": _kernels(scope),
        "axis_checks": _axis_checks(scope),
        "arena_size": _arena_size(scope),
        "output_shape": _output_shape(scope),
        "prepare": _prepare(scope),
        "steps": _steps(scope),
    }


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
    """The axes of inputs that are formulas over dims, called `values[index]` there."""
    names = {dim.var: f"values[{index}]" for index, dim in enumerate(scope.function.dims)}
    return [
        {"input": index, "axis": axis, "expected": scope.kernel_expr(extent, names)}
        for index, port in enumerate(scope.function.inputs)
        for axis, extent in enumerate(port.shape)
        if not isinstance(extent, tirx.Var) and free_vars(extent)
    ]


def _arena_size(scope: Scope) -> Lines:
    size, locals_ = _with_locals(scope, "dims->", lambda: scope.size(scope.function.arena.size))
    return [*(locals_ or ["(void)dims;"]), *statement(f"return {size};")]


def _output_shape(scope: Scope) -> dict[str, Any]:
    words = constants(port.name for port in scope.function.outputs)

    def cases() -> list[dict[str, Any]]:
        return [
            {"constant": word, "lines": _extents(scope, port, "tensor->", known_only=True)}
            for word, port in zip(words, scope.function.outputs, strict=True)
        ]

    found, locals_ = _with_locals(scope, "dims->", cases)
    return {"locals": locals_ or ["(void)dims;"], "cases": [case for case in found if case["lines"]]}


def _extents(scope: Scope, port: Port, target: str, *, known_only: bool) -> Lines:
    lines: Lines = []
    for axis, extent in enumerate(port.shape):
        unknown = known_only and not scope.is_static([extent])
        lines += statement(f"{target}shape[{axis}] = {-1 if unknown else scope.expr(extent)};")
    return lines


def _prepare(scope: Scope) -> dict[str, Any]:
    """Room for the outputs whose size is known before the run."""

    def checks() -> list[dict[str, Any]]:
        return [
            {
                "index": index,
                "bytes": scope.size(element_count(port.shape) * logical_dtype(port.dtype).storage.itemsize),
            }
            for index, port in enumerate(scope.function.outputs)
            if scope.is_static(port.shape)
        ]

    found, locals_ = _with_locals(scope, "model->dims.", checks)
    return {"locals": locals_ if found else ["(void)outputs;"], "outputs": found}


def _steps(scope: Scope) -> dict[str, Any]:
    """Steps are printed twice: the first time tells which variables are read, the second leaves out the others."""

    def everything() -> dict[str, Lines]:
        step_lines(scope, scope.function.steps)
        scope.resumes = 0
        pointers = _pointers(scope)
        shapes = _shapes_after_run(scope)
        unread = frozenset(scope.data_dims) - scope.read_variables
        return {"body": step_lines(scope, scope.function.steps, unread), "pointers": pointers, "shapes": shapes}

    found, dims = _with_locals(scope, "model->dims.", everything)
    data_dims = [name for name in scope.data_dims if name in scope.read_variables]
    gpu = scope.program.gpu is not None
    values = [f"model->saved[{index}]" if gpu else "0" for index in range(len(data_dims))]
    kinds = _kinds(scope)
    bases = _bases(kinds, _state_header(scope.program.states))
    declared = [f"int64_t {name} = {value};" for name, value in zip(data_dims, values, strict=True)]
    return found | {
        "declarations": [*bases, *dims, *declared, *found["pointers"]],
        "saved": data_dims if gpu else [],
        "suspends": scope.resumes > 0,
        "host_memory": (ArenaStorage in kinds) + 2 * (ConstantStorage in kinds) + HOST_STATES * (StateStorage in kinds),
        "calls": sorted({scope.prefix_of(step.function) for step in _calls(scope.function.steps)}),
    }


def _shapes_after_run(scope: Scope) -> Lines:
    lines: Lines = []
    for index, port in enumerate(scope.function.outputs):
        lines.append(f"(void)dk_describe_output(base->descriptor, {index}, &outputs[{index}]);")
        lines += _extents(scope, port, f"outputs[{index}].", known_only=False)
    return lines


def _kinds(scope: Scope) -> set[type]:
    """Where the tensors lie that steps on the host use."""
    return {type(scope.function.tensors[index].storage) for index in scope.used_tensors}


def _bases(kinds: set[type], header: int) -> Lines:
    """Where the memory of the tensors that steps use begins; that of states, `header` bytes behind its own begin."""
    lines = [] if InputStorage in kinds else ["(void)inputs;"]
    if StateStorage in kinds:
        lines.insert(0, f"unsigned char* state = model->state + {header};")
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
    """A pointer for each tensor that steps use, with its shape, by where it lies."""
    lines: Lines = []
    for kind, title in _SECTIONS.items():
        indices = [i for i in sorted(scope.used_tensors) if isinstance(scope.function.tensors[i].storage, kind)]
        lines += [title] if indices else []
        for index in indices:
            lines += _pointer(scope, index)
    return lines


def _pointer(scope: Scope, index: int) -> Lines:
    tensor = scope.function.tensors[index]
    match tensor.storage:
        case InputStorage(port):
            place, const = f"inputs[{port}].data", "const "
        case OutputStorage(port):
            place, const = f"outputs[{port}].data", ""
        case ConstantStorage(constant):
            offset = scope.program.constants[constant].offset
            place, const = f"(const void*)(weights + {offset})", "const "
        case StateStorage(state):
            place, const = f"(void*)(state + {scope.expr(scope.program.states.offsets[state])})", ""
        case ArenaStorage(slot):
            place, const = f"(void*)(arena + {scope.expr(scope.function.arena.slots[slot].offset)})", ""
    *first, last = statement(f"{const}{storage_type(tensor.dtype)}* {scope.tensor(index)} = {place};")
    return [*first, f"{last} /* {in_comment(shape_text(tensor.shape))} */"]


def _with_locals(scope: Scope, access: str, make: Callable[[], Made]) -> tuple[Made, Lines]:
    """What `make` gives, and declarations of the dims that its text reads."""
    scope.read_variables.clear()
    made = make()
    return made, [f"const int64_t {name} = {access}{name};" for name in scope.dims if name in scope.read_variables]
