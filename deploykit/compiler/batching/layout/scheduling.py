"""Groups the operators of a cell into batches: as few as possible, each of operators of one type that are ready.

As ED-Batch does for what is in a cell (Chen et al., ICML 2023): a search over which type comes next, by branch and
bound. The remaining operators need at least as many batches as the longest chains of all types have together, where the
chain of a type is a path on which only its operators count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

EFFORT = 1_000_000
"""The search ends after looking at so many operators, with the best batches so far. It rarely comes to that."""


@dataclass
class _Search:
    types: Sequence[int]
    operands: Sequence[Sequence[int]]
    best: list[int] | None = None
    """The types in the order of the best batches so far."""
    effort: int = 0
    _fewest: dict[frozenset[int], int] = field(default_factory=dict)
    """The least number of batches after which so much was left."""

    def run(self, left: frozenset[int], chosen: list[int]) -> None:
        """Find batches for what is left after batches of the types `chosen`."""
        chosen = list(chosen)
        while left:
            ready = self.ready(left)
            final = [kind for kind in ready if len(ready[kind]) == sum(self.types[each] == kind for each in left)]
            if not final:
                break
            left -= ready[final[0]]  # later ones of the type cannot join, so that nothing is lost
            chosen.append(final[0])
        count = len(chosen)
        if self.best is not None and count + self.least(left) >= len(self.best):
            return
        if not left:
            self.best = chosen
            return
        if self._fewest.get(left, count + 1) <= count or (self.best is not None and self.effort > EFFORT):
            return
        self._fewest[left] = count
        ready = self.ready(left)
        for kind in sorted(ready, key=lambda kind: (-len(ready[kind]), kind)):
            self.run(left - ready[kind], [*chosen, kind])

    def ready(self, left: frozenset[int]) -> dict[int, frozenset[int]]:
        """The operators by type whose operands are computed."""
        found: dict[int, set[int]] = {}
        for node in sorted(left):
            if left.isdisjoint(self.operands[node]):
                found.setdefault(self.types[node], set()).add(node)
        return {kind: frozenset(nodes) for kind, nodes in found.items()}

    def least(self, left: frozenset[int]) -> int:
        """A bound of the number of batches: the sum over all types of the longest chain."""
        return sum(self._chain(left, kind) for kind in {self.types[node] for node in left})

    def _chain(self, left: frozenset[int], kind: int) -> int:
        self.effort += len(left)
        lengths: dict[int, int] = {}
        for node in sorted(left):  # operands come first
            before = max((lengths.get(operand, 0) for operand in self.operands[node]), default=0)
            lengths[node] = before + (self.types[node] == kind)
        return max(lengths.values(), default=0)


def batches(types: Sequence[int], operands: Sequence[Sequence[int]]) -> list[list[int]]:
    """Operators, which are numbered so that operands come first, in batches of equal `types` in an order in which they
    can run."""
    search = _Search(types, operands)
    search.run(frozenset(range(len(types))), [])
    assert search.best is not None
    return list(_batches_of(search))


def _batches_of(search: _Search) -> Iterator[list[int]]:
    left = frozenset(range(len(search.types)))
    for kind in search.best or ():
        batch = search.ready(left)[kind]
        left -= batch
        yield sorted(batch)
