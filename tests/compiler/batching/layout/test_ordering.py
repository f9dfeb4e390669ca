"""The order of variables: lists are side by side and in one order, and no list is dropped without need."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from deploykit.compiler.batching.layout.ordering import Variables, ordered

SIZE = 6
Batches = list[list[Variables]]


@st.composite
def batches(draw: st.DrawFn) -> Batches:
    """Results are in one batch; operands are anything."""
    free = draw(st.permutations(range(SIZE)))
    found: Batches = []
    for size in draw(st.lists(st.integers(2, 4), max_size=3)):
        results, free = tuple(free[:size]), free[size:]
        if len(results) < size:
            break
        operands = st.permutations(range(SIZE)).map(lambda order, size=size: tuple(order[:size]))
        found.append([results, *draw(st.lists(operands, max_size=2))])
    return found


def holds(order: Sequence[int], given: Batches, dropped: frozenset[tuple[int, int]]) -> bool:
    """Whether the lists that are not dropped are side by side, and those of a batch in the same order."""
    place = {variable: at for at, variable in enumerate(order)}
    for number, lists in enumerate(given):
        found = set()
        for index, variables in enumerate(lists):
            if (number, index) in dropped:
                continue
            places = [place[variable] for variable in variables]
            if max(places) - min(places) != len(places) - 1:
                return False
            found.add(tuple(at - min(places) for at in places))
        if len(found) > 1:
            return False
    return True


@settings(deadline=None)
@given(batches())
def test_an_order_holds_and_drops_no_list_without_need(given: Batches) -> None:
    layout = ordered(given)
    assert sorted(layout.order) == sorted({variable for lists in given for each in lists for variable in each})
    assert holds(layout.order, given, layout.dropped)
    for one in layout.dropped:
        assert not any(holds(order, given, layout.dropped - {one}) for order in permutations(layout.order))


def test_gates_in_another_order() -> None:
    """`a, z, b = gates`; a product takes `a * left` and `b * right`."""
    a, z, b, left, right, one, other = range(7)
    given = [[(a, z, b)], [(one, other), (a, b), (left, right)]]
    layout = ordered(given)
    assert not layout.dropped
    assert holds(layout.order, given, frozenset())


def test_contradictions_are_dropped() -> None:
    turned = ordered([[(0, 1, 2), (1, 2, 0)]])
    assert turned.dropped == {(0, 1)}
    assert ordered([]).order == ()
