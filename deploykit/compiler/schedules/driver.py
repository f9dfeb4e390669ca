"""Tries the rules in order, and records the reasons why they declined."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tvm import ir, tirx
from tvm.ir.prim import expr as prim

from deploykit.compiler.decisions import Choice, Declined
from deploykit.compiler.devices.cpu import Device
from deploykit.compiler.operators.anchors.attention import ROLE, ROLES
from deploykit.compiler.schedules.attention import attention
from deploykit.compiler.schedules.conv.depthwise import depthwise
from deploykit.compiler.schedules.conv.direct import direct_conv
from deploykit.compiler.schedules.conv.register_tiles import conv
from deploykit.compiler.schedules.conv.winograd import winograd
from deploykit.compiler.schedules.fallback import plain
from deploykit.compiler.schedules.integer.amx import integer_amx
from deploykit.compiler.schedules.integer.depthwise import integer_depthwise
from deploykit.compiler.schedules.integer.depthwise_rows import depthwise_rows
from deploykit.compiler.schedules.integer.depthwise_words import depthwise_words
from deploykit.compiler.schedules.integer.matmul import integer_matmul
from deploykit.compiler.schedules.integer.rows import integer_rows
from deploykit.compiler.schedules.integer.words import integer_words
from deploykit.compiler.schedules.kernel.access import Views
from deploykit.compiler.schedules.kernel.epilogue import merge_epilogues
from deploykit.compiler.schedules.kernel.inline import inline
from deploykit.compiler.schedules.kernel.loops import evaluated_once, nested
from deploykit.compiler.schedules.kernel.registers import fit_registers
from deploykit.compiler.schedules.kernel.stages import Nest, Opaque, Stage, read
from deploykit.compiler.schedules.matmul.register_tiles import matmul
from deploykit.compiler.schedules.pointwise.elementwise import elementwise
from deploykit.compiler.schedules.pointwise.interleave import interleave
from deploykit.compiler.schedules.pointwise.transpose import transpose
from deploykit.compiler.schedules.reduction.accumulators import reduction
from deploykit.compiler.schedules.reduction.row_kernels import Rows, rows_of, write_through
from deploykit.compiler.schedules.vloop import is_vloop, scheduled
from deploykit.compiler.tir.inexact import EXACT
from deploykit.compiler.tir.prefetches import without_prefetches
from deploykit.compiler.tir.rewriting import collect, sequence
from deploykit.compiler.tir.values import dtype_of

Rule = Callable[[Stage, Views, Device], "list[tirx.Stmt] | Declined"]

RULES: Mapping[str, Rule] = {
    "matmul": matmul,
    "conv": conv,
    "winograd": winograd,
    "depthwise": depthwise,
    "direct_conv": direct_conv,
    "integer_amx": integer_amx,
    "integer_matmul": integer_matmul,
    "integer_words": integer_words,
    "integer_rows": integer_rows,
    "integer_depthwise": integer_depthwise,
    "depthwise_rows": depthwise_rows,
    "depthwise_words": depthwise_words,
    "interleave": interleave,
    "transpose": transpose,
    "elementwise": elementwise,
    "reduction": reduction,
}
"""The rules by name, in the order in which they are tried."""

GUARDS = ("matmul", "reduction")
"""The rules that take stages which store under a condition."""

PLAIN = "plain"
"""The name of the fallback rule."""

IMPERATIVE = "imperative"
"""The name that replaces a rule for imperative loops, which keep their order."""


def schedule(func: tirx.PrimFunc, device: Device) -> tirx.PrimFunc:
    """`func` scheduled for `device`: same parameters, and same values up to the order of floating-point additions."""
    return schedule_explained(func, device)[0]


def explain(func: tirx.PrimFunc, device: Device) -> tuple[Choice, ...]:
    """For each stage of `func`, the rule that took it, and the reasons why the rules before declined."""
    return schedule_explained(func, device)[1]


def prepared(func: tirx.PrimFunc) -> Nest | Declined:
    """The stages of `func` that rules get, or the reason why there are none."""
    nest = read(func)
    return nest if isinstance(nest, Declined) else write_through(merge_epilogues(inline(nest)))


def schedule_explained(func: tirx.PrimFunc, device: Device) -> tuple[tirx.PrimFunc, tuple[Choice, ...]]:
    """The results of `schedule` and `explain` together."""
    done, choices = _scheduled(func, device)
    return (done.with_attr(EXACT, True) if device.exact else done), choices


def _scheduled(func: tirx.PrimFunc, device: Device) -> tuple[tirx.PrimFunc, tuple[Choice, ...]]:
    if is_vloop(func):
        return scheduled(func, device, schedule_explained)
    before: dict[str, str] = {}
    if device.vector_bits and not device.halves and _computes_halves(func):
        device = replace(device, vector_bits=0)
        before["vectors"] = "it computes float16, for which the device has no instructions"
    nest = prepared(func)
    if isinstance(nest, Declined):
        body = _imperative(func.body, device)
        reasons = {"by stages": nest.reason}
        choice = Choice("all of it", IMPERATIVE, reasons, one_by_one=_one_by_one([body], device))
        return func.with_body(body), (choice,)
    views = Views()
    statements: list[tirx.Stmt] = []
    choices: list[Choice] = []
    gone: list[tirx.Buffer] = []
    position = 0
    while position < len(nest.stages):
        stage = nest.stages[position]
        asked = dict(before)
        if isinstance(stage, Stage) and stage.annotations.get(ROLE) == ROLES[0]:
            run = nest.stages[position : position + len(ROLES)]
            done = attention(run, views, device)
            if not isinstance(done, Declined):
                statements.extend(done)
                choices.append(Choice(stage.name, "attention"))
                gone.extend(b for part in run[:-1] if isinstance(part, Stage) for b in part.outputs)
                position += len(ROLES)
                continue
            asked["attention"] = done.reason
        rows, count = _longest_rows(nest, position)
        if isinstance(stage, Opaque):
            body = _imperative(stage.body, device)
            statements.append(body)
            choices.append(Choice("block", IMPERATIVE, asked, one_by_one=_one_by_one([body], device)))
        elif rows is not None:
            looped, found = _row_loop(rows, views, device)
            statements.append(looped)
            choices.extend(found)
            gone.extend(rows.shrunk)
        else:
            done, choice = _apply(stage, views, device)
            statements.extend(done)
            choices.append(replace(choice, declined={**asked, **choice.declined}))
        position += count
    kept = tuple(buffer for buffer in nest.temporaries if not any(buffer.same_as(other) for other in gone))
    result = _write(replace(nest, temporaries=kept), statements, views)
    if device.vector_bits:
        result = result.with_body(evaluated_once(result.body))
    return result, tuple(choices)


def _computes_halves(func: tirx.PrimFunc) -> bool:
    """Whether a kernel does more with float16 than to read it as float32. Without float16 instructions, vectors that
    are rounded to float16 become very long code."""
    if any(dtype_of(store.buffer) == "float16" for store in collect(func.body, tirx.BufferStore)):
        return True
    halves = sum(dtype_of(load) == "float16" for load in collect(func.body, ir.TensorLoad))
    widened = [cast for cast in collect(func.body, prim.Cast) if dtype_of(cast) == "float32"]
    return halves > sum(isinstance(cast.value, ir.TensorLoad) and dtype_of(cast.value) == "float16" for cast in widened)


def _longest_rows(nest: Nest, position: int) -> tuple[Rows | None, int]:
    """The longest run of stages from `position` on that share rows, and its length."""
    for stop in range(len(nest.stages), position + 1, -1):
        run = nest.stages[position:stop]
        stages = [stage for stage in run if isinstance(stage, Stage)]
        if len(stages) == len(run) > 1:
            rows = rows_of(stages, nest.temporaries, (*nest.stages[:position], *nest.stages[stop:]))
            if isinstance(rows, Rows):
                return rows, len(run)
    return None, 1


def _row_loop(rows: Rows, views: Views, device: Device) -> tuple[tirx.Stmt, list[Choice]]:
    """A loop over rows that runs all stages for each row."""
    alone = replace(device, parallel=False)
    body: list[tirx.Stmt] = []
    choices: list[Choice] = []
    for stage in rows.stages:
        statements, choice = _apply(stage, views, alone)
        body.extend(statements)
        choices.append(replace(choice, by_rows=True))
    declared = [s for buffer in rows.locals for s in (tirx.AllocBuffer(buffer), *views.declarations(buffer))]
    return nested(rows.axes, sequence([*declared, *body]), device.parallel), choices


def _imperative(body: tirx.Stmt, device: Device) -> tirx.Stmt:
    """The statements of an imperative kernel, as a device runs them."""
    return fit_registers(body if device.prefetches else without_prefetches(body), device)


def _write(nest: Nest, statements: Sequence[tirx.Stmt], views: Views) -> tirx.PrimFunc:
    """The PrimFunc of `nest` with a new body, which first declares temporaries and flat views."""
    declared: list[tirx.Stmt] = []
    for buffer in nest.func.params:
        if tirx.is_buffer_var(buffer):
            declared.extend(views.declarations(buffer))
    for buffer in nest.temporaries:
        declared.extend([tirx.AllocBuffer(buffer), *views.declarations(buffer)])
    return nest.func.with_body(sequence([*declared, *statements]))


def _one_by_one(statements: Sequence[tirx.Stmt], device: Device) -> bool:
    """Whether the statements use no vectors although the device has some."""
    loops = (loop for statement in statements for loop in collect(statement, tirx.For))
    return device.vector_bits > 0 and all(loop.kind != tirx.ForKind.VECTORIZED for loop in loops)


def _apply(stage: Stage, views: Views, device: Device) -> tuple[list[tirx.Stmt], Choice]:
    declined: dict[str, str] = {}
    for name, rule in RULES.items():
        if stage.guard is not None and name not in GUARDS:
            declined[name] = "it stores under a condition"
            continue
        result = rule(stage, views, device)
        if not isinstance(result, Declined):
            return result, Choice(stage.name, name, declined, one_by_one=_one_by_one(result, device))
        declined[name] = result.reason
    return plain(stage), Choice(stage.name, PLAIN, declined, fallback=True)
