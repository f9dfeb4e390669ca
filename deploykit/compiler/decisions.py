"""What parts of the compiler decided, and why. No stage reads it: `deploykit build --explain` and dumps print it.

A pass over the graph makes a `Decision` for each thing that it could have taken, and a kernel has a `Choice` for each
of its stages. `Declined` is what a rule or a pass gives in the place of a result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias


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
    `by_rows`: in one loop over rows with other stages; `fallback`: by the rule that takes what no other does."""

    stage: str
    rule: str
    declined: Mapping[str, str] = field(default_factory=dict)
    by_rows: bool = False
    fallback: bool = False

    def __str__(self) -> str:
        taken = f"{self.stage}: {self.rule}{' by rows' if self.by_rows else ''}"
        return "; ".join([taken, *(f"not {rule}: {reason}" for rule, reason in self.declined.items())])
