"""Steps of a program as C statements, one function a kind of step.

    BindDim     n = count[0]; then dk_check_data
    SetDim      n = expression;
    Check       if (!condition) return dk_fail_shape(...)
    CheckIndices dk_check_indices
    Reserve     dk_check_output, or a comparison and dk_fail_capacity
    Launch      <prefix>_<kernel>(tensors, scalars); or dk_parallel_for over its outer loop; on a GPU dk_dispatch
    Transfer    driver->upload; or driver->download and a label behind which the run goes on when the data are there
    Copy        dk_copy
    CopySlice   dk_copy to a row, in an if where there may be no room for it
    If, Loop    if, for
    Call        a call of the steps of another function, with a model of its own

DK_STEP comes before those that take time. Statements stand in a function with `base` (the `dk_model`), `status`,
`outputs` and the names of `Scope`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from tvm.ir import PointerType

from deploykit.compiler.codegen.host.identifiers import c_string
from deploykit.compiler.codegen.host.scope import Scope, quoted
from deploykit.compiler.codegen.shaders.bindings import constant_parts, sharing_of
from deploykit.compiler.dims import substitute, to_text
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
    SetDim,
    Step,
    Transfer,
)
from deploykit.compiler.program.sizes import element_count, item_bytes, tensor_bytes
from deploykit.compiler.program.steps import number_steps, reads_and_writes
from deploykit.dtypes import logical_dtype

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr

LINE = 110
_LONG_EXTENT = 40
INDENT = "    "

Lines = list[str]


def step_lines(scope: Scope, steps: Sequence[Step], unread: frozenset[str] = frozenset(), first: int = 0) -> Lines:
    """C lines of `steps`, not indented. Assignments to the variables in `unread` are left out. `first`: the number of
    the first step."""
    lines: Lines = []
    for numbered in number_steps(steps, first):
        if numbered.depth == 0:
            rule = _RULES[type(numbered.step)]
            lines += rule(scope, numbered.step, unread, numbered.number)
    return lines


def shape_text(shape: Iterable[IntExpr]) -> str:
    """`[batch, 10]` for a comment; extents that would fill a line are left out."""
    texts = (to_text(extent) for extent in shape)
    return f"[{', '.join('...' if len(text) > _LONG_EXTENT else text for text in texts)}]"


def in_comment(text: str) -> str:
    """`text` as it may stand inside a C comment."""
    return text.replace("*/", "* /").replace("/*", "/ *").replace("\n", " ").replace("\\", "/")


def statement(text: str) -> Lines:
    """`text` broken into lines that fit when indented a few levels."""
    return wrap(text, LINE - 12, subsequent_indent=INDENT, break_long_words=False, break_on_hyphens=False)


def indented(lines: Iterable[str]) -> Lines:
    return [INDENT + line for line in lines]


def checked(call: str) -> Lines:
    return [*statement(f"status = {call};"), "if (status != DK_OK) {", INDENT + "return status;", "}"]


def _bind_dim(scope: Scope, step: BindDim, unread: frozenset[str], _number: int) -> Lines:
    name = scope.variable(step.var)
    value = f"(int64_t){scope.tensor(step.tensor)}[{step.index}]"
    bounded = step.minimum is not None or step.maximum is not None
    if not bounded:
        return [] if name in unread else [f"{name} = {value};"]
    low = "INT64_MIN" if step.minimum is None else scope.expr(step.minimum)
    high = "INT64_MAX" if step.maximum is None else scope.expr(step.maximum)
    what = quoted(scope.function.tensors[step.tensor].name)
    scope.read_variables.add(name)
    return [f"{name} = {value};", *checked(f"dk_check_data(base, {what}, {name}, {low}, {high})")]


def _set_dim(scope: Scope, step: SetDim, unread: frozenset[str], _number: int) -> Lines:
    name = scope.variable(step.var)
    return [] if name in unread else statement(f"{name} = {scope.expr(step.value)};")


def _check(scope: Scope, step: Check, _unread: frozenset[str], _number: int) -> Lines:
    values = ", ".join(scope.expr(value) for value in step.values)
    body = statement(f"const int64_t values[] = {{{values}}};") if step.values else []
    argument = "values" if step.values else "NULL"
    body.append(f"return dk_fail_shape(base, {c_string(step.message)}, {argument});")
    return [*statement(f"if (!({scope.expr(step.condition)})) {{"), *indented(body), "}"]


def _check_indices(scope: Scope, step: CheckIndices, _unread: frozenset[str], _number: int) -> Lines:
    tensor = scope.function.tensors[step.tensor]
    bounds = ", ".join(f"{scope.expr(low)}, {scope.expr(high)}" for low, high in step.bounds)
    count, dtype = scope.expr(element_count(tensor.shape)), logical_dtype(tensor.dtype).c_name
    operands = f"{scope.tensor(step.tensor)}, {dtype}, {count}, bounds, {len(step.bounds)}"
    body = [
        f"static const char what[] = {c_string(step.what)};",
        *statement(f"const int64_t bounds[] = {{{bounds}}};"),
        *checked(f"dk_check_indices(base, what, {operands})"),
    ]
    return ["{", *indented(body), "}"]


def _reserve(scope: Scope, step: Reserve, _unread: frozenset[str], _number: int) -> Lines:
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
    return [*lines, "{", *indented(body), "}"]


def _launch(scope: Scope, step: Launch, _unread: frozenset[str], number: int) -> Lines:
    kernel = scope.program.kernels[step.kernel]
    if kernel.gpu:
        return _dispatch(scope, step, number)
    tensors = [scope.tensor(index) for index in step.tensors]
    scalars = [scope.expr(value) for value in step.scalars]
    arguments = ", ".join(tensors + scalars)
    last = len(step.tensors) - step.workspaces
    written = step.tensors[last - step.outputs : last]
    before = [line for index in written for line in _room(scope, index)]
    before.append(f"{_marked(number)} /* {_all_described(scope, written)} */")
    if kernel.parallel_extent is None:
        return [*before, *statement(f"{scope.kernel(step.kernel)}({arguments});")]
    name = scope.kernel(step.kernel)
    params = list(kernel.func.params)[len(tensors) : -2]
    fields = (f"call.{field_name(field)}" for field in scope.call_fields(step.kernel)[len(tensors) :])
    names = dict(zip(params, fields, strict=True))
    extent = scope.kernel_expr(kernel.parallel_extent, names)
    effort = scope.kernel_estimate(kernel.effort, names)
    body = [
        *statement(f"{name}_call call = {{{arguments}}};"),
        *statement(f"dk_parallel_for(base, {extent}, {effort}, {name}_range, &call);"),
    ]
    return [*before, "{", *indented(body), "}"]


def _dispatch(scope: Scope, step: Launch, number: int) -> Lines:
    kernel, gpu = scope.program.kernels[step.kernel], scope.program.gpu
    assert gpu is not None, "only programs with a GPU have shaders"
    sharing = sharing_of(scope.program, scope.function, step)
    firsts = [step.tensors[sharing.groups.index(group)] for group in range(len(sharing.written))]
    written = reads_and_writes(step)[1]
    lines = [line for index in written for line in _room(scope, index)]
    lines.append(f"{_marked(number)} /* {kernel.name}: {_all_described(scope, written)} */")
    places = [place for bound in zip(firsts, sharing.parts, strict=True) for place in _bindings(scope, *bound)]
    body = statement(f"const dk_slice slices[] = {{{', '.join(places)}}};")
    values = [scope.expr(value) for value in step.scalars]
    body += statement(f"const int64_t scalars[] = {{{', '.join(values) or '0'}}};")
    extent: IntExpr = 1 if kernel.parallel_extent is None else kernel.parallel_extent
    if kernel.team:
        extent = extent * gpu.workgroup
    params = [param for param in kernel.func.params if not isinstance(param.ty, PointerType)]
    threads = substitute(extent, dict(zip(params, step.scalars, strict=False)))
    shader = scope.shaders[step.kernel, sharing]
    operands = f"{shader}, slices, {len(places)}, scalars, {len(values)}, {scope.size(threads)}"
    call = f"dk_dispatch(base, driver, {operands})"
    return [*lines, "{", *indented([*body, *checked(call)]), "}"]


def _bindings(scope: Scope, tensor: int, parts: Sequence[int]) -> list[str]:
    """The slices of a tensor that has a binding for each of its `parts`: the first one is all of it where possible."""
    if not parts:
        return [scope.slice(tensor)]
    whole = sum(parts)
    first = scope.part(tensor, 0, f"driver->binding_bytes < {whole} ? {parts[0]} : {whole}")
    return [first, *(scope.part(tensor, at, size) for at, size in zip(accumulate(parts), parts[1:], strict=False))]


def _transfer(scope: Scope, step: Transfer, _unread: frozenset[str], number: int) -> Lines:
    lines = [_marked(number)]
    for index in step.tensors:
        tensor, place = scope.tensor(index), scope.slice(index)
        call = f"upload(driver, &place, {tensor})" if step.to_gpu else f"download(driver, {tensor}, &place)"
        body = [*statement(f"const dk_slice place = {place};"), *checked(f"dk_check_driver(base, driver->{call})")]
        lines += ["{", *indented(body), "}"]
    if step.to_gpu:
        return lines
    scope.resumes += 1
    return [
        *lines,
        "/* fall through */",
        f"case {scope.resumes}:",
        "status = dk_check_driver(base, driver->wait(driver));",
        "if (status == DK_PENDING) {",
        *indented([f"model->resume = {scope.resumes};", "goto suspended;"]),
        "}",
        "if (status != DK_OK) {",
        *indented(["return status;"]),
        "}",
    ]


def _gpu_copy(scope: Scope, target: int, source: int, offset: str) -> Lines:
    lines: Lines = []
    parts = constant_parts(scope.program, scope.function.tensors[source].storage)
    for first, size in zip(accumulate(parts, initial=0), parts or (0,), strict=False):
        place = scope.part(source, first, size) if parts else scope.slice(source)
        at = f"{offset} + {first}" if first else offset
        body = [
            *statement(f"const dk_slice from = {place};"),
            *statement(f"const dk_slice to = {scope.slice(target)};"),
            *checked(f"dk_check_driver(base, driver->copy(driver, &to, {at}, &from))"),
        ]
        lines += ["{", *indented(body), "}"]
    return lines


def _call(scope: Scope, step: Call, _unread: frozenset[str], number: int) -> Lines:
    own = Scope(scope.program, scope.callee(step.function))
    tensors = scope.function.tensors
    body = [
        f"{own.prefix}_model callee;",
        f"dk_tensor given[{max(len(step.inputs), 1)}];",
        f"dk_tensor taken[{max(len(step.outputs), 1)}];",
        "callee.base = *base;",
        f"callee.base.descriptor = &{own.prefix}_descriptor;",
        f"callee.base.arena = {scope.tensor(step.arena)};",
    ]
    for field, value in zip(own.dims, step.dims, strict=True):
        body += statement(f"callee.dims.{field} = {scope.expr(value)};")
    for array, indices in (("given", step.inputs), ("taken", step.outputs)):
        for i, index in enumerate(indices):
            body += statement(f"{array}[{i}].data = (void*)(uintptr_t){scope.tensor(index)};")
            body += statement(f"{array}[{i}].bytes = (size_t){_operand(scope.size(tensor_bytes(tensors[index])))};")
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
    before = [line for index in step.outputs for line in _room(scope, index)]
    return [*before, f"{_marked(number)} /* {_all_described(scope, step.outputs)} */", "{", *indented(body), "}"]


def _operand(text: str) -> str:
    """C text of an expression as an operand of others."""
    return text if text.isidentifier() or text.isdigit() else f"({text})"


def _marked(number: int) -> str:
    """Tells a profiler that a step begins."""
    return f"DK_STEP({number});"


def field_name(field: str) -> str:
    """`x` of `const float *x`."""
    return field.replace("*", " ").split()[-1]


def _all_described(scope: Scope, indices: Iterable[int]) -> str:
    """`y[batch, 10], z[batch]`."""
    tensors = (scope.function.tensors[index] for index in indices)
    return ", ".join(in_comment(f"{tensor.name}{shape_text(tensor.shape)}") for tensor in tensors)


def _room(scope: Scope, index: int) -> Lines:
    """A check that an output has room for a tensor whose size only the run can tell, unless a step reserves it."""
    tensor = scope.function.tensors[index]
    if not isinstance(tensor.storage, OutputStorage) or scope.is_static(tensor.shape):
        return []
    output = tensor.storage.index
    if output in scope.reserved_outputs:
        return []
    return checked(f"dk_check_output(base, outputs, {output}, {scope.size(tensor_bytes(tensor))})")


def _copy(scope: Scope, step: Copy, _unread: frozenset[str], number: int) -> Lines:
    if step.gpu:
        return [*_room(scope, step.target), _marked(number), *_gpu_copy(scope, step.target, step.source, "0")]
    size = scope.expr(tensor_bytes(scope.function.tensors[step.source]))
    copy = statement(f"dk_copy({scope.tensor(step.target)}, {scope.tensor(step.source)}, {size});")
    return [*_room(scope, step.target), _marked(number), *copy]


def _copy_slice(scope: Scope, step: CopySlice, _unread: frozenset[str], number: int) -> Lines:
    source = scope.function.tensors[step.source]
    if step.gpu:
        offset = scope.expr(step.row * element_count(source.shape) * item_bytes(source.dtype))
        return [*_room(scope, step.target), _marked(number), *_gpu_copy(scope, step.target, step.source, offset)]
    row = scope.expr(step.row * element_count(source.shape))
    size = scope.expr(element_count(source.shape) * item_bytes(source.dtype))
    copy = statement(f"dk_copy({scope.tensor(step.target)} + {row}, {scope.tensor(step.source)}, {size});")
    if not step.where_room:
        return [*_room(scope, step.target), _marked(number), *copy]
    storage = scope.function.tensors[step.target].storage
    if isinstance(storage, OutputStorage):
        available = f"outputs[{storage.index}].bytes"
    else:
        assert isinstance(storage, ArenaStorage)
        available = f"(uint64_t){_operand(scope.size(scope.function.arena.slots[storage.slot].size))}"
    end = _operand(scope.size((step.row + 1) * element_count(source.shape) * item_bytes(source.dtype)))
    return [_marked(number), *statement(f"if ((uint64_t){end} <= {available}) {{"), *indented(copy), "}"]


def _if(scope: Scope, step: If, unread: frozenset[str], number: int) -> Lines:
    first = number + 1
    then = step_lines(scope, step.then, unread, first)
    otherwise = step_lines(scope, step.otherwise, unread, first + sum(1 for _ in number_steps(step.then)))
    lines = [f"if (*{scope.tensor(step.condition)}) {{", *indented(then)]
    return [*lines, "} else {", *indented(otherwise), "}"] if otherwise else [*lines, "}"]


def _loop(scope: Scope, step: Loop, unread: frozenset[str], number: int) -> Lines:
    index, count = scope.variable(step.index), scope.variable(step.count)
    scope.read_variables.add(index)
    trips = "" if step.trips is None else f"{index} < {_operand(scope.expr(step.trips))}"
    body: Lines = []
    if step.condition is not None:
        body += [f"if (!*{scope.tensor(step.condition)}) {{", INDENT + "break;", "}"]
    body += step_lines(scope, step.body, unread, number + 1)
    after = [] if count in unread else [f"{count} = {index};"]
    return [*statement(f"for ({index} = 0; {trips}; ++{index}) {{"), *indented(body), "}", *after]


_RULES: dict[type[Any], Callable[[Scope, Any, frozenset[str], int], Lines]] = {
    BindDim: _bind_dim,
    SetDim: _set_dim,
    Check: _check,
    CheckIndices: _check_indices,
    Reserve: _reserve,
    Launch: _launch,
    Copy: _copy,
    CopySlice: _copy_slice,
    Transfer: _transfer,
    If: _if,
    Loop: _loop,
    Call: _call,
}
