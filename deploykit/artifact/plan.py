"""The description of an artifact's program, for people and tools. It is not needed to run the artifact.

program.txt    dims, tensors with their places, steps in order
plan.json      the memory plan and the cost of each step, as formulas over dims. With several CPUs it is for the best
               one, and each other has a plan_<cpu>.json; with several functions each has a plan_<function>.json
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from deploykit.artifact.formula import evaluate
from deploykit.artifact.manifest import DimEntry
from deploykit.errors import ArtifactError

LISTING = "program.txt"
PLAN = "plan.json"


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SlotEntry(_Entry):
    """A part of the arena, alive from step `first` to step `last`. `offset` and `size` are formulas for bytes."""

    name: str
    offset: str
    size: str
    first: int
    last: int


class WorkEntry(_Entry):
    """The cost of a step that computes or copies. `step` is its number, `result` the tensor that it writes. `flops`
    (operations) and `traffic` (bytes read and written) are formulas over dims, None if known only during a run. For
    a ragged batch they are also over the greatest length and the sum of the squared lengths, by the names in
    `manifest.PaddedEntry`. They are those of one call, or, where `per_run` says so, of all calls of a run.
    """

    step: int
    result: str
    flops: str | None = None
    traffic: str | None = None
    per_run: bool = False


class Plan(_Entry):
    """A memory plan. `steps` names each step of the program; `first` and `last` of slots are indices into it. `work`
    gives the cost of the steps that take time.
    """

    name: str
    dims: tuple[DimEntry, ...]
    steps: tuple[str, ...]
    slots: tuple[SlotEntry, ...]
    arena: str
    work: tuple[WorkEntry, ...] = ()

    def to_json(self) -> str:
        return self.model_dump_json(indent=1) + "\n"


@dataclass(frozen=True)
class Bar:
    """A slot at given dims, in bytes; `size` is at least 1."""

    name: str
    first: int
    last: int
    offset: int
    size: int

    @property
    def end(self) -> int:
        return self.offset + self.size


@dataclass(frozen=True)
class MemoryPlan:
    """A plan at given dims: the slots that are not empty, and `total`, the bytes of the arena."""

    bars: tuple[Bar, ...]
    total: int


def read_listing(folder: Path) -> str:
    """The text of `program.txt` in an artifact folder. Raises `ArtifactError` if there is none."""
    return _read(folder / LISTING)


def plan_file(function: str | None = None, level: str | None = None) -> str:
    """The file name of a plan. `function` is one of several functions, `level` a CPU other than the best one."""
    return "_".join(filter(None, (Path(PLAN).stem, function, level))) + Path(PLAN).suffix


def read_plan(folder: Path, level: str | None = None, function: str | None = None) -> Plan:
    """The memory plan in an artifact folder. `level` is a CPU other than the best one, `function` one of several.

    Raises `ArtifactError` if the plan is missing or damaged.
    """
    path = folder / plan_file(function, level)
    try:
        return Plan.model_validate_json(_read(path))
    except ValidationError as error:
        raise ArtifactError(f"{path} is damaged: {error}; build the model again") from error


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ArtifactError(f"cannot read {path}: {error}; build the model again") from error


def at_sizes(plan: Plan, sizes: Mapping[str, int]) -> MemoryPlan:
    """The memory plan with the dims at these sizes, given by name."""
    bars = (
        Bar(slot.name, slot.first, slot.last, evaluate(slot.offset, sizes), evaluate(slot.size, sizes))
        for slot in plan.slots
    )
    return MemoryPlan(tuple(bar for bar in bars if bar.size), evaluate(plan.arena, sizes))
