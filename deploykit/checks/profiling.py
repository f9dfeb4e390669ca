"""Where the time of a run goes: the time of each step, and how fast it computes and moves bytes.

The speeds follow from the cost formulas of the plan. For each step the fastest of all runs counts, because other work
on the machine can only slow it down.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deploykit.artifact.formula import evaluate
from deploykit.artifact.plan import Plan, WorkEntry
from deploykit.checks.lengths import sizes_in_costs
from deploykit.errors import ArtifactError
from deploykit.sessions.ragged_ports import ragged_ports, unpacked
from deploykit.sessions.session import open as open_artifact

_FEWEST_RUNS = 3


@dataclass(frozen=True)
class Work:
    """Calls and total seconds in one run. `flops` (operations) and `traffic` (bytes read and written) are totals over
    all calls, None if they depend on data.
    """

    name: str
    calls: int
    seconds: float
    flops: int | None
    traffic: int | None

    @property
    def flops_per_second(self) -> float | None:
        return None if self.flops is None or not self.seconds else self.flops / self.seconds

    @property
    def bytes_per_second(self) -> float | None:
        return None if self.traffic is None or not self.seconds else self.traffic / self.seconds


@dataclass(frozen=True)
class Step(Work):
    """A launch of the kernel `name`, or a copy. `number` is its number in the plan, `result` the tensor it writes."""

    number: int
    result: str


@dataclass(frozen=True)
class Profile:
    """The steps that ran, in order, each with the fastest time of `runs` runs."""

    steps: tuple[Step, ...]
    runs: int

    @property
    def seconds(self) -> float:
        """Total seconds of all steps."""
        return sum(step.seconds for step in self.steps)

    def kernels(self) -> tuple[Work, ...]:
        """The totals of each kernel over its steps, the slowest kernel first."""
        groups: dict[str, list[Step]] = {}
        for step in self.steps:
            groups.setdefault(step.name, []).append(step)
        works = (
            Work(
                name,
                sum(step.calls for step in steps),
                sum(step.seconds for step in steps),
                _total(step.flops for step in steps),
                _total(step.traffic for step in steps),
            )
            for name, steps in groups.items()
        )
        return tuple(sorted(works, key=lambda work: -work.seconds))

    def share(self, work: Work) -> float:
        """The time of `work` as a fraction of the time of all steps."""
        return work.seconds / self.seconds if self.seconds else 0.0


def profile(
    folder: str | Path,
    inputs: Mapping[str, np.ndarray],
    sizes: Mapping[str, int],
    *,
    threads: int = 1,
    device: str | None = None,
    seconds: float = 3.0,
) -> Profile:
    """Profile the artifact in `folder` for about `seconds`, on inputs whose dims have the given sizes. `threads` and
    `device` are those of `deploykit.open`.

    Raises what `deploykit.open` and a run raise, and `ToolchainError` if there is no C compiler.
    """
    calls: list[np.ndarray] = []
    times: list[np.ndarray] = []
    with open_artifact(folder, threads=threads, device=device, profile=True) as session:
        plan = session.plan
        ports = ragged_ports(session.manifest)
        if ports is not None:
            sizes = sizes_in_costs(session.manifest, unpacked(ports, inputs), sizes)
        session.run(inputs)
        deadline = time.perf_counter() + seconds
        while time.perf_counter() < deadline or len(times) < _FEWEST_RUNS:
            session.run(inputs)
            counted, timed = session.step_times()
            calls.append(counted)
            times.append(timed)
    fastest = np.min(times, axis=0)
    steps = (_step(plan, entry, int(calls[-1][entry.step]), float(fastest[entry.step]), sizes) for entry in plan.work)
    return Profile(tuple(step for step in steps if step.calls), len(times))


def _step(plan: Plan, entry: WorkEntry, calls: int, seconds: float, sizes: Mapping[str, int]) -> Step:
    times = 1 if entry.per_run else calls
    flops, traffic = (_times(times, formula, sizes) for formula in (entry.flops, entry.traffic))
    return Step(plan.steps[entry.step], calls, seconds, flops, traffic, entry.step, entry.result)


def _times(calls: int, formula: str | None, sizes: Mapping[str, int]) -> int | None:
    """The value of a formula times the number of calls; None if it needs more than the sizes of the inputs."""
    if formula is None:
        return None
    try:
        return calls * evaluate(formula, sizes)
    except ArtifactError:
        return None


def _total(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
