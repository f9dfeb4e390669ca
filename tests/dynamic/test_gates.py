"""Gates that are written one by one run as few products, with the same results."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deploykit
from deploykit.artifact.manifest import CellEntry, read_manifest
from tests.dynamic import gates
from tests.dynamic.harness import assert_close, assert_same_bits, eager
from tests.dynamic.instances import Random, whole

SOURCE = Path(gates.__file__)
COUNTS = {"GRU": [(4, 2, 0, 0), (16, 14, 0, 0)], "TreeGRU": [(2, 2, 0, 0), (24, 11, 9, 0)]}
"""For each cell: operators as written, operators that run, tensors that they find side by side, and copied ones."""

GIVES = {"GRU": [1, 2], "TreeGRU": [1, 1]}
"""The results of each cell: nothing that the next round of a loop computes anew."""


def tree(random: Random, depth: int = 5) -> gates.Tree:
    if depth == 0 or whole(random, 0, 4) == 0:
        return gates.Leaf(whole(random, 0, 19))
    return gates.Node(tree(random, depth - 1), tree(random, depth - 1))


MAKERS: dict[str, Any] = {
    "GRU": lambda random: [whole(random, 0, 19) for _ in range(whole(random, 0, 7))],
    "TreeGRU": tree,
}


def cells(folder: Path) -> tuple[CellEntry, ...]:
    entry = read_manifest(folder).dynamic
    assert entry is not None
    return entry.cells


@pytest.mark.slow
@pytest.mark.parametrize("name", MAKERS)
def test_gates(name: str, tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    given = [MAKERS[name](random) for _ in range(15)]
    expected = eager(getattr(gates, name)(), given)
    for fuse in (True, False):
        folder = tmp_path / f"{name}-{fuse}"
        deploykit.build(deploykit.load(f"{SOURCE}:{name}", fuse=fuse), output=folder, exact=True)
        with deploykit.open(folder) as session:
            session.policy = "alone"
            alone = session(given)
            assert_close(alone, expected)
            session.policy = "critical"
            assert_same_bits(session(given), alone)
        found = [(cell.written, cell.operators, cell.beside, cell.gathered) for cell in cells(folder)]
        if fuse:
            assert found == COUNTS[name]
            assert [len(cell.gives) for cell in cells(folder)] == GIVES[name]
        else:
            assert all(written == operators for written, operators, *_ in found)


def test_inspect_counts_operators(tmp_path: Path) -> None:
    deploykit.build(f"{SOURCE}:TreeGRU", output=tmp_path / "dist")
    command = [sys.executable, "-m", "deploykit", "inspect", str(tmp_path / "dist")]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "200"})
    assert "24 -> 11" in shown.stdout
