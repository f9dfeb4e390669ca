"""What an artifact says about its program: the listing, and the memory plan as data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tvm import tirx

from deploykit.artifact.manifest import DimEntry
from deploykit.artifact.plan import LISTING, Plan, SlotEntry, WorkEntry, plan_file
from deploykit.compiler.dims import free_vars, substitute, to_text
from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.program.ir import Copy, CopySlice, Function, Launch, Program, Step
from deploykit.compiler.program.listing import listing, shape_text
from deploykit.compiler.program.sizes import tensor_bytes
from deploykit.compiler.program.steps import number_steps
from deploykit.compiler.schedules.instances import SQUARES


def plan_of(program: Program, function: Function) -> Plan:
    """The memory plan of a function as formulas over dims."""
    return Plan(
        name=program.name,
        dims=tuple(
            DimEntry(name=dim.name, minimum=dim.minimum, maximum=dim.maximum, capacity_of=dim.capacity_of)
            for dim in function.dims
        ),
        steps=tuple(_step_name(program, numbered.step) for numbered in number_steps(function.steps)),
        slots=tuple(
            SlotEntry(
                name=slot.name,
                offset=to_text(slot.offset),
                size=to_text(slot.size),
                first=slot.first,
                last=slot.last,
            )
            for slot in function.arena.slots
        ),
        arena=to_text(function.arena.size),
        work=tuple(_work(program, function)),
    )


def _work(program: Program, function: Function) -> Iterator[WorkEntry]:
    """One entry per launch and per copy."""
    dims = {dim.var for dim in function.dims}
    squares = {SQUARES: tirx.Var(program.padded[0].squares, "int64")} if program.padded else {}
    from_lengths = {name for padded in program.padded for name in (padded.dim, padded.squares)}

    def text(formula: IntExpr | None) -> str | None:
        if formula is None:
            return None
        named = substitute(formula, squares)
        others = {var.name for var in free_vars(named) if var not in dims}
        return to_text(named) if others <= from_lengths else None

    for numbered in number_steps(function.steps):
        step = numbered.step
        if isinstance(step, Launch):
            written = function.tensors[step.tensors[-step.outputs - step.workspaces]]
            flops, traffic, per_run = step.flops, step.traffic, step.per_run
        elif isinstance(step, Copy | CopySlice):
            written = function.tensors[step.source]
            flops, traffic, per_run = 0, 2 * tensor_bytes(written), False
        else:
            continue
        result = f"{written.name} {written.dtype}{shape_text(written.shape)}"
        yield WorkEntry(step=numbered.number, result=result, flops=text(flops), traffic=text(traffic), per_run=per_run)


def write_plan(programs: Sequence[Program], folder: Path) -> list[str]:
    """Write the listing of the first program and the memory plans of all programs into an artifact folder. Returns the
    names of the files.

    Raises `OSError` from the file system.
    """
    first = programs[0]
    (folder / LISTING).write_text(listing(first), encoding="utf-8")
    plans = {}
    for part in programs:
        level = None if part is first else part.level
        for function in part.functions:
            own = None if part.public == (function,) else function.name
            plans[plan_file(own, level)] = plan_of(part, function)
    for name, plan in plans.items():
        (folder / name).write_text(plan.to_json(), encoding="utf-8")
    return [LISTING, *plans]


def _step_name(program: Program, step: Step) -> str:
    return program.kernels[step.kernel].name if isinstance(step, Launch) else type(step).__name__.lower()
