"""One order of the variables of a cell, so that batches find what they need side by side.

A batch is a list of lists of variables, all of one length: its results, and what the operators take as their first
operand, as their second and so on. In the order that `ordered` finds, the variables of each list are neighbours, and
those of all lists of a batch are in the same order. As in ED-Batch (Chen et al., ICML 2023):

1. A PQ-tree holds the orders in which each list is together. A list that contradicts those before it is dropped.
2. What the tree says about a list holds for the others of its batch, too: sets of places that are neighbours are
   translated, again and again, until nothing changes.
3. What is still free, P-nodes with more than two children, is fixed and translated, one node after the other.
4. The direction of a Q-node in one list then decides that of a Q-node in another list, or they are one and must agree:
   a colouring with two colours. A list that contradicts those before it is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from deploykit.compiler.batching.layout.pq_tree import (
    Inner,
    Tree,
    frontier,
    inner_nodes,
    leaves_of,
    reduced,
    universal,
)

Variables: TypeAlias = tuple[int, ...]
Places: TypeAlias = frozenset[int]


MOST = 64
"""The most variables that are put in order together; there are more in cells only where many operators in a row are
alike, which are in one order as they are written."""


@dataclass(frozen=True)
class Layout:
    """`order` has all variables. `dropped` are the lists that it does not hold for: the numbers of a batch and of a
    list in it. Variables of such a list have to be gathered."""

    order: Variables
    dropped: frozenset[tuple[int, int]]


@dataclass
class _Orders:
    """`lists` are those that hold, each with the numbers of its batch and of the list in it."""

    tree: Tree
    lists: dict[tuple[int, int], Variables] = field(default_factory=dict)

    def aligned(self) -> Iterator[tuple[Variables, Variables]]:
        """Pairs of lists of one batch, the first with each other one."""
        first: dict[int, Variables] = {}
        for (batch, _), variables in self.lists.items():
            if batch in first:
                yield first[batch], variables
            first.setdefault(batch, variables)


def ordered(batches: Sequence[Sequence[Variables]]) -> Layout:
    """An order for batches; the lists of earlier batches, and the first lists of a batch, come before others. The
    variables of a list are distinct, and those of a first list are in no other first list."""
    numbered = [((batch, place), given) for batch, lists in enumerate(batches) for place, given in enumerate(lists)]
    numbered.sort(key=lambda each: each[0][1] > 0)
    order: list[int] = []
    dropped: set[tuple[int, int]] = set()
    for variables, numbers in _parts(batches):
        if len(variables) > MOST:
            order += sorted(variables)
            dropped |= {number for number, _ in numbered if number[0] in numbers}
            continue
        orders = _Orders(universal(sorted(variables)))
        for number, given in numbered:
            if number[0] in numbers:
                extended = _extended(orders, number, given)
                orders = extended or orders
                dropped |= set() if extended else {number}
        tree = _single(orders)
        assert tree is not None
        order += frontier(tree)
    return Layout(tuple(order), frozenset(dropped))


def _parts(batches: Sequence[Sequence[Variables]]) -> list[tuple[set[int], set[int]]]:
    """Variables that have nothing to do with each other, with the numbers of the batches that have them."""
    found: list[tuple[set[int], set[int]]] = []
    for number, lists in enumerate(batches):
        variables, numbers = {variable for each in lists for variable in each}, {number}
        for other in [each for each in found if not each[0].isdisjoint(variables)]:
            found.remove(other)
            variables |= other[0]
            numbers |= other[1]
        found.append((variables, numbers))
    return found


def _extended(orders: _Orders, number: tuple[int, int], variables: Variables) -> _Orders | None:
    """The orders that hold for one more list, or None if there are none."""
    tree = reduced(orders.tree, frozenset(variables))
    if tree is None:
        return None
    if number[1] == 0:
        return _Orders(tree, {**orders.lists, number: variables})  # nothing is in one order with it yet
    found = _translated(_Orders(tree, {**orders.lists, number: variables}))
    return None if found is None or _single(found) is None else found


def _single(orders: _Orders) -> Tree | None:
    """One of the orders, as a tree; None if none is found."""
    pinned = _pinned(orders)
    return None if pinned is None else _directed(pinned)


def _translated(orders: _Orders) -> _Orders | None:
    """The orders with what the tree says about each list said about the others of its batch."""
    tree, before = orders.tree, None
    while tree != before:
        before = tree
        for one, other in orders.aligned():
            for source, target in ((one, other), (other, one)):
                for places in _neighbours(tree, source):
                    found = reduced(tree, frozenset(target[place] for place in places))
                    if found is None:
                        return None
                    tree = found
    return _Orders(tree, orders.lists)


def _pinned(orders: _Orders) -> _Orders | None:
    """Some of the orders, without P-nodes of more than two children; None if a list contradicts what was chosen."""
    while True:
        free = next((node for node in inner_nodes(orders.tree) if not node.fixed and len(node.children) > 2), None)
        if free is None:
            return orders
        tree: Tree | None = orders.tree
        for one, other in zip(free.children, free.children[1:], strict=False):
            assert tree is not None
            tree = reduced(tree, leaves_of(one) | leaves_of(other))
        assert tree is not None
        found = _translated(_Orders(tree, orders.lists))
        if found is None:
            return None
        orders = found


def _neighbours(tree: Tree, variables: Variables) -> list[Places]:
    """The sets of places of a list that are neighbours in each order of a tree."""
    sets = [run for children in _runs(tree, variables) for run in (*children.pairs, children.all)]
    return [places for places in dict.fromkeys(sets) if 1 < len(places) < len(variables)]


@dataclass(frozen=True)
class _Run:
    """Neighbouring children of a node that hold nothing but variables of a list, by their places in it."""

    node: Inner
    children: tuple[Places, ...]

    @property
    def all(self) -> Places:
        return frozenset().union(*self.children)

    @property
    def pairs(self) -> list[Places]:
        if not self.node.fixed:
            return []
        return [one | other for one, other in zip(self.children, self.children[1:], strict=False)]


def _runs(tree: Tree, variables: Variables) -> list[_Run]:
    """The nodes of a tree that order variables of a list, which are neighbours."""
    places = {variable: place for place, variable in enumerate(variables)}
    found: list[_Run] = []
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Inner):
            some = [child for child in node.children if not places.keys().isdisjoint(leaves_of(child))]
            inside = [leaves_of(child) for child in some if leaves_of(child) <= places.keys()]
            if len(inside) > 1:
                found.append(_Run(node, tuple(frozenset(places[leaf] for leaf in leaves) for leaves in inside)))
            waiting += some
    return found


def _directed(orders: _Orders) -> Tree | None:
    """The tree of a single order in which the lists of each batch are in the same order; None if there is none. All
    inner nodes are Q-nodes, or have two children."""
    flips: dict[Inner, tuple[Inner, bool]] = {}

    def root(node: Inner) -> tuple[Inner, bool]:
        """The node that stands for those whose directions depend on each other, and whether `node` is against it."""
        parent, against = flips.get(node, (node, False))
        if parent == node:
            return node, against
        top, more = root(parent)
        return top, against != more

    for one, other in orders.aligned():
        there = {frozenset(run.children): run for run in _runs(orders.tree, other)}
        for run in _runs(orders.tree, one):
            match = there.get(frozenset(run.children))
            if match is None or match.children not in (run.children, run.children[::-1]):
                return None
            (a, a_against), (b, b_against) = root(run.node), root(match.node)
            against = (a_against != b_against) != (match.children != run.children)
            if a != b:
                flips[a] = (b, against)
            elif against:
                return None

    def turned(tree: Tree) -> Tree:
        if isinstance(tree, int):
            return tree
        children = tuple(map(turned, tree.children))
        return Inner(children[::-1] if root(tree)[1] else children, fixed=True)

    return turned(orders.tree)
