"""PQ-trees: all orders of a set in which the elements of given subsets are neighbours.

A tree stands for the orders of its leaves that come of it when the children of each P-node are permuted at will, and
those of each Q-node are reversed or not. `reduced` takes the tree to the one of those orders in which the elements of
one more subset are neighbours (Booth and Lueker: Testing for the consecutive ones property, interval graphs, and graph
planarity using PQ-tree algorithms, JCSS 1976). The templates are those of the paper, applied from the root on by
recursion; a reduction takes time linear in the tree instead of in the subset, which is enough for some hundred leaves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias


@dataclass(frozen=True)
class Inner:
    """A P-node, or a Q-node if its children are `fixed` but for their direction. It has at least two children."""

    children: tuple[Tree, ...]
    fixed: bool = False

    @cached_property
    def leaves(self) -> frozenset[int]:
        return frozenset(frontier(self))


Tree: TypeAlias = Inner | int
"""A leaf is an element."""


def universal(elements: Sequence[int]) -> Tree:
    """The tree of all orders of at least one element."""
    return _p_node(elements)


def frontier(tree: Tree) -> tuple[int, ...]:
    """The leaves in their order."""
    if isinstance(tree, int):
        return (tree,)
    return tuple(leaf for child in tree.children for leaf in frontier(child))


def leaves_of(tree: Tree) -> frozenset[int]:
    return frozenset((tree,)) if isinstance(tree, int) else tree.leaves


def inner_nodes(tree: Tree) -> Iterator[Inner]:
    """The inner nodes, children before their parents."""
    if isinstance(tree, Inner):
        for child in tree.children:
            yield from inner_nodes(child)
        yield tree


def reduced(tree: Tree, subset: AbstractSet[int]) -> Tree | None:
    """The tree of those orders in which the elements of a subset are neighbours; None if there is no such order."""
    if isinstance(tree, int):
        return tree
    for index, child in enumerate(tree.children):
        if subset <= leaves_of(child):
            inner = reduced(child, subset)
            if inner is None:
                return None
            return Inner((*tree.children[:index], inner, *tree.children[index + 1 :]), tree.fixed)
    return _root_of_q(tree, subset) if tree.fixed else _root_of_p(tree, subset)


def _root_of_p(tree: Inner, subset: AbstractSet[int]) -> Tree | None:
    """Templates P2, P4 and P6: the children that hold elements of the subset come together."""
    empty, partial, full = _sorted(tree.children, subset)
    if len(partial) > 2:
        return None
    ends = [_ascending(child, subset) for child in partial]
    if any(end is None for end in ends):
        return None
    together = _joint(full)
    if ends:
        first, last = [list(end or ()) for end in (*ends, ())[:2]]
        together = [_q_node([*first, *together, *reversed(last)])]
    return _p_node([*empty, *together])


def _root_of_q(tree: Inner, subset: AbstractSet[int]) -> Tree | None:
    """Template Q3: empty children, at most one that is partly full, full ones, at most one partly full, empty ones."""
    states = [_state(child, subset) for child in tree.children]
    used = [index for index, state in enumerate(states) if state]
    first, last = used[0], used[-1]
    if any(state < 2 for state in states[first + 1 : last]):
        return None
    start, end = (_ascending(tree.children[index], subset) for index in (first, last))
    if start is None or end is None:
        return None
    between = [*start, *tree.children[first + 1 : last], *reversed(end)]
    return _q_node([*tree.children[:first], *between, *tree.children[last + 1 :]])


def _ascending(tree: Tree, subset: AbstractSet[int]) -> list[Tree] | None:
    """Templates P3, P5 and Q2: the tree as children of a Q-node, those without elements of the subset before those that
    have no others. None if there is no such order."""
    if isinstance(tree, int) or _state(tree, subset) != 1:
        return [tree]
    empty, partial, full = _sorted(tree.children, subset)
    if len(partial) > 1:
        return None
    inner = _ascending(partial[0], subset) if partial else []
    if inner is None:
        return None
    if not tree.fixed:
        return [*_joint(empty), *inner, *_joint(full)]
    states = [_state(child, subset) for child in tree.children]
    if states not in (sorted(states), sorted(states, reverse=True)):
        return None
    return [*empty, *inner, *full] if states == sorted(states) else [*empty[::-1], *inner, *full[::-1]]


def _sorted(children: Iterable[Tree], subset: AbstractSet[int]) -> tuple[list[Tree], list[Tree], list[Tree]]:
    """The children without elements of a subset, those with some, and those with no others."""
    found: tuple[list[Tree], list[Tree], list[Tree]] = ([], [], [])
    for child in children:
        found[_state(child, subset)].append(child)
    return found


def _state(tree: Tree, subset: AbstractSet[int]) -> int:
    """0 for a tree without elements of a subset, 2 for one without others, else 1."""
    leaves = leaves_of(tree)
    return 0 if leaves.isdisjoint(subset) else 2 if leaves <= subset else 1


def _joint(trees: Sequence[Tree]) -> list[Tree]:
    """The trees as one, if there are any."""
    return [_p_node(trees)] if trees else []


def _p_node(children: Sequence[Tree]) -> Tree:
    return children[0] if len(children) == 1 else Inner(tuple(children))


def _q_node(children: Sequence[Tree]) -> Tree:
    """Two children have the same orders in both kinds of nodes, which are P-nodes then."""
    return Inner(tuple(children), fixed=len(children) > 2)
