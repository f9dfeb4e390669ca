"""The decisions of parts of the compiler, with reasons. They are only for `deploykit build --explain` and for dumps.

A pass over the graph makes a `Decision` for each thing that it could have changed. A kernel has a `Choice` for each of
its stages. A rule or a pass returns `Declined` instead of a result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Declined:
    """The result of a rule for a stage, or of a pass for a pattern, that it does not take. `reason` is a clause about
    what was found that can follow the name of a kernel: `its columns are not next to each other`."""

    reason: str


@dataclass(frozen=True)
class Decision:
    """What the graph pass `by` did with `subject`: a tensor, by its name in the dumps, or a kernel."""

    by: str
    subject: str
    outcome: str | Declined

    def __str__(self) -> str:
        said = f"no: {self.outcome.reason}" if isinstance(self.outcome, Declined) else self.outcome
        return f"{self.by}: {self.subject}: {said}"


Note: TypeAlias = Callable[[Decision], None]
"""A function that takes the decisions of a pass as they are made."""


def unheard(_: Decision) -> None:
    """A `Note` that ignores the decision."""


@dataclass(frozen=True)
class Choice:
    """The rule that took a stage of a kernel, and the reasons why earlier rules declined, by their names. `by_rows`:
    the stage shares one loop over rows with other stages. `one_by_one`: elements are computed one at a time, although
    the device has vectors. `fallback`: the fallback rule took the stage."""

    stage: str
    rule: str
    declined: Mapping[str, str] = field(default_factory=dict)
    by_rows: bool = False
    one_by_one: bool = False
    fallback: bool = False

    @property
    def said(self) -> str:
        """The rule, with remarks."""
        rows = ", by rows" if self.by_rows else ""
        scalar = ", one by one" if self.one_by_one else ""
        return f"{self.rule}{rows}{scalar}{' (fallback)' if self.fallback else ''}"

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons why earlier rules declined. Rules with the same reason are grouped."""
        rules: dict[str, list[str]] = {}
        for rule, reason in self.declined.items():
            rules.setdefault(reason, []).append(rule)
        return tuple(f"not {', '.join(names)}: {reason}" for reason, names in rules.items())

    def __str__(self) -> str:
        return "; ".join([f"{self.stage}: {self.said}", *self.reasons])


@dataclass(frozen=True)
class KernelDecision:
    """How a kernel is computed: on the GPU (`on_gpu`) or on the CPU, where `kept` is the reason, if any. `choices` has
    one entry per stage."""

    name: str
    choices: tuple[Choice, ...]
    on_gpu: bool = False
    kept: Declined | None = None

    @property
    def fallback(self) -> bool:
        """Whether the fallback rule took a stage."""
        return any(choice.fallback for choice in self.choices)

    def __str__(self) -> str:
        where = "on the GPU" if self.on_gpu else "on the CPU"
        why = "" if self.kept is None else f", as {self.kept.reason}"
        return "\n".join([f"{self.name} {where}{why}", *(f"    {choice}" for choice in self.choices)])


@dataclass(frozen=True)
class Explanation:
    """The decisions of graph passes and of rules for kernels, for one variant of a model."""

    variant: str
    graph: tuple[Decision, ...]
    kernels: tuple[KernelDecision, ...]

    def data(self) -> dict[str, Any]:
        """All decisions, as data for JSON."""
        return {
            "variant": self.variant,
            "graph": [{"pass": step.by, "subject": step.subject, **_outcome(step.outcome)} for step in self.graph],
            "kernels": [
                {
                    "name": kernel.name,
                    "runs_on": "gpu" if kernel.on_gpu else "cpu",
                    **({} if kernel.kept is None else {"not_on_gpu": kernel.kept.reason}),
                    "stages": [asdict(choice) for choice in kernel.choices],
                }
                for kernel in self.kernels
            ],
        }


def _outcome(outcome: str | Declined) -> dict[str, str]:
    return {"declined": outcome.reason} if isinstance(outcome, Declined) else {"done": outcome}
