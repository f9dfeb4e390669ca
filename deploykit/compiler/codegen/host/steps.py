"""Steps of a program as C statements, one function for each kind of step.

    BindDim      n = count[0]; then dk_check_data
    SetDim       n = expression;
    Check        if (!condition) return dk_fail_shape(...)
    CheckIndices dk_check_indices
    Reserve      dk_check_output, or a comparison and dk_fail_capacity
    Launch       <prefix>_<kernel>(tensors, scalars); or dk_parallel_for over its outer loop
    Copy         dk_copy
    CopySlice    dk_copy to a row, in an if where there may be no room for it
    If, Loop     if, for
    Call         a call of the steps of another function, with a model of its own
    RunInstances `instances`
    Transfer, and Launch, Copy and CopySlice on a GPU: `driver_calls`

DK_STEP comes before the steps that take time. Statements stand in a function with `base` (the `dk_model`), `status`,
`outputs` and the names of `Scope`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from deploykit.basics.dtypes import logical_dtype
from deploykit.compiler.codegen.host.driver_calls import device_copy, dispatch, transfer
from deploykit.compiler.codegen.host.identifiers import c_string
from deploykit.compiler.codegen.host.instances import run_instances
from deploykit.compiler.codegen.host.lines import (
    INDENT,
    Lines,
    braced,
    checked,
    in_comment,
    indented,
    operand,
    shape_text,
    statement,
)
from deploykit.compiler.codegen.host.scope import Scope, quoted
from deploykit.compiler.program.ir import (
    ArenaStorage,
    BindDim,
    Call,
    Check,
    CheckIndices,
    Copy,
    CopySlice,
    If,
    Launch,
    Loop,
    OutputStorage,
    Reserve,
    RunInstances,
    SetDim,
    Step,
    Transfer,
)
from deploykit.compiler.program.sizes import element_count, item_bytes, tensor_bytes
from deploykit.compiler.program.steps import number_steps


def step_lines(scope: Scope, steps: Sequence[Step], first: int = 0) -> Lines:
    """C lines of `steps`, not indented. `first`: the number of the first step."""
    lines: Lines = []
    for numbered in number_steps(steps, first):
        step, number = numbered.step, numbered.number
        if numbered.depth == 0 and scope.reads.needs(step):
            lines += _room(scope, step) + _mark(scope, step, number) + _RULES[type(step)](scope, step, number)
    return lines


def _room(scope: Scope, step: Step) -> Lines:
    """Checks that the outputs that a step writes have room, where only the run can tell their size."""
    lines: Lines = []
    for index in scope.reads.growing_outputs(step):
        tensor = scope.function.tensors[index]
        assert isinstance(tensor.storage, OutputStorage)
        lines += checked(f"dk_check_output(base, outputs, {tensor.storage.index}, {scope.size(tensor_bytes(tensor))})")
    return lines


def _mark(scope: Scope, step: Step, number: int) -> Lines:
    """Tells a profiler that a step begins which takes time. Tells a reader what a launch or a call writes."""
    if isinstance(step, Copy | CopySlice | Transfer):
        return [f"DK_STEP({number});"]
    if isinstance(step, Launch):
        kernel = scope.program.kernels[step.kernel]
        last = len(step.tensors) - step.workspaces
        written = step.tensors[last - step.outputs : None if kernel.gpu else last]
        comment = f"{kernel.name}: " if kernel.gpu else ""
    elif isinstance(step, Call):
        written, comment = step.outputs, ""
    else:
        return []
    return [f"DK_STEP({number}); /* {comment}{_described(scope, written)} */"]


def _described(scope: Scope, indices: Iterable[int]) -> str:
    """`y[batch, 10], z[batch]`."""
    tensors = (scope.function.tensors[index] for index in indices)
    return ", ".join(in_comment(f"{tensor.name}{shape_text(tensor.shape)}") for tensor in tensors)


def _bind_dim(scope: Scope, step: BindDim, _number: int) -> Lines:
    name = scope.variable(step.var)
    value = f"(int64_t){operand(scope.tensor(step.tensor))}[{scope.expr(step.index)}]"
    if step.minimum is None and step.maximum is None:
        return [f"{name} = {value};"]
    low = "INT64_MIN" if step.minimum is None else scope.expr(step.minimum)
    high = "INT64_MAX" if step.maximum is None else scope.expr(step.maximum)
    what = quoted(scope.function.tensors[step.tensor].name)
    return [f"{name} = {value};", *checked(f"dk_check_data(base, {what}, {name}, {low}, {high})")]


def _set_dim(scope: Scope, step: SetDim, _number: int) -> Lines:
    return statement(f"{scope.variable(step.var)} = {scope.expr(step.value)};")


def _check(scope: Scope, step: Check, _number: int) -> Lines:
    values = ", ".join(scope.expr(value) for value in step.values)
    body = statement(f"const int64_t values[] = {{{values}}};") if step.values else []
    argument = "values" if step.values else "NULL"
    body.append(f"return dk_fail_shape(base, {c_string(step.message)}, {argument});")
    return [*statement(f"if (!({scope.expr(step.condition)})) {{"), *indented(body), "}"]


def _check_indices(scope: Scope, step: CheckIndices, _number: int) -> Lines:
    tensor = scope.function.tensors[step.tensor]
    bounds = ", ".join(f"{scope.expr(low)}, {scope.expr(high)}" for low, high in step.bounds)
    count, dtype = scope.expr(element_count(tensor.shape)), logical_dtype(tensor.dtype).c_name
    operands = f"{scope.tensor(step.tensor)}, {dtype}, {count}, bounds, {len(step.bounds)}"
    body = [
        f"static const char what[] = {c_string(step.what)};",
        *statement(f"const int64_t bounds[] = {{{bounds}}};"),
        *checked(f"dk_check_indices(base, what, {operands})"),
    ]
    return braced(body)


def _reserve(scope: Scope, step: Reserve, _number: int) -> Lines:
    needed = scope.size(step.bytes_needed)
    lines: Lines = []
    if step.output is not None:
        lines += checked(f"dk_check_output(base, outputs, {step.output}, {needed})")
    if step.bytes_available is None:
        return lines
    dim, extent = -1, "0"
    if step.capacity is not None:
        dim = next(i for i, d in enumerate(scope.function.dims) if d.var.same_as(step.capacity))
        extent = scope.expr(step.capacity)
    body = [
        *statement(f"const int64_t needed = {needed};"),
        *statement(f"const int64_t available = {scope.size(step.bytes_available)};"),
        "if (needed > available) {",
        *indented(
            statement(f"return dk_fail_capacity(base, {quoted(step.what)}, needed, available, {dim}, {extent});")
        ),
        "}",
    ]
    return [*lines, *braced(body)]


def _launch(scope: Scope, step: Launch, _number: int) -> Lines:
    kernel = scope.program.kernels[step.kernel]
    if kernel.gpu:
        return dispatch(scope, step)
    tensors = [scope.tensor(index) for index in step.tensors]
    arguments = ", ".join([*tensors, *(scope.expr(value) for value in step.scalars)])
    name = scope.kernel(step.kernel)
    if kernel.parallel_extent is None:
        return statement(f"{name}({arguments});")
    params = list(kernel.func.params)[len(tensors) : -2]
    fields = (f"call.{field_name(field)}" for field in scope.call_fields(step.kernel)[len(tensors) :])
    names = dict(zip(params, fields, strict=True))
    extent = scope.kernel_expr(kernel.parallel_extent, names)
    effort = scope.kernel_estimate(kernel.effort, names)
    body = [
        *statement(f"{name}_call call = {{{arguments}}};"),
        *statement(f"dk_parallel_for(base, {extent}, {effort}, {name}_range, &call);"),
    ]
    return braced(body)


def _call(scope: Scope, step: Call, _number: int) -> Lines:
    own = Scope(scope.program, scope.callee(step.function))
    tensors = scope.function.tensors
    body = [
        f"{own.prefix}_model callee;",
        f"dk_tensor given[{max(len(step.inputs), 1)}];",
        f"dk_tensor taken[{max(len(step.outputs), 1)}];",
        f"dk_begin_callee(&callee.base, base, &{own.prefix}_descriptor);",
        f"callee.base.arena = {scope.tensor(step.arena)};",
    ]
    for field, value in zip(own.dims, step.dims, strict=True):
        body += statement(f"callee.dims.{field} = {scope.expr(value)};")
    for array, indices in (("given", step.inputs), ("taken", step.outputs)):
        for i, index in enumerate(indices):
            body += statement(f"{array}[{i}].data = (void*)(uintptr_t){scope.tensor(index)};")
            body += statement(f"{array}[{i}].bytes = (size_t){operand(scope.size(tensor_bytes(tensors[index])))};")
    message = c_string(f"a call of '{step.function}' is out of the bounds of its dims")
    body += [
        f"if (!dk_dims_within(&{own.prefix}_descriptor, (const int64_t*)&callee.dims)) {{",
        *indented([f"return dk_fail_shape(base, {message}, NULL);"]),
        "}",
        f"status = {own.prefix}_steps{scope.level}(&callee, given, taken);",
        "if (status != DK_OK) {",
        *indented(["dk_copy(base->error, callee.base.error, DK_ERROR_TEXT);", "return status;"]),
        "}",
    ]
    return braced(body)


def field_name(field: str) -> str:
    """`x` of `const float *x`."""
    return field.replace("*", " ").split()[-1]


def _copy(scope: Scope, step: Copy, _number: int) -> Lines:
    if step.gpu:
        return device_copy(scope, scope.slice(step.target), step.source, "0")
    size = scope.expr(tensor_bytes(scope.function.tensors[step.source]))
    return statement(f"dk_copy({scope.tensor(step.target)}, {scope.tensor(step.source)}, {size});")


def _copy_slice(scope: Scope, step: CopySlice, _number: int) -> Lines:
    source = scope.function.tensors[step.source]
    count = element_count(source.shape)
    if step.gpu:
        offset = scope.expr(step.row * count * item_bytes(source.dtype))
        return device_copy(scope, scope.slice(step.target), step.source, offset)
    row, size = scope.expr(step.row * count), scope.expr(tensor_bytes(source))
    copy = statement(f"dk_copy({scope.tensor(step.target)} + {row}, {scope.tensor(step.source)}, {size});")
    if not step.where_room:
        return copy
    storage = scope.function.tensors[step.target].storage
    if isinstance(storage, OutputStorage):
        available = f"outputs[{storage.index}].bytes"
    else:
        assert isinstance(storage, ArenaStorage)
        available = f"(uint64_t){operand(scope.size(scope.function.arena.slots[storage.slot].size))}"
    end = operand(scope.size((step.row + 1) * count * item_bytes(source.dtype)))
    return [*statement(f"if ((uint64_t){end} <= {available}) {{"), *indented(copy), "}"]


def _if(scope: Scope, step: If, number: int) -> Lines:
    first = number + 1
    then = step_lines(scope, step.then, first)
    otherwise = step_lines(scope, step.otherwise, first + sum(1 for _ in number_steps(step.then)))
    lines = [f"if (*{scope.tensor(step.condition)} != 0) {{", *indented(then)]
    return [*lines, "} else {", *indented(otherwise), "}"] if otherwise else [*lines, "}"]


def _loop(scope: Scope, step: Loop, number: int) -> Lines:
    index, count = scope.variable(step.index), scope.variable(step.count)
    trips = "" if step.trips is None else f"{index} < {operand(scope.expr(step.trips))}"
    body: Lines = []
    if step.condition is not None:
        body += [f"if (*{scope.tensor(step.condition)} == 0) {{", INDENT + "break;", "}"]
    body += step_lines(scope, step.body, number + 1)
    after = [f"{count} = {index};"] if step.count in scope.reads.variables else []
    return [*statement(f"for ({index} = 0; {trips}; ++{index}) {{"), *indented(body), "}", *after]


_RULES: dict[type[Any], Callable[[Scope, Any, int], Lines]] = {
    BindDim: _bind_dim,
    SetDim: _set_dim,
    Check: _check,
    CheckIndices: _check_indices,
    Reserve: _reserve,
    Launch: _launch,
    Copy: _copy,
    CopySlice: _copy_slice,
    Transfer: transfer,
    If: _if,
    Loop: _loop,
    Call: _call,
    RunInstances: run_instances,
}
