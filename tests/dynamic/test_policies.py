"""A build chooses the policy of a dynamic model by the launches on samples; all policies give the same results."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import deploykit
from deploykit.compiler.batching.choosing import with_policy
from deploykit.compiler.batching.graphs import lower_bound
from deploykit.compiler.batching.policies import launches
from deploykit.compiler.batching.tracing import traced
from deploykit.errors import DataError, ShapeError, UsageError
from deploykit.frontends.python.models import import_model

SOURCE = """
from __future__ import annotations

from dataclasses import dataclass

from deploykit.dynamic import Model, Tensor, random, sum, tanh


@dataclass
class Leaf:
    word: int


@dataclass
class Node:
    left: Tree
    right: Tree


Tree = Leaf | Node


class Walk(Model):
    \"\"\"A random walk over a tree, whose length depends on tensors.\"\"\"

    embedding: Tensor[20, 8]
    w: Tensor[8, 8]

    def encode(self, tree: Tree) -> Tensor[8]:
        match tree:
            case Leaf(word):
                return self.embedding[word]
            case Node(left, right):
                return tanh(self.encode(left) @ self.w + self.encode(right))

    def main(self, tree: Tree, seed: int, scale: float) -> tuple[Tensor[8], int]:
        h = self.encode(tree)
        value, state = random(seed)
        steps = 0
        while steps < 9 and float(sum(h)) < 2.0 + value:
            h = tanh(h @ self.w) * (steps + 1) + h / (scale + 1.5)
            value, state = random(state)
            steps += 1
        return h, steps
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("walk") / "walk.py"
    path.write_text(SOURCE)
    return path


def tree(random: np.random.Generator, leaves: int) -> object:
    if leaves == 1:
        return {"type": "Leaf", "word": int(random.integers(20))}
    left = int(random.integers(1, leaves))
    return ["Node", tree(random, left), tree(random, leaves - left)]


def samples(count: int, seed: int = 0) -> list[object]:
    random = np.random.default_rng(seed)
    return [[tree(random, int(random.integers(1, 9))), n * 7919, n / 3] for n in range(count)]


def test_the_graph_of_samples_is_that_of_a_run(source: Path, tmp_path: Path) -> None:
    model = import_model(source, "Walk", None)
    instances = [tuple(each) for each in samples(7)]  # type: ignore[arg-type]
    graph = traced(model, instances)
    deploykit.build(f"{source}:Walk", output=tmp_path / "dist")
    with deploykit.open(tmp_path / "dist") as session:
        session.policy = "alone"
        session(instances)
        assert dict(session.launches) == {name: graph.cell_of.count(cell) for cell, name in enumerate(model.cell_names)}


def test_the_fewest_launches_are_chosen(source: Path) -> None:
    model = import_model(source, "Walk", None)
    instances = [tuple(each) for each in samples(9)]  # type: ignore[arg-type]
    chosen = with_policy(model, instances, None)
    graph = traced(model, instances)
    counts = {name: launches(graph, name) for name in ("depth", "agenda", "critical")}  # type: ignore[arg-type]
    counts["fsm"] = launches(graph, chosen.table)
    assert counts[chosen.policy] == min(counts.values()) >= lower_bound(graph)
    (note,) = chosen.notes
    assert f"{chosen.policy} {counts[chosen.policy]}" in note


def test_a_learned_policy_gives_the_results_of_the_others(source: Path, tmp_path: Path) -> None:
    file = tmp_path / "samples.json"
    file.write_text(json.dumps(samples(9)))
    deploykit.build(f"{source}:Walk", output=tmp_path / "dist", samples=file, policy="fsm")
    instances = [tuple(each) for each in samples(12, seed=1)]  # type: ignore[arg-type]
    with deploykit.open(tmp_path / "dist") as session:
        assert session.policy == "fsm"
        found = session(instances)
        for policy in ("depth", "agenda", "critical", "alone"):
            session.policy = policy
            for (h, steps), (other, others) in zip(found, session(instances), strict=True):
                assert steps == others
                np.testing.assert_allclose(h, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("given", "policy", "error", "message"),
    [
        (None, "fsm", UsageError, "give samples"),
        (None, "best", UsageError, "there is no policy 'best'"),
        ([], None, UsageError, "the samples use no tensor operators"),
        ([(3, 1, 1.0)], None, ShapeError, "instance 0: expected Tree"),
        ([(("Leaf", 20), 1, 1.0)], None, DataError, "row 20 of 'embedding' of 20"),
    ],
)
def test_wrong_choices(source: Path, given: object, policy: str, error: type[Exception], message: str) -> None:
    model = import_model(source, "Walk", None)
    with pytest.raises(error, match=message):
        with_policy(model, given, policy)  # type: ignore[arg-type]
