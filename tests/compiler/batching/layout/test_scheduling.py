"""Batches within a cell are as few as a search of all orders finds."""

from __future__ import annotations

from functools import cache
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deploykit.compiler.batching.layout import scheduling
from deploykit.compiler.batching.layout.scheduling import batches


@st.composite
def graphs(draw: st.DrawFn, most: int = 9) -> tuple[list[int], list[list[int]]]:
    count = draw(st.integers(0, most))
    types = [draw(st.integers(0, 3)) for _ in range(count)]
    operands = [sorted(draw(st.sets(st.integers(0, node - 1), max_size=3))) if node else [] for node in range(count)]
    return types, operands


def fewest(types: list[int], operands: list[list[int]]) -> int:
    @cache
    def of(left: frozenset[int]) -> int:
        ready: dict[int, set[int]] = {}
        for node in left:
            if left.isdisjoint(operands[node]):
                ready.setdefault(types[node], set()).add(node)
        return 1 + min(of(left - nodes) for nodes in ready.values()) if left else 0

    return of(frozenset(range(len(types))))


@settings(deadline=None)
@given(graphs())
def test_batches_are_the_fewest(graph: tuple[list[int], list[list[int]]]) -> None:
    types, operands = graph
    found = batches(types, operands)
    require_order(found, types, operands)
    assert len(found) == fewest(types, operands)


def require_order(found: list[list[int]], types: list[int], operands: list[list[int]]) -> None:
    """Each operator runs once, behind its operands, with others of its type."""
    done: set[int] = set()
    for batch in found:
        assert len({types[node] for node in batch}) == 1
        assert done.issuperset(chain.from_iterable(operands[node] for node in batch))
        done.update(batch)
    assert sorted(chain.from_iterable(found)) == list(range(len(types)))


def test_the_type_with_most_operators_waits_for_one_more() -> None:
    assert batches([0, 0, 1, 0], [[], [], [], [2]]) == [[2], [0, 1, 3]]


def test_the_search_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduling, "EFFORT", 10_000)
    types = [node * 7 % 11 for node in range(120)]
    operands = [[node // 2, node * 3 // 4] if node > 5 else [] for node in range(120)]
    require_order(batches(types, operands), types, operands)
