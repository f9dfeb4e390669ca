"""A function's interface, for the templates of its header, of its descriptor and of the files beside its code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tvm import tirx

from deploykit.basics.dtypes import logical_dtype
from deploykit.compiler.codegen.c.types import float_literal
from deploykit.compiler.codegen.host.builders import example
from deploykit.compiler.codegen.host.identifiers import c_string, constants
from deploykit.compiler.codegen.host.lines import in_comment, shape_text, statement
from deploykit.compiler.codegen.host.reads import is_static
from deploykit.compiler.codegen.host.scope import Scope, prefix_of
from deploykit.compiler.codegen.weights.blob import weights_bytes
from deploykit.compiler.dims import evaluate, free_vars, interval, symbolic_upper_bound, to_text
from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.model import Port
from deploykit.compiler.program.ir import ALIGNMENT, BindDim, Function, Program, RunInstances, States
from deploykit.compiler.program.sizes import element_count


def interface_view(program: Program, function: Function, version: str) -> dict[str, Any]:
    """What the header and the descriptor of a function say, and what example programs need."""
    scope = Scope(program, function)
    inputs, outputs = _ports(scope, "input", function.inputs), _ports(scope, "output", function.outputs)
    name = None if program.public == (function,) else function.name
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
        "arena_least": 0 if program.gpu else _least_arena(function),
        "weights_bytes": weights_bytes(program),
        "states": _states(scope),
    }


def package_view(program: Program, version: str) -> dict[str, Any]:
    """What the files beside the code say: the interfaces of all functions as `functions`, and that of the first one.
    `stateful`: the first function that has states. `dynamic`: an
    example of an instance, for a dynamic model."""
    functions = [interface_view(program, function, version) for function in program.public]
    stateful = next((function for function in functions if function["states"]), None)
    view = functions[0] | {"prefix": prefix_of(program), "functions": functions, "stateful": stateful, "dynamic": None}
    for step in (step for function in program.public for step in function.steps if isinstance(step, RunInstances)):
        types = ", ".join(str(kind) for _, kind in step.model.control.takes)
        view["dynamic"] = example(prefix_of(program), step.model) | {
            "types": types,
            "policy": step.model.policy.upper(),
        }
    return view


def _states(scope: Scope) -> dict[str, Any] | None:
    """What templates need to know of states. `header`: the bytes in front of them."""
    states = scope.program.states
    if not scope.function.states:
        return None
    locals_ = scope.locals("dims->", free_vars(states.size)) or ["(void)dims;"]
    bounds = at_upper_bounds(scope.function, [dim.var for dim in states.dims] + [states.size])
    names = dict(zip((dim.var for dim in scope.function.dims), scope.dims, strict=True))
    first = next((i for i, dim in enumerate(scope.function.dims) if dim in states.dims), 0)
    return {
        "size": [*locals_, *statement(f"return {scope.size(states.size)};")],
        "dims": [names[dim.var] for dim in states.dims],
        "names": [dim.name for dim in states.dims],
        "at_bounds": bounds,
        "range": f"{first}, {len(states.dims)}",
        "header": state_header(states),
        "comments": [in_comment(f"{port.name}  {port.dtype}{shape_text(port.shape)}") for port in states.tensors],
        "text": in_comment(to_text(states.size)),
    }


def state_header(states: States) -> int:
    """Bytes in front of the states. There `dk_reset_state` notes the sizes that they were made for."""
    return -(-8 * (1 + len(states.dims)) // ALIGNMENT) * ALIGNMENT


def _ports(scope: Scope, kind: str, ports: Sequence[Port]) -> list[dict[str, Any]]:
    words = constants(port.name for port in ports)
    return [_port(scope, f"{kind}_{i}", word, port) for i, (word, port) in enumerate(zip(words, ports, strict=True))]


def _port(scope: Scope, table: str, constant: str, port: Port) -> dict[str, Any]:
    shape, note = shape_text(port.shape), _raggedness(scope.function, port)
    return {
        "name": port.name,
        "type": f"{port.dtype}{shape}",
        "note": note,
        "gives_lengths": port.instance is None and bool(note),
        "comment": in_comment(f"{port.name}  {port.dtype}{shape}{', ' if note else ''}{note}"),
        "instance": _instance(port),
        "instance_at_bounds": _instance_at_bounds(scope.function, port),
        "constant": constant,
        "scale": port.quantization and float_literal(port.quantization.scale, "float32"),
        "zero_point": port.quantization and port.quantization.zero_point,
        "string": c_string(port.name),
        "dtype": logical_dtype(port.dtype).c_name,
        "rank": len(port.shape),
        "shape_at_bounds": at_upper_bounds(scope.function, port.shape),
        "bytes_at_bounds": bytes_at_bounds(scope.function, port),
        "axes": [_axis(scope, extent) for extent in port.shape],
        "table": table,
    }


def _raggedness(function: Function, port: Port) -> str:
    """What a ragged tensor holds, or of which ragged tensors an input has the lengths; empty for other ports."""
    if port.instance is not None:
        extents = (extent if isinstance(extent, str) else to_text(extent) for extent in port.instance)
        return f"instances [{', '.join(extents)}] one after the other"
    ragged = [each.name for each in (*function.inputs, *function.outputs) if port.name in (each.instance or ())]
    return f"lengths of the instances of {', '.join(ragged)}" if ragged and port in function.inputs else ""


def _instance(port: Port) -> list[int | str | None] | None:
    """The shape of an instance of a ragged port: names of inputs, numbers, and None for other extents."""
    if port.instance is None:
        return None
    known = (extent if isinstance(extent, str) or not free_vars(extent) else None for extent in port.instance)
    return [extent if extent is None or isinstance(extent, str) else evaluate(extent, {}) for extent in known]


def _instance_at_bounds(function: Function, port: Port) -> list[int | str] | None:
    """The shape of an instance of a ragged port; None for other ports, and if a dim is unbounded."""
    numbers = at_upper_bounds(function, [extent for extent in port.instance or () if not isinstance(extent, str)])
    if port.instance is None or numbers is None:
        return None
    found = iter(numbers)
    return [extent if isinstance(extent, str) else next(found) for extent in port.instance]


def _axis(scope: Scope, extent: IntExpr) -> dict[str, Any]:
    text = c_string(to_text(extent))
    if not free_vars(extent):
        return {"dim": "DK_AXIS_FIXED", "extent": evaluate(extent, {}), "text": text}
    for index, dim in enumerate(scope.function.dims):
        if isinstance(extent, tirx.Var) and extent.same_as(dim.var):
            return {"dim": index, "extent": 0, "text": c_string(dim.name)}
    kind = "DK_AXIS_FORMULA" if is_static(scope.function, [extent]) else "DK_AXIS_DATA"
    return {"dim": kind, "extent": 0, "text": text}


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


def _least_arena(function: Function) -> int:
    """A number of bytes of the arena that no run can do without."""
    box = {dim.var: (dim.minimum, dim.maximum) for dim in function.dims}
    return max(interval(function.arena.size, box)[0] or 0, 0)


def arena_bytes_at_bounds(function: Function) -> int | None:
    """Bytes of the arena when every dim is at its upper bound; None when a dim is unbounded."""
    values = at_upper_bounds(function, [function.arena.size])
    return None if values is None else values[0]


def at_upper_bounds(function: Function, exprs: Iterable[IntExpr]) -> list[int] | None:
    """Values of `exprs` with every dim at its upper bound; None when one of them reads a data dim or an unbounded dim.

    A capacity dim without a bound counts at its minimum, which the caller starts with."""
    bounds = {dim.var: dim.maximum or (dim.capacity_of and dim.minimum) for dim in function.dims}
    values = {var: bound for var, bound in bounds.items() if isinstance(bound, int)}
    wanted = list(exprs)
    if not all(var in values for expr in wanted for var in free_vars(expr)):
        return None
    return [evaluate(expr, values) for expr in wanted]


def bytes_at_bounds(function: Function, port: Port) -> int | None:
    """Bytes of a port when every dim is at its upper bound, at most; None when they depend on data without a bound."""
    data = {step.var: (step.minimum, step.maximum) for step in function.steps if isinstance(step, BindDim)}
    elements = symbolic_upper_bound(element_count(port.shape), data)
    most = None if elements is None else at_upper_bounds(function, [elements])
    return None if most is None else most[0] * logical_dtype(port.dtype).storage.itemsize
