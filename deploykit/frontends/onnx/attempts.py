"""Imports with a branch of an If taken, where the branches give results of ranks that have no form in common.

Exporters write `squeeze` of an axis whose size they do not know as an If: where the size is 1 a Squeeze, else an
Identity. Mostly only one of the two fits what follows, say a layer whose input has a certain rank. So where a condition
over dims leaves an If undecided, the import is attempted with it taken for true and for false, one such If after the
other. When a single way goes through, and gives the outputs the ranks that the model declares, it is what the model
means: the conditions that it takes are required of every run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

from deploykit.errors import UnsupportedModelError
from deploykit.frontends.model import ImportedModel

MOST = 32
"""Imports of one model."""


@dataclass(frozen=True)
class Refused:
    """An import that failed; `undecided` are the Ifs that are all it failed for, by the names of their nodes."""

    error: UnsupportedModelError
    undecided: tuple[str, ...] = ()


Attempt: TypeAlias = Callable[[Mapping[str, bool]], ImportedModel | Refused]
"""An import that takes the conditions of some Ifs, by the names of their nodes, for true or false."""


def only_way(attempt: Attempt) -> ImportedModel:
    """The model without any condition taken, else with those of the only way that goes through.

    Raises `UnsupportedModelError` where there is none, or another one.
    """
    first = attempt({})
    if isinstance(first, ImportedModel):
        return first
    left = iter(range(MOST))

    def ways(result: ImportedModel | Refused, taken: Mapping[str, bool]) -> Iterator[ImportedModel]:
        if isinstance(result, ImportedModel):
            yield result
            return
        for name in result.undecided[:1]:
            for side in (True, False):
                if next(left, None) is not None:
                    further = {**taken, name: side}
                    yield from ways(attempt(further), further)

    found = list(islice(ways(first, {}), 2))
    if len(found) != 1 or next(left, None) is None:
        raise first.error from first.error.__cause__
    return found[0]
