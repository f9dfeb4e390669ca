"""Decision trees as tables of constants. A kernel that walks them stays within the tables and ends for any input."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deploykit.compiler.operators.building.errors import Unsupported

MEMBER = "BRANCH_MEMBER"
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", MEMBER)


@dataclass(frozen=True)
class Forest:
    """Tables over nodes (the first seven), trees, leaves and votes. A branch or root that is not negative is a node; a
    branch or root `-1 - k` is leaf `k`. The votes of leaf `k` begin at `first_vote[k]` and end before
    `first_vote[k + 1]`; the members of a node are given in the same way.

    Raises `Unsupported` for tables that are not trees."""

    feature: np.ndarray
    mode: np.ndarray
    split: np.ndarray
    missing: np.ndarray
    yes: np.ndarray
    no: np.ndarray
    first_member: np.ndarray
    members: np.ndarray
    roots: np.ndarray
    first_vote: np.ndarray
    target: np.ndarray
    weight: np.ndarray

    def __post_init__(self) -> None:
        nodes, leaves = len(self.mode), len(self.first_vote) - 1
        if any(len(table) != nodes for table in (self.feature, self.split, self.missing, self.yes, self.no)):
            raise Unsupported("trees whose lists of nodes have different lengths")
        if len(self.target) != len(self.weight) or self.first_vote[-1] != len(self.weight):
            raise Unsupported("trees whose lists of leaves have different lengths")
        if not _within(self.mode, 0, len(MODES)):
            raise Unsupported(f"a mode of a node that is not one of {', '.join(MODES)}")
        branches = np.concatenate([self.yes, self.no])
        if not _within(branches, -leaves, nodes) or not _within(self.roots, -leaves, nodes):
            raise Unsupported("a branch to a node or leaf that no tree has")
        entered = branches[branches >= 0]
        if len(np.unique(entered)) < len(entered) or np.isin(self.roots[self.roots >= 0], entered).any():
            raise Unsupported("a node with two parents, which is no tree")


def _within(table: np.ndarray, first: int, end: int) -> bool:
    """Whether all numbers are at least `first` and below `end`."""
    return bool(((table >= first) & (table < end)).all())
