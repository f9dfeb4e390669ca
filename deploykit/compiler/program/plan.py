"""What an artifact says about its program: the listing, and the memory plan as data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from deploykit.artifact.manifest import DimEntry
from deploykit.artifact.plan import LISTING, Plan, SlotEntry, WorkEntry, plan_file
from deploykit.compiler.dims import free_vars, to_text
from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.program.ir import Copy, CopySlice, Function, Launch, Program, Step
from deploykit.compiler.program.listing import listing, shape_text
from deploykit.compiler.program.sizes import tensor_bytes
from deploykit.compiler.program.steps import number_steps


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
        work=tuple(_work(function)),
    )


def _work(function: Function) -> Iterator[WorkEntry]:
    """One entry per launch and per copy."""
    dims = {dim.var for dim in function.dims}

    def text(formula: IntExpr | None) -> str | None:
        return to_text(formula) if formula is not None and dims.issuperset(free_vars(formula)) else None

    for numbered in number_steps(function.steps):
        step = numbered.step
        if isinstance(step, Launch):
            written = function.tensors[step.tensors[-step.outputs - step.workspaces]]
            flops, traffic = step.flops, step.traffic
        elif isinstance(step, Copy | CopySlice):
            written = function.tensors[step.source]
            flops, traffic = 0, 2 * tensor_bytes(written)
        else:
            continue
        result = f"{written.name} {written.dtype}{shape_text(written.shape)}"
        yield WorkEntry(step=numbered.number, result=result, flops=text(flops), traffic=text(traffic))


def write_plan(programs: Sequence[Program], folder: Path) -> list[str]:
    """Write the listing of the first program and the memory plans of all programs into an artifact folder. Returns the
    names of the files.

    Raises `OSError` from the file system.
    """
    first = programs[0]
    (folder / LISTING).write_text(listing(first), encoding="utf-8")
    several = len(first.functions) > 1
    plans = {
        plan_file(function.name if several else None, None if part is first else part.cpu): plan_of(part, function)
        for part in programs
        for function in part.functions
    }
    for name, plan in plans.items():
        (folder / name).write_text(plan.to_json(), encoding="utf-8")
    return [LISTING, *plans]


def _step_name(program: Program, step: Step) -> str:
    return program.kernels[step.kernel].name if isinstance(step, Launch) else type(step).__name__.lower()
