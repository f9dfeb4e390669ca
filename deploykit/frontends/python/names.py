"""The names that a part of the source reads and assigns."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence


def names_used(node: ast.AST) -> set[str]:
    """The names that a part of the source reads."""
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)} | {
        each.target.id
        for each in ast.walk(node)
        if isinstance(each, ast.AugAssign) and isinstance(each.target, ast.Name)
    }


def names_assigned(statements: Sequence[ast.AST]) -> set[str]:
    """The names that statements assign, those of patterns included, but not those of comprehensions."""
    found: set[str] = set()
    waiting: list[ast.AST] = list(statements)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.ListComp | ast.GeneratorExp):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        if isinstance(node, ast.MatchAs) and node.name is not None:
            found.add(node.name)
        waiting += ast.iter_child_nodes(node)
    return found


def names_needed(statements: Sequence[ast.stmt], later: Iterable[str]) -> frozenset[str]:
    """The names whose values before statements may be read in them or behind them, where those of `later` are read."""
    found = set(later)
    for each in reversed(statements):
        if isinstance(each, ast.Assign):
            found -= names_assigned([each])
        found |= names_used(each)
    return frozenset(found)
