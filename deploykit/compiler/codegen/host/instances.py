"""The step that runs the instances of a dynamic model, as C statements.

submit     the queue gets its memory, the instances are checked and copied, each gets a frame
step       the control flow runs until no frame can go on; then a flush launches nodes in batches
launch     a cell is a function of the program: its operands lie in the pool, and so do its results; a batch that needs
           more memory than caches hold is launched in pieces
take       tensors, numbers and the items of lists are copied to the outputs

A whole run does all of this. For a stream (`runtime/batching/stream.h`), `submit`, `step` and `take` are calls of their
own.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from deploykit.compiler.codegen.host.scope import Scope, prefix_of
from deploykit.compiler.codegen.host.text import Lines, braced, checked, indented, statement
from deploykit.compiler.program.ir import RunInstances
from deploykit.dtypes import logical_dtype
from deploykit.dynamic.types import Bool, Float, Int, List, Tensor, Type, is_flat, parts


def run_instances(scope: Scope, step: RunInstances, _number: int) -> Lines:
    """The statements of the step, a block of their own. `stream->verb` says which of them run."""
    rows = scope.expr(scope.function.tensors[step.roots].shape[0])
    return braced(
        [
            "dk_stream* const stream = &model->stream;",
            "dk_queue* const queue = &stream->queue;",
            "",
            *_if("stream->running + stream->finished > 0", checked(_same_memory(scope, step))),
            *_if(_is("RUN", "SUBMIT"), _submit(scope, step, rows)),
            *_if(_is("RUN", "STEP"), _run(scope, step)),
            *_if(_is("RUN", "TAKE"), _take(scope, step, rows)),
        ]
    )


def _is(*verbs: str) -> str:
    return " || ".join(f"stream->verb == DK_VERB_{verb}" for verb in verbs)


def _if(condition: str, body: Lines) -> Lines:
    return [*statement(f"if ({condition}) {{"), *indented(body), "}"]


def _same_memory(scope: Scope, step: RunInstances) -> str:
    words, pool = scope.expr(step.words_dim), scope.expr(step.pool_dim)
    return f"dk_check_memory(queue, {scope.tensor(step.words)}, {words}, {scope.tensor(step.pool)}, {pool})"


def _submit(scope: Scope, step: RunInstances, rows: str) -> Lines:
    prefix = prefix_of(scope.program)
    tensors, shapes = scope.tensor, scope.function.tensors
    words = scope.expr(shapes[step.instances].shape[0])
    elements = "NULL, 0"
    if step.elements is not None:
        elements = f"{tensors(step.elements)}, {scope.expr(shapes[step.elements].shape[0])}"
    fields = [
        "model = base",
        f"words = {tensors(step.words)}",
        f"word_count = (int32_t)dk_min({scope.expr(step.words_dim)}, INT32_MAX)",
        f"words_dim = {_dim(scope, step.words_dim)}",
        f"pool = {tensors(step.pool)}",
        f"pool_count = (int32_t)dk_min({scope.expr(step.pool_dim)}, INT32_MAX)",
        f"pool_dim = {_dim(scope, step.pool_dim)}",
        f"cells = {prefix}_cells",
        f"cell_count = {len(step.cells)}",
        f"table = {prefix}_table",
    ]
    begin = f"dk_stream_begin(stream, &{prefix}_entry, {words}, {elements.split(', ')[1]})"
    given = f"{tensors(step.instances)}, {words}, {elements}, {tensors(step.roots)}, {rows}"
    begins = [
        *(line for field in fields for line in statement(f"queue->{field};")),
        *checked(begin),
        *_shared(scope, step),
    ]
    return [
        *_if("stream->running + stream->finished == 0", begins),
        *statement(f"queue->policy = (dk_policy)*{tensors(step.policy)};"),
        *checked(f"dk_join(stream, &{prefix}_entry, {given})"),
    ]


def _dim(scope: Scope, var: object) -> int:
    return next(index for index, dim in enumerate(scope.function.dims) if dim.var is var or dim.var.same_as(var))


def _shared(scope: Scope, step: RunInstances) -> Lines:
    if step.shared is None:
        return []
    sizes = ", ".join(str(prod(node.shape)) for node in step.model.constants)
    body = [
        *statement(f"static const int32_t sizes[] = {{{sizes}}};"),
        *statement(
            f"stream->shared = dk_share(queue, {scope.tensor(step.shared)}, sizes, {len(step.model.constants)});"
        ),
        *checked("queue->status"),
    ]
    return braced(body)


def _run(scope: Scope, step: RunInstances) -> Lines:
    """Flushes: one of a stream, all of a whole run. So that what a stream returns is there after the flush, that flush
    runs everything."""
    cases: Lines = []
    for number, name in enumerate(step.cells):
        cases += [f"case {number}: {{", *indented(_launch(scope, step, number, name)), "    break;", "}"]
    launches = ["switch (chosen.cell) {", *cases, "default:", "    break;", "}"]
    failed = ["if (status == DK_OK) {", "    status = queue->status;", "}"]
    failed += ["if (status != DK_OK) {", "    return status;", "}"]
    flush = ["while (dk_next_batch(queue, &chosen)) {", *indented([*launches, *failed]), "}"]
    control = checked(f"{prefix_of(scope.program)}_control(queue, stream->shared)")
    begin = "dk_begin_flush(queue, stream->verb == DK_VERB_STEP && queue->returned > 0)"
    body = [*control, *_if(begin, flush), *checked("queue->status"), "dk_resume(queue);", "dk_finish(stream);"]
    return [
        "dk_batch chosen;",
        "do {",
        *indented(body),
        "} while (stream->verb == DK_VERB_RUN && queue->ready != 0);",
    ]


def _launch(scope: Scope, step: RunInstances, number: int, name: str) -> Lines:
    """Launch a cell for the nodes of a batch, in pieces of so many that the caches hold what they need."""
    own = Scope(scope.program, scope.callee(name))
    cell = step.model.cells[number]
    pool = scope.tensor(step.pool)
    given: Lines = []
    offset = 1 if cell.operands else 0
    for index in range(len(cell.operands) + cell.numbers):
        at = f"chosen.indices + {index} * (int64_t)chosen.count" if index else "chosen.indices"
        given += statement(f"given[{index + offset}].data = (void*)(uintptr_t)({at} + first);")
    for index, shape in enumerate(cell.gives):
        at = f"first * (int64_t){prod(shape)}"
        given += statement(f"taken[{index}].data = {pool} + chosen.results[{index}] + {at};")
    dims = {"nodes": "chosen.count", "elements": "queue->pool_used"}
    sizes = [f"callee.dims.{field} = {dims[dim.name]};" for field, dim in zip(own.dims, own.function.dims, strict=True)]
    nodes = next(field for field, dim in zip(own.dims, own.function.dims, strict=True) if dim.name == "nodes")
    needed = f"{own.prefix}_arena_bytes(&callee.dims)"
    piece = [
        f"callee.dims.{nodes} = dk_min(piece, chosen.count - first);",
        *given,
        *statement(f"callee.base.arena = dk_scratch(queue, {needed});"),
        *checked("queue->status"),
        f"status = {own.prefix}_steps{scope.level}(&callee, given, taken);",
    ]
    message = "dk_copy(base->error, callee.base.error, DK_ERROR_TEXT);"
    return [
        f"{own.prefix}_model callee;",
        f"dk_tensor given[{len(own.function.inputs)}];",
        f"dk_tensor taken[{len(own.function.outputs)}];",
        "int32_t piece;",
        "int32_t first;",
        "callee.base = *base;",
        f"callee.base.descriptor = &{own.prefix}_descriptor;",
        *sizes,
        *([f"given[0].data = {pool};"] if cell.operands else []),
        *statement(f"piece = dk_piece(queue, &chosen, {needed});"),
        "for (first = 0; first < chosen.count && status == DK_OK; first += piece) {",
        *indented(piece),
        "}",
        "if (status != DK_OK) {",
        *indented([message]),
        "}",
    ]


def _take(scope: Scope, step: RunInstances, rows: str) -> Lines:
    """Copies of what the finished instances return to the outputs."""
    stride = step.model.control.functions[0].results
    return [
        *statement(f"const int32_t results = dk_gather(stream, {stride});"),
        *checked("queue->status"),
        *_results(scope, step, stride, rows),
        *statement(f"dk_taken(stream, {scope.tensor(step.launches)});"),
    ]


def _results(scope: Scope, step: RunInstances, stride: int, rows: str) -> Lines:
    if not is_flat(step.model.control.gives):
        return _records(scope, step, rows)
    outputs = iter(step.outputs)
    lines: Lines = []
    for kind, word in parts(step.model.control.gives):
        lines += _result(scope, step, kind, f"results + {word}" if word else "results", stride, rows, outputs)
    return lines


def _records(scope: Scope, step: RunInstances, rows: str) -> Lines:
    """Copies of the records that the results consist of."""
    prefix = prefix_of(scope.program)
    words, elements = (scope.variable(var) for _, var in step.totals)
    given = f"queue, {prefix}_types, results, {rows}, {prefix}_results, "
    targets = ", ".join(map(scope.tensor, step.outputs))
    return [
        "{",
        *indented(
            [
                "dk_records found;",
                *checked(f"dk_find_records({given}&found)"),
                f"{words} = found.words;",
                f"{elements} = found.elements;",
                *checked(f"dk_check_output(base, outputs, 1, 4 * {words})"),
                *checked(f"dk_check_output(base, outputs, 2, 4 * {elements})"),
                *statement(f"dk_give_records({given}&found, {targets});"),
            ]
        ),
        "}",
    ]


def _result(
    scope: Scope, step: RunInstances, kind: Type, first: str, stride: int, rows: str, outputs: Iterator[int]
) -> Lines:
    target = next(outputs)
    name = scope.tensor(target)
    match kind:
        case Tensor(shape):
            call = f"dk_give_tensors(queue, {first}, {stride}, {rows}, {prod(shape)}, {name});"
            return statement(call)
        case Int() | Bool():
            word = f"queue->words[{first} + {stride} * row]"
            return _each_row(rows, f"{name}[row] = {word}{' != 0' if isinstance(kind, Bool) else ''};")
        case Float():
            return _each_row(rows, f"{name}[row] = dk_real(queue->words + {first} + {stride} * row);")
        case List(item):
            return _list(scope, step, item, target, next(outputs), first, stride, rows)
        case _:
            raise ValueError(f"{kind} is no result")


def _each_row(rows: str, text: str) -> Lines:
    loop = [f"for (row = 0; row < {rows}; ++row) {{", *indented(statement(text)), "}"]
    return braced(["int64_t row;", *loop])


def _list(
    scope: Scope, step: RunInstances, item: Type, target: int, lengths: int, first: str, stride: int, rows: str
) -> Lines:
    """The items of the lists of all instances, one after the other, and the length of each list."""
    tensor = scope.function.tensors[target]
    index = next(place for place, output in enumerate(step.outputs) if output == target)
    total = scope.variable(dict(step.totals)[index])
    size = logical_dtype(tensor.dtype).storage.itemsize * prod(item.shape if isinstance(item, Tensor) else ())
    name = scope.tensor(target)
    head = f"const int32_t first = queue->words[queue->words[{first} + {stride} * row] + DK_LIST_FIRST];"
    count = f"{scope.tensor(lengths)}[row]"
    match item:
        case Tensor(shape):
            copy = f"dk_give_tensors(queue, first, 1, {count}, {prod(shape)}, {name} + {prod(shape)} * done);"
            body = statement(copy)
        case Float():
            body = statement(f"dk_copy({name} + done, queue->words + first, 8 * (int64_t){count});")
        case Bool():
            body = [f"for (i = 0; i < {count}; ++i) {{", f"    {name}[done + i] = queue->words[first + i] != 0;", "}"]
        case _:
            body = statement(f"dk_copy({name} + done, queue->words + first, 4 * (int64_t){count});")
    loop = [head, *body, f"done += {count};"]
    declared = ["int64_t done = 0;", "int64_t row;", *(["int32_t i;"] if isinstance(item, Bool) else [])]
    return [
        *statement(f"{total} = dk_give_lengths(queue, {first}, {stride}, {rows}, {scope.tensor(lengths)});"),
        *checked(f"dk_check_output(base, outputs, {index}, {size} * {total})"),
        "{",
        *indented([*declared, f"for (row = 0; row < {rows}; ++row) {{", *indented(loop), "}"]),
        "}",
    ]
