"""The trace of a run of a dynamic model: which nodes each launch ran, and for what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

TRACE = 16
"""`DK_TRACE`, added to the number of a policy."""


@dataclass(frozen=True)
class TracedNode:
    """One use of a cell. `instance` is the number of the instance that recorded it, `object` what the function which
    recorded it was called with: its first parameter that is an object or a list of the instances, None if it has none.
    The parameters of a comprehension are the names that it uses, and its list.
    """

    instance: int
    object: Any


@dataclass(frozen=True)
class Launch:
    """The nodes of one cell that ran as a batch, in the order in which they were recorded."""

    cell: str
    nodes: tuple[TracedNode, ...]


def launches_of(rows: np.ndarray, cells: Sequence[str], objects: Mapping[int, Any]) -> list[Launch]:
    """The launches of a run, in order. `rows` are those that `dk_give_trace` writes; `objects` are what handles stand
    for. Nodes that did not run, because nobody asked for their results, are left out."""
    found: dict[int, tuple[str, list[TracedNode]]] = {}
    for launch, cell, instance, handle in rows[np.argsort(rows[:, 0], kind="stable")].tolist():
        if launch >= 0:
            found.setdefault(launch, (cells[cell], []))[1].append(TracedNode(instance, objects.get(handle)))
    return [Launch(cell, tuple(nodes)) for cell, nodes in found.values()]
