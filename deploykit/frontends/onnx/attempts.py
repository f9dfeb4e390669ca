"""Chooses a branch of an If whose branches give results of different ranks, by trying to import the model with each.

Exporters write `squeeze` of an axis of unknown size as an If: a Squeeze if the size is 1, else an Identity. Usually
only one of the two fits what follows, such as a layer whose input must have a certain rank. If a condition over dims
leaves an If undecided, the model is imported twice, with the condition taken as true and as false, and so on for the
next such If. If exactly one combination can be imported, and gives the outputs the ranks that the model declares, it is
what the model means. Every run is then required to fulfil the conditions taken.

If no combination can be imported, one branch may be impossible in any run: for instance that of another sampling rate
when the number of samples is given. The model is then imported once more, and an If with only one branch that can be
imported gets that branch. Every run is then required not to choose the other one.
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
"""The most imports of one model."""


@dataclass(frozen=True)
class Refused:
    """An import that failed. `undecided` names the nodes of undecided Ifs if these are its only problems, else it is
    empty. `one_sided` says whether an If has one branch that can be imported, and one that cannot."""

    error: UnsupportedModelError
    undecided: tuple[str, ...] = ()
    one_sided: bool = False


Result: TypeAlias = ImportedModel | Refused


class Attempt(Protocol):
    """Imports the model. `taken` gives the conditions of some Ifs, by the names of their nodes. With `may_give_up`, an
    If with a branch that cannot be imported gets only the other branch."""

    def __call__(self, taken: Mapping[str, bool], *, may_give_up: bool) -> Result: ...


def only_way(attempt: Attempt) -> ImportedModel:
    """Import the model without conditions, else with the only combination of conditions that can be imported.

    If there is none, branches that cannot be imported are left out. Raises `UnsupportedModelError` if that fails too,
    or if several combinations can be imported.
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
    """The model, if exactly one combination of conditions can be imported. `first` is the result without conditions."""
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
