"""The step that runs the instances of a dynamic model, as C statements.

submit     the queue gets its memory, the instances are checked and copied, each gets a frame
step       the control flow runs until no frame can go on; then a flush launches nodes in batches
launch     a cell is a function of the program: its operands lie in the pool, and so do its results; a batch that needs
           more memory than caches hold is launched in pieces
take       tensors, numbers and the items of lists are copied to the outputs, and the trace if one was asked for

A whole run does all of this. For a stream (`runtime/batching/stream.h`), `submit`, `step` and `take` are calls of their
own.

On a GPU, `device_instances` has the calls of the driver. A flush then plans all its batches before it launches them,
and the run waits where control flow needs the value of a tensor, and for the results. There are whole runs only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

from deploykit.basics.dtypes import logical_dtype
from deploykit.compiler.batching.cells import Cell
from deploykit.compiler.codegen.host.device_instances import RESULTS, fetched, place, shared_copy, wait_in_stream
from deploykit.compiler.codegen.host.lines import Lines, braced, checked, indented, statement
from deploykit.compiler.codegen.host.scope import Scope, prefix_of
from deploykit.compiler.program.ir import RunInstances
from deploykit.dynamic.types import Bool, Float, Int, List, Tensor, Type, is_flat, parts


def run_instances(scope: Scope, step: RunInstances, number: int) -> Lines:
    """The statements of the step, a block of their own. `stream->verb` says which of them run."""
    rows = scope.expr(scope.function.tensors[step.roots].shape[0])
    begin = ["dk_stream* stream = &model->stream;", "dk_queue* queue = &stream->queue;"]
    if scope.program.gpu is not None:
        first = scope.resumes[number]
        results = [*fetched(scope, step, rows, parts(step.model.control.gives)), *wait_in_stream(first + 1)]
        run = _loop(scope, _device_flush(scope, step, first))
        take = [*_gather(step), *results, *_take(scope, step, rows)]
        return braced([*begin, "dk_plan plan;", "dk_batch chosen;", *_submit(scope, step, rows), *run, *take])
    run = ["dk_batch chosen;", *_loop(scope, _flush(scope, step))]
    return braced(
        [
            *begin,
            "",
            *_if("stream->running + stream->finished > 0", checked(_same_memory(scope, step))),
            *_if(_is("RUN", "SUBMIT"), _submit(scope, step, rows)),
            *_if(_is("RUN", "STEP"), run),
            *_if(_is("RUN", "TAKE"), [*_gather(step), *_take(scope, step, rows)]),
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
    policy = f"*{tensors(step.policy)}"
    words = scope.expr(shapes[step.instances].shape[0])
    own, elements = "NULL", "0"
    if step.elements is not None:
        own, elements = tensors(step.elements), scope.expr(shapes[step.elements].shape[0])
    in_parts = scope.program.gpu is None and any(cell.large for cell in step.model.cells)
    fields = [
        "model = base",
        f"words = {tensors(step.words)}",
        f"word_count = (int32_t)dk_min({scope.expr(step.words_dim)}, INT32_MAX)",
        f"words_dim = {_dim(scope, step.words_dim)}",
        f"pool = {tensors(step.pool)}",
        f"pool_count = (int32_t)dk_min({scope.expr(step.pool_dim)}, INT32_MAX)",
        f"pool_dim = {_dim(scope, step.pool_dim)}",
        f"alignment = {scope.program.alignment // 4}",
        f"cells = {prefix}_cells",
        f"cell_count = {len(step.cells)}",
        f"part = {'DK_PART_ELEMENTS' if in_parts else 0}",
        f"table = {prefix}_table",
        f"trace = stream->verb != DK_VERB_RUN || {policy} < DK_TRACE ? 0 : DK_TRACE_WORDS",
    ]
    begin = f"dk_stream_begin(stream, &{prefix}_entry, {words}, {elements})"
    given = f"{tensors(step.instances)}, {words}, {own}, {elements}, {tensors(step.roots)}, {rows}"
    begins = [
        *(line for field in fields for line in statement(f"queue->{field};")),
        *checked(begin),
        *_shared(scope, step),
    ]
    upload = checked(f"dk_upload_instances(queue, driver, {elements})") if scope.program.gpu is not None else []
    return [
        *_if("stream->running + stream->finished == 0", begins),
        *statement(f"queue->policy = (dk_policy)({policy} % DK_TRACE);"),
        *checked(f"dk_join(stream, &{prefix}_entry, {given})"),
        *upload,
    ]


def _dim(scope: Scope, var: object) -> int:
    return next(index for index, dim in enumerate(scope.function.dims) if dim.var is var or dim.var.same_as(var))


def _shared(scope: Scope, step: RunInstances) -> Lines:
    if step.shared is None:
        return []
    on_gpu = scope.program.gpu is not None
    sizes = ", ".join(str(prod(node.shape)) for node in step.model.constants)
    elements = "NULL" if on_gpu else scope.tensor(step.shared)
    body = [
        *statement(f"static const int32_t sizes[] = {{{sizes}}};"),
        *statement(f"stream->shared = dk_share(queue, {elements}, sizes, {len(step.model.constants)});"),
        *checked("queue->status"),
    ]
    return [*braced(body), *(shared_copy(scope, step) if on_gpu else [])]


def _loop(scope: Scope, flush: Lines) -> Lines:
    """Flushes: one of a stream, all of a whole run. So that what a stream returns is there after the flush, that flush
    runs everything."""
    control = checked(f"{prefix_of(scope.program)}_control(queue, stream->shared)")
    begin = "dk_begin_flush(queue, stream->verb == DK_VERB_STEP && queue->returned > 0)"
    body = [*control, *_if(begin, flush), *checked("queue->status"), "dk_resume(queue);", "dk_finish(stream);"]
    return ["do {", *indented(body), "} while (stream->verb == DK_VERB_RUN && queue->ready != 0);"]


def _flush(scope: Scope, step: RunInstances) -> Lines:
    """Launch each batch before the next one is chosen."""
    launches = _launches(scope, step, _in_pieces)
    return ["while (dk_next_batch(queue, &chosen)) {", *indented(launches), "}", *checked("queue->status")]


def _device_flush(scope: Scope, step: RunInstances, place: int) -> Lines:
    """Choose all batches, launch them, and wait for what frames wait for."""
    launches = _launches(scope, step, _on_gpu)
    awaited = [*checked("dk_fetch_numbers(queue, driver, &plan)"), *wait_in_stream(place)]
    return [
        *checked("dk_plan_flush(queue, driver, &plan)"),
        "while (dk_planned_batch(queue, &plan, &chosen)) {",
        *indented(launches),
        "}",
        "if (queue->waiting != 0) {",
        *indented(awaited),
        "}",
    ]


def _launches(scope: Scope, step: RunInstances, launch: Callable[[Scope, Scope, RunInstances, Cell], Lines]) -> Lines:
    """Launch the cell of a batch."""
    cases: Lines = []
    for number, name in enumerate(step.cells):
        lines = launch(scope, Scope(scope.program, scope.callee(name)), step, step.model.cells[number])
        cases += [f"case {number}: {{", *indented(lines), "    break;", "}"]
    failed = ["if (status == DK_OK) {", "    status = queue->status;", "}"]
    failed += ["if (status != DK_OK) {", "    return status;", "}"]
    return ["switch (chosen.cell) {", *cases, "default:", "    break;", "}", *failed]


def _in_pieces(scope: Scope, own: Scope, step: RunInstances, cell: Cell) -> Lines:
    """Launch a cell, whose names are `own`, for the nodes of a batch in pieces of so many that the caches hold what
    they need."""
    pool = scope.tensor(step.pool)
    given: Lines = []
    for index, at in enumerate(_indices(cell), 1 if cell.operands else 0):
        given += statement(f"given[{index}].data = (void*)(uintptr_t)({at} + first);")
    for index, shape in enumerate(cell.gives):
        at = f"first * (int64_t){prod(shape)}"
        given += statement(f"taken[{index}].data = {pool} + chosen.results[{index}] + {at};")
    nodes = next(field for field, dim in zip(own.dims, own.function.dims, strict=True) if dim.name == "nodes")
    needed = f"{own.prefix}_arena_bytes(&callee.dims)"
    piece = [
        f"callee.dims.{nodes} = dk_min(piece, chosen.count - first);",
        *given,
        *statement(f"callee.base.arena = dk_scratch(queue, {needed});"),
        *checked("queue->status"),
        f"status = {own.prefix}_steps{scope.level}(&callee, given, taken);",
    ]
    return [
        *_callee(own, "int32_t piece;", "int32_t first;"),
        *_dims(own, nodes="chosen.count", elements="queue->pool_used"),
        *([f"given[0].data = {pool};"] if cell.operands else []),
        *statement(f"piece = dk_piece(queue, &chosen, {needed});"),
        "for (first = 0; first < chosen.count && status == DK_OK; first += piece) {",
        *indented(piece),
        "}",
        *_message(),
    ]


def _on_gpu(scope: Scope, own: Scope, step: RunInstances, cell: Cell) -> Lines:
    """Launch a cell, whose names are `own`, for the nodes of a batch. It may bind the pool up to where its results
    begin: no dispatch binds the memory that it writes a second time."""
    pool = scope.tensor(step.pool)
    given = [*([pool] if cell.operands else []), *_indices(cell)]
    taken = [f"{pool} + chosen.results[{index}]" for index in range(len(cell.gives))]
    return [
        *_callee(own),
        "callee.driver = driver;",
        "callee.resume = 0;",
        *_dims(own, nodes="chosen.count", elements="chosen.results[0]"),
        *(line for index, at in enumerate(given) for line in statement(f"given[{index}].data = {place(at)};")),
        *(line for index, at in enumerate(taken) for line in statement(f"taken[{index}].data = {place(at)};")),
        *statement(f"callee.base.arena = {place(f'dk_scratch(queue, {own.prefix}_arena_bytes(&callee.dims))')};"),
        *checked("queue->status"),
        f"status = {own.prefix}_steps(&callee, given, taken);",
        *_message(),
    ]


def _indices(cell: Cell) -> list[str]:
    """C text of where the indices of each operand and number of a batch begin."""
    count = len(cell.operands) + cell.numbers
    return [
        f"chosen.indices + {index} * (int64_t)chosen.stride" if index else "chosen.indices" for index in range(count)
    ]


def _callee(own: Scope, *declared: str) -> Lines:
    """The model of a cell, and arrays of its inputs and outputs."""
    return [
        f"{own.prefix}_model callee;",
        f"dk_tensor given[{len(own.function.inputs)}];",
        f"dk_tensor taken[{len(own.function.outputs)}];",
        *declared,
        f"dk_begin_callee(&callee.base, base, &{own.prefix}_descriptor);",
    ]


def _dims(own: Scope, **values: str) -> Lines:
    fields = zip(own.dims, own.function.dims, strict=True)
    return [f"callee.dims.{field} = {values[dim.name]};" for field, dim in fields]


def _message() -> Lines:
    return ["if (status != DK_OK) {", "    dk_copy(base->error, callee.base.error, DK_ERROR_TEXT);", "}"]


def _gather(step: RunInstances) -> Lines:
    stride = step.model.control.functions[0].results
    return checked(f"dk_gather(stream, {stride})")


def _take(scope: Scope, step: RunInstances, rows: str) -> Lines:
    """Copies of what the finished instances return to the outputs."""
    return [
        *_results(scope, step, rows),
        *_trace(scope, step),
        *statement(f"dk_taken(stream, {scope.tensor(step.launches)});"),
    ]


def _results(scope: Scope, step: RunInstances, rows: str) -> Lines:
    if not is_flat(step.model.control.gives):
        return _records(scope, step, rows)
    stride = step.model.control.functions[0].results
    outputs = iter(step.outputs)
    lines: Lines = []
    for kind, word in parts(step.model.control.gives):
        first = f"{RESULTS} + {word}" if word else RESULTS
        lines += _result(scope, step, kind, first, stride, rows, outputs)
    return lines


def _trace(scope: Scope, step: RunInstances) -> Lines:
    count = scope.variable(step.traced)
    index = len(step.outputs) + 1
    return [
        f"{count} = queue->traced;",
        *checked(f"dk_check_output(base, outputs, {index}, DK_TRACED * 4 * {count})"),
        *statement(f"dk_give_trace(queue, {scope.tensor(step.trace)});"),
    ]


def _records(scope: Scope, step: RunInstances, rows: str) -> Lines:
    """Copies of the records that the results consist of."""
    prefix = prefix_of(scope.program)
    words, elements = (scope.variable(var) for _, var in step.totals)
    given = f"queue, {prefix}_types, {RESULTS}, {rows}, {prefix}_results, "
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
