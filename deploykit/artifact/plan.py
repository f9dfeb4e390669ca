"""What an artifact says of its program, for people and tools; not needed to run it.

program.txt    dims, tensors with their places, steps in order
plan.json      the memory plan and what each step costs, as formulas over dims; for several CPUs, those of the
               best one, with plan_<cpu>.json for each of the others; of several functions, plan_<function>.json
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
    """A stretch of the arena: `offset` and `size` are formulas for bytes; alive from step `first` to step `last`."""

    name: str
    offset: str
    size: str
    first: int
    last: int


class WorkEntry(_Entry):
    """A step that computes or copies, by its number. `result`: what it writes; `flops` and `traffic`: operations, and
    bytes read and written, as formulas over dims, None where only a run can tell.
    """

    step: int
    result: str
    flops: str | None = None
    traffic: str | None = None


class Plan(_Entry):
    """A memory plan. `steps` names each step of the program, in the order that `first` and `last` of slots count;
    `work` tells what those cost that take time.
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
    """A plan at given dims: the slots that hold bytes, and the size of the arena."""

    bars: tuple[Bar, ...]
    total: int


def read_listing(folder: Path) -> str:
    """The program in an artifact folder as text. Raises `ArtifactError` when there is none."""
    return _read(folder / LISTING)


def plan_file(function: str | None = None, level: str | None = None) -> str:
    """The name of the plan of one function of several, with kernels for a CPU other than the best one."""
    return "_".join(filter(None, (Path(PLAN).stem, function, level))) + Path(PLAN).suffix


def read_plan(folder: Path, level: str | None = None, function: str | None = None) -> Plan:
    """The memory plan in an artifact folder: of the best kernels, or of those for the CPU `level`, one of the others;
    of one `function` of several.

    Raises `ArtifactError` when there is none, or a damaged one.
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
    """The memory plan where each dim has the size given by name."""
    bars = (
        Bar(slot.name, slot.first, slot.last, evaluate(slot.offset, sizes), evaluate(slot.size, sizes))
        for slot in plan.slots
    )
    return MemoryPlan(tuple(bar for bar in bars if bar.size), evaluate(plan.arena, sizes))
