"""Nodes with matrices: equal ones are one node, products read them where they are, and results stay the same."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deploykit
from deploykit.compiler.batching.model import DynamicModel, cells_model
from deploykit.compiler.batching.techniques import ALL, Techniques
from deploykit.compiler.batching.tracing import traced
from deploykit.frontends.python.models import import_model
from tests.dynamic import matrices
from tests.dynamic.harness import assert_close, assert_same_bits, eager

SOURCE = Path(matrices.__file__)
TECHNIQUES = [ALL, Techniques(sharing=False), Techniques(gathering=False), Techniques(sharing=False, gathering=False)]


def tree(random: np.random.Generator, leaves: int) -> Any:
    if leaves == 1:
        return matrices.Leaf(int(random.integers(matrices.WORDS)))
    left = int(random.integers(1, leaves))
    return matrices.Node(tree(random, left), tree(random, leaves - left))


def trees(count: int, leaves: int) -> list[Any]:
    random = np.random.default_rng(1)
    return [tree(random, int(random.integers(1, leaves))) for _ in range(count)]


def read(techniques: Techniques = ALL) -> DynamicModel:
    weights = {name: array / 8 for name, array in matrices.Matrices(seed=0).weights().items()}
    return import_model(SOURCE, "Matrices", weights, techniques)


@pytest.mark.parametrize("techniques", TECHNIQUES)
def test_results(techniques: Techniques, tmp_path: Path) -> None:
    """The nodes of all trees are more than one part of a flush."""
    model, given = read(techniques), trees(40, 20)
    deploykit.build(cells_model(model), output=tmp_path / "dist", exact=True)
    with deploykit.open(tmp_path / "dist") as session:
        session.policy = "alone"
        alone = session(given)
        assert_close(alone, eager(matrices.Matrices(model.weights), given))
        for policy in ("critical", "depth", "agenda"):
            session.policy = policy
            assert_same_bits(session(given), alone)


def test_equal_nodes_are_one(tmp_path: Path) -> None:
    """A word is looked up once, and so are its products with each weight; other nodes are those without sharing."""
    given = trees(30, 10)
    shared, apart = (traced(read(each), given) for each in (ALL, Techniques(sharing=False)))
    leaves = len(re.findall("Leaf", repr(given)))
    nodes = len(re.findall("Node", repr(given)))
    assert len(apart.cells) == leaves + nodes + len(given)
    of_leaves = 2 * nodes  # each child has a product with a weight, and the right ones have two
    assert len(shared.cells) < matrices.WORDS + of_leaves + nodes + nodes + len(given)
    deploykit.build(cells_model(read()), output=tmp_path / "dist")
    with deploykit.open(tmp_path / "dist") as session:
        session.tracing = True
        for policy in ("critical", "alone"):
            session.policy = policy
            session(given)
            assert sum(len(launch.nodes) for launch in session.trace) == len(shared.cells)


def test_products_read_matrices_in_place(tmp_path: Path) -> None:
    texts = []
    for number, techniques in enumerate((ALL, Techniques(gathering=False))):
        folder = tmp_path / str(number)
        deploykit.build(cells_model(read(techniques)), output=folder)
        texts.append((folder / "program.txt").read_text())
    copies = [len(re.findall(r"float32\[nodes\w*, 64, 64\] @ arena.* = operand", text)) for text in texts]
    assert copies[0] == 0
    assert copies[1] > 3
