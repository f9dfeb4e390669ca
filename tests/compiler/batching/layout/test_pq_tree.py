"""A PQ-tree has exactly the orders in which subsets are side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations, product

from hypothesis import given, settings
from hypothesis import strategies as st

from deploykit.compiler.batching.layout.pq_tree import Tree, frontier, reduced, universal

SIZE = 6

subsets = st.lists(st.frozensets(st.integers(0, SIZE - 1), min_size=1), max_size=6)


def orders(tree: Tree) -> Iterator[tuple[int, ...]]:
    """All orders that a tree stands for."""
    if isinstance(tree, int):
        yield (tree,)
        return
    children = [tree.children, tree.children[::-1]] if tree.fixed else permutations(tree.children)
    for each in children:
        for parts in product(*map(orders, each)):
            yield tuple(leaf for part in parts for leaf in part)


def are_neighbours(order: Sequence[int], subset: frozenset[int]) -> bool:
    places = [order.index(element) for element in subset]
    return max(places) - min(places) == len(subset) - 1


@settings(deadline=None)
@given(subsets)
def test_a_reduction_keeps_the_orders_in_which_a_subset_is_together(given: list[frozenset[int]]) -> None:
    tree = universal(range(SIZE))
    expected = set(permutations(range(SIZE)))
    assert set(orders(tree)) == expected
    for subset in given:
        fewer = {order for order in expected if are_neighbours(order, subset)}
        found = reduced(tree, subset)
        if found is None:
            assert not fewer
        else:
            tree, expected = found, fewer
            assert set(orders(tree)) == expected
            assert frontier(tree) in expected


def test_no_order_has_three_pairs_of_one_element_together() -> None:
    tree = universal(range(4))
    for pair in ({0, 1}, {0, 2}):
        found = reduced(tree, frozenset(pair))
        assert found is not None
        tree = found
    assert reduced(tree, frozenset({0, 3})) is None


def test_one_element() -> None:
    assert universal([7]) == 7
    assert reduced(7, frozenset({7})) == 7
