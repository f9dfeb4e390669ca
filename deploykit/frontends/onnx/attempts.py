"""Imports with a branch of an If taken, where the branches give results of ranks that have no form in common.

Exporters write `squeeze` of an axis whose size they do not know as an If: where the size is 1 a Squeeze, else an
Identity. Mostly only one of the two fits what follows, say a layer whose input has a certain rank. So where a condition
over dims leaves an If undecided, the import is attempted with it taken for true and for false, one such If after the
other. When a single way goes through, and gives the outputs the ranks that the model declares, it is what the model
means: the conditions that it takes are required of every run.

Where no way goes through, a branch may be one that no run can take: that of another sampling rate, where the number of
samples is given. Then the import is attempted once more, and an If of which only one branch can be imported has that
one; that no run picks the other is required.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Protocol, TypeAlias

from deploykit.compiler.model import ImportedModel
from deploykit.errors import UnsupportedModelError

MOST = 32
"""Imports of one model."""


@dataclass(frozen=True)
class Refused:
    """An import that failed; `undecided` are the Ifs that are all it failed for, by the names of their nodes;
    `one_sided`: an If has one branch that can be imported, and one that cannot."""

    error: UnsupportedModelError
    undecided: tuple[str, ...] = ()
    one_sided: bool = False


Result: TypeAlias = ImportedModel | Refused


class Attempt(Protocol):
    """An import that takes the conditions of some Ifs, by the names of their nodes, for true or false;
    `may_give_up`: an If of which one branch cannot be imported has only the other."""

    def __call__(self, taken: Mapping[str, bool], *, may_give_up: bool) -> Result: ...


def only_way(attempt: Attempt) -> ImportedModel:
    """The model without any condition taken, else with those of the only way that goes through; else that without the
    branches that cannot be imported.

    Raises `UnsupportedModelError` where there is none, or another one.
    """
    first = attempt({}, may_give_up=False)
    found = _single(partial(attempt, may_give_up=False), first)
    if found is None and isinstance(first, Refused) and first.one_sided:
        found = _single(partial(attempt, may_give_up=True), attempt({}, may_give_up=True))
    if found is None:
        assert isinstance(first, Refused)
        raise first.error from first.error.__cause__
    return found


def _single(attempt: Callable[[Mapping[str, bool]], Result], first: Result) -> ImportedModel | None:
    """The only model that `attempt` gives, which gave `first` with nothing taken."""
    left = iter(range(MOST))

    def ways(result: Result, taken: Mapping[str, bool]) -> Iterator[ImportedModel]:
        if isinstance(result, ImportedModel):
            yield result
            return
        for name in result.undecided[:1]:
            for side in (True, False):
                if next(left, None) is not None:
                    further = {**taken, name: side}
                    yield from ways(attempt(further), further)

    found = list(islice(ways(first, {}), 2))
    return found[0] if len(found) == 1 and next(left, None) is not None else None
