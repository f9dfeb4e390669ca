"""Steps on a GPU as C statements: calls of its driver, and places in its memory.

Launch          dk_dispatch, with the number of a shader in `shaders.bindings`
Transfer        dk_upload; or dk_download and a label, where the run goes on when the data are there
Copy, CopySlice driver->copy
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from tvm.ir import PointerType

from deploykit.compiler.codegen.host.lines import Lines, braced, checked, indented, statement
from deploykit.compiler.codegen.host.scope import Scope
from deploykit.compiler.codegen.shaders.bindings import constant_parts, sharing_of
from deploykit.compiler.dims import substitute
from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.program.ir import ConstantStorage, Launch, Transfer


def dispatch(scope: Scope, step: Launch) -> Lines:
    kernel, gpu = scope.program.kernels[step.kernel], scope.program.gpu
    assert gpu is not None, "only programs with a GPU have shaders"
    sharing = sharing_of(scope.program, scope.function, step)
    firsts = [step.tensors[sharing.groups.index(group)] for group in range(len(sharing.written))]
    places = [
        place for bound in zip(firsts, sharing.parts, sharing.whole, strict=True) for place in _bindings(scope, *bound)
    ]
    values = [scope.expr(value) for value in step.scalars]
    extent: IntExpr = 1 if kernel.parallel_extent is None else kernel.parallel_extent
    if kernel.team:
        extent = extent * gpu.workgroup
    params = [param for param in kernel.func.params if not isinstance(param.ty, PointerType)]
    threads = scope.size(substitute(extent, dict(zip(params, step.scalars, strict=False))))
    shader = scope.shaders[step.kernel, sharing]
    return braced(
        [
            *statement(f"const dk_slice slices[] = {{{', '.join(places)}}};"),
            *statement(f"const int64_t scalars[] = {{{', '.join(values) or '0'}}};"),
            *checked(f"dk_dispatch(base, driver, {shader}, slices, {len(places)}, scalars, {len(values)}, {threads})"),
        ]
    )


def _bindings(scope: Scope, tensor: int, parts: Sequence[int], most: int) -> list[str]:
    """The slices of a tensor that has a binding for each of its `parts`. The first one is the whole tensor where the
    device can bind that: `most` bytes, unless it is a constant."""
    if not parts:
        return [scope.slice(tensor)]
    if not isinstance(scope.function.tensors[tensor].storage, ConstantStorage):
        place = f"(dk_slice){scope.slice(tensor)}"
        numbers = f"{most}, {parts[0]}, {{}}, {len(parts)}"
        return [f"dk_part(driver, {place}, {numbers.format(number)})" for number in range(len(parts))]
    whole = sum(parts)
    first = scope.part(tensor, 0, f"driver->binding_bytes < {whole} ? {parts[0]} : {whole}")
    return [first, *(scope.part(tensor, at, size) for at, size in zip(accumulate(parts), parts[1:], strict=False))]


def transfer(scope: Scope, step: Transfer, number: int) -> Lines:
    lines: Lines = []
    for index in step.tensors:
        tensor, place = scope.tensor(index), scope.slice(index)
        call = (
            f"dk_upload(base, driver, &place, {tensor})"
            if step.to_gpu
            else f"dk_download(base, driver, {tensor}, &place)"
        )
        body = [*statement(f"const dk_slice place = {place};"), *checked(call)]
        lines += braced(body)
    return lines if step.to_gpu else lines + wait(scope.resumes[number])


def wait(place: int, restored: Sequence[str] = ()) -> Lines:
    """Waits for the GPU. When the driver cannot wait, the run returns, and goes on here when it is called again. Then
    `restored` are the first statements."""
    return [
        "/* fall through */",
        f"case {place}:",
        *restored,
        "status = dk_check_driver(base, driver, driver->wait(driver));",
        "if (status == DK_PENDING) {",
        *indented([f"model->resume = {place};", "goto suspended;"]),
        "}",
        "if (status != DK_OK) {",
        *indented(["return status;"]),
        "}",
    ]


def device_copy(scope: Scope, target: str, source: int, offset: str) -> Lines:
    """Copies all of `source` to byte `offset` of the slice `target`. The parts of a large constant are copied one by
    one."""
    lines: Lines = []
    parts = constant_parts(scope.program, scope.function.tensors[source].storage)
    for first, size in zip(accumulate(parts, initial=0), parts or (0,), strict=False):
        place = scope.part(source, first, size) if parts else scope.slice(source)
        at = f"{offset} + {first}" if first else offset
        body = [
            *statement(f"const dk_slice from = {place};"),
            *statement(f"const dk_slice to = {target};"),
            *checked(f"dk_check_driver(base, driver, driver->copy(driver, &to, {at}, &from))"),
        ]
        lines += braced(body)
    return lines
