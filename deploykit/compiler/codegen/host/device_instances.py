"""Instances on a GPU as C statements: what `instances` adds to its own (`runtime/batching/device.h`).

The control flow stays on the host. Tensors are in the pool of the GPU; the host has copies of those of one element,
which are all that control flow can ask for, and at the end of those that the instances return.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

import numpy as np

from deploykit.compiler.batching.cells import evaluate
from deploykit.compiler.codegen.host.driver_calls import device_copy, wait
from deploykit.compiler.codegen.host.lines import Lines, braced, checked, indented, statement
from deploykit.compiler.codegen.host.scope import Scope, prefix_of
from deploykit.compiler.program.ir import RunInstances
from deploykit.dynamic.types import List, Tensor, Type, is_flat

RESULTS = "stream->gathered"
"""C text of the words of what the finished instances return, one instance after the other."""


def place(address: str) -> str:
    """C text of the place on the GPU of host memory of the arena."""
    return f"dk_place(queue, {address})"


def wait_in_stream(place: int) -> Lines:
    """Waits for the GPU. The run may return in the meantime."""
    return wait(place, ["stream = &model->stream;", "queue = &stream->queue;"])


def shared_copy(scope: Scope, step: RunInstances) -> Lines:
    """Copies the values that are the same in every run from the weights to the pool. The host gets those of one element
    from the program."""
    assert step.shared is not None
    first = "4 * (int64_t)queue->words[stream->shared]"
    lines = device_copy(scope, "dk_pool_slice(queue, queue->pool_used)", step.shared, first)
    for number, node in enumerate(step.model.constants):
        if prod(node.shape) == 1:
            (bits,) = evaluate(node, step.model.weights).astype(np.float32).reshape(1).view(np.uint32)
            value = f"queue->words[stream->shared + {2 * number}]"
            body = [f"static const uint32_t bits = {bits}u;", *statement(f"dk_copy(queue->pool + {value}, &bits, 4);")]
            lines += braced(body)
    return lines


def fetched(scope: Scope, step: RunInstances, rows: str, parts: Iterable[tuple[Type, int]]) -> Lines:
    """Downloads the tensors of the results. `parts` are the types that results consist of, with their places."""
    model = step.model.control
    if not is_flat(model.gives):
        prefix = prefix_of(scope.program)
        find = f"dk_find_records(queue, {prefix}_types, {RESULTS}, {rows}, {prefix}_results, &found)"
        fetch = f"dk_fetch_records(queue, driver, {prefix}_types, &found)"
        return braced(["dk_records found;", *checked(find), *checked(fetch)])
    lines: Lines = []
    stride = model.functions[0].results
    for kind, word in parts:
        first = f"{RESULTS} + {word}" if word else RESULTS
        match kind:
            case Tensor(shape):
                lines += checked(f"dk_fetch_tensors(queue, driver, {first}, {stride}, {rows}, {prod(shape)})")
            case List(Tensor(shape)):
                items = "list + DK_LIST_FIRST"
                body = [
                    *statement(f"const int32_t list = queue->words[{first} + {stride} * row];"),
                    *statement("const int32_t count = queue->words[list + DK_LIST_LENGTH];"),
                    *checked(f"dk_fetch_tensors(queue, driver, queue->words[{items}], 1, count, {prod(shape)})"),
                ]
                loop = [f"for (row = 0; row < {rows}; ++row) {{", *indented(body), "}"]
                lines += braced(["int64_t row;", *loop])
            case _:
                pass
    return lines
