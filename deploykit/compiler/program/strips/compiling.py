"""Makes a trace need less memory: finds its chains, and schedules and lowers the kernels of their rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tvm import tirx

from deploykit.compiler.cost import work
from deploykit.compiler.decisions import Choice, Declined
from deploykit.compiler.dims import evaluate, free_vars
from deploykit.compiler.program.strips.choice import chosen
from deploykit.compiler.program.strips.emitting import ReadyKernel, copied
from deploykit.compiler.program.strips.rows import RowKernels, row_kernels
from deploykit.compiler.program.strips.sums import sum_kernels

if TYPE_CHECKING:
    from deploykit.compiler.cost import Cost
    from deploykit.compiler.lowering.lower import LoweredKernel
    from deploykit.compiler.program.ir import Function, Launch
    from deploykit.compiler.program.strips.timetable import Stage
    from deploykit.compiler.program.trace import Pool, Trace


OPTION = "--optimize memory"

POINTWISE = ("elementwise", "transpose", "interleave")
"""Rules for the same loops in another order."""


@dataclass
class StripCompiler:
    """Compiles the kernels of rows. `unscheduled` are the kernels of the module; `schedule` schedules a kernel and
    gives the rules; `lower` lowers a scheduled one, given its name and its cost. `in_order` says whether the device
    adds numbers one after the other, without vectors."""

    pool: Pool
    unscheduled: Mapping[str, tirx.PrimFunc]
    schedule: Callable[[tirx.PrimFunc], tuple[tirx.PrimFunc, tuple[Choice, ...]]]
    lower: Callable[[tirx.PrimFunc, str, Cost | None], LoweredKernel]
    in_order: bool
    _rows: dict[str, RowKernels | Declined] = field(default_factory=dict)
    _ready: dict[tuple[str, int], ReadyKernel] = field(default_factory=dict)

    def rows(self, name: str) -> RowKernels | Declined:
        """The kernels for the rows of a kernel. They must be scheduled by the same rules, as another one may add
        numbers in another order; those of `POINTWISE` add none."""
        if name not in self._rows:
            func = self.unscheduled[name]
            found = row_kernels(func)
            if isinstance(found, RowKernels):
                self._rows[name] = self._same_sums(name, found)
            else:
                summed = self.in_order and self._rules(func) == ["reduction"]
                self._rows[name] = sum_kernels(func) if summed else found
        return self._rows[name]

    def _same_sums(self, name: str, found: RowKernels) -> RowKernels | Declined:
        rules = self._rules(self.unscheduled[name])
        if "matmul" in rules:
            return Declined("a product with a few rows is added in another order")
        if any(self._rules(kernel) != rules for kernel in found.kernels):
            return Declined("its rows alone are computed by other rules")
        return found

    def _rules(self, func: tirx.PrimFunc) -> list[str]:
        return [POINTWISE[0] if choice.rule in POINTWISE else choice.rule for choice in self.schedule(func)[1]]

    def ready(self, launch: Launch, stage: Stage, number: int) -> ReadyKernel:
        """The kernel `number` of a stage, which is lowered where it is needed first."""
        name = self.pool.kernels[launch.kernel].name
        if (name, number) not in self._ready:
            func = stage.rows.kernels[number]
            own, cost = self._name(name), work(func)
            lowered = self.lower(self.schedule(func)[0], own, cost)
            self.pool.lowered[own] = lowered
            ((index,), _) = self.pool.kernel(own)
            self._ready[name, number] = ReadyKernel(index, lowered.workspaces, cost)
        return self._ready[name, number]

    def _name(self, name: str) -> str:
        names = (f"{name}_row{number or ''}" for number in range(len(self.pool.lowered) + 1))
        return next(own for own in names if own not in self.pool.lowered)


def in_less_memory(trace: Trace, strips: StripCompiler, placed: Callable[[Trace], Function]) -> tuple[Function, str]:
    """The function of a trace, with chains that run strip by strip if its arena is then smaller, and a note that says
    what was done. `placed` gives the buffers of a trace their places, and may change the trace."""
    usual = placed(copied(trace))
    before = _bytes(usual)
    if before is None:
        return usual, f"{OPTION}: it needs an upper bound for every dim"
    saving, chains = chosen(trace, strips.rows, strips.ready)
    function = placed(saving) if chains else usual
    after = _bytes(function)
    if after is None or after >= before:
        return usual, f"{OPTION}: no chain of operators takes less memory row by row"
    lengths = " and ".join(str(len(chain.stages)) for chain in sorted(chains, key=lambda chain: chain.first))
    kernels = f"{lengths} kernels in a row run row by row"
    return function, f"{OPTION}: {after:,} bytes of arena instead of {before:,}, with no more arithmetic; {kernels}"


def _bytes(function: Function) -> int | None:
    """The bytes of the arena at the upper bounds of the dims, if all have one."""
    upper = {dim.var: dim.maximum for dim in function.dims}
    if any(upper.get(var) is None for var in free_vars(function.arena.size)):
        return None
    return evaluate(function.arena.size, {var: most for var, most in upper.items() if most is not None})
