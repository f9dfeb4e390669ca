"""What parts of the compiler decided, and why. No stage reads it: `deploykit build --explain` and dumps print it.

A pass over the graph makes a `Decision` for each thing that it could have taken, and a kernel has a `Choice` for each
of its stages. `Declined` is what a rule or a pass gives in the place of a result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Declined:
    """What a rule gives for a stage, or a pass for a pattern, that it does not take: `reason` says why, about what was
    found, so that it reads on after the name of a kernel: `its columns are not next to each other`."""

    reason: str


@dataclass(frozen=True)
class Decision:
    """What a pass of the graph, called `by`, did with `subject`, a tensor by its name in the dumps or a kernel."""

    by: str
    subject: str
    outcome: str | Declined

    def __str__(self) -> str:
        said = f"no: {self.outcome.reason}" if isinstance(self.outcome, Declined) else self.outcome
        return f"{self.by}: {self.subject}: {said}"


Note: TypeAlias = Callable[[Decision], None]
"""Takes the decisions of a pass as they are made."""


def unheard(_: Decision) -> None:
    """The `Note` of whom nobody asked."""


@dataclass(frozen=True)
class Choice:
    """The rule that took a stage of a kernel, and the reasons of the rules that were asked before, by their names.
    `by_rows`: in one loop over rows with other stages; `one_by_one`: an element at a time, though the device has
    vectors; `fallback`: by the rule that takes what no other does."""

    stage: str
    rule: str
    declined: Mapping[str, str] = field(default_factory=dict)
    by_rows: bool = False
    one_by_one: bool = False
    fallback: bool = False

    @property
    def said(self) -> str:
        """The rule, with what else is to be known of it."""
        rows = ", by rows" if self.by_rows else ""
        scalar = ", one by one" if self.one_by_one else ""
        return f"{self.rule}{rows}{scalar}{' (fallback)' if self.fallback else ''}"

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the rules before declined, those with the same reason together."""
        rules: dict[str, list[str]] = {}
        for rule, reason in self.declined.items():
            rules.setdefault(reason, []).append(rule)
        return tuple(f"not {', '.join(names)}: {reason}" for reason, names in rules.items())

    def __str__(self) -> str:
        return "; ".join([f"{self.stage}: {self.said}", *self.reasons])


@dataclass(frozen=True)
class KernelDecision:
    """How a kernel is computed: on the GPU (`on_gpu`) or, with the reason why not, `kept` on the CPU. `choices` has an
    entry for each of its stages."""

    name: str
    choices: tuple[Choice, ...]
    on_gpu: bool = False
    kept: Declined | None = None

    @property
    def fallback(self) -> bool:
        """Whether a stage fell to the rule that takes what no other does."""
        return any(choice.fallback for choice in self.choices)

    def __str__(self) -> str:
        where = "on the GPU" if self.on_gpu else "on the CPU"
        why = "" if self.kept is None else f", as {self.kept.reason}"
        return "\n".join([f"{self.name} {where}{why}", *(f"    {choice}" for choice in self.choices)])


@dataclass(frozen=True)
class Explanation:
    """What the passes of the graph and the rules for kernels decided for one variant of a model."""

    variant: str
    graph: tuple[Decision, ...]
    kernels: tuple[KernelDecision, ...]

    def data(self) -> dict[str, Any]:
        """All of it, for JSON."""
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
