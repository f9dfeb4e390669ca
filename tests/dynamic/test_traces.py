"""The trace of a run: every node in one launch, for the right instance and object, under each policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import deploykit
from deploykit.dynamic.policies import POLICIES
from deploykit.errors import UsageError
from deploykit.sessions.session import Session
from tests.dynamic.test_policies import SOURCE, samples
from tests.seeded import seeded

TREES = """
class TreeSum(Model):
    embedding: Tensor[20, 8]
    left: Tensor[8, 8]
    right: Tensor[8, 8]

    def encode(self, tree: Tree) -> Tensor[8]:
        match tree:
            case Leaf(word):
                return self.embedding[word]
            case Node(left, right):
                return tanh(self.encode(left) @ self.left + self.encode(right) @ self.right)

    def main(self, trees: list[Tree], scale: int) -> list[Tensor[8]]:
        return [self.encode(tree) * scale for tree in trees]
"""


class Leaf:
    def __init__(self, word: int) -> None:
        self.word = word


class Node:
    def __init__(self, left: object, right: object) -> None:
        self.left, self.right = left, right


def tree(random: np.random.Generator, leaves: int) -> object:
    if leaves == 1:
        return Leaf(int(random.integers(20)))
    left = int(random.integers(1, leaves))
    return Node(tree(random, left), tree(random, leaves - left))


def within(value: object) -> Iterator[object]:
    yield value
    if isinstance(value, Node):
        yield from within(value.left)
        yield from within(value.right)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("traces")
    (folder / "models.py").write_text(SOURCE + TREES)
    for name in ("TreeSum", "Walk"):
        deploykit.build(f"{folder / 'models.py'}:{name}", output=folder / name)
    return folder


@pytest.fixture(scope="module")
def trees(folder: Path) -> Iterator[Session]:
    with deploykit.open(folder / "TreeSum") as session:
        session.tracing = True
        yield session


def instances(count: int) -> list[tuple[list[object], int]]:
    random = np.random.default_rng(count)
    return [([tree(random, int(n)) for n in random.integers(1, 9, random.integers(4))], 2) for _ in range(count)]


@pytest.mark.parametrize("policy", POLICIES)
def test_each_object_runs_once_and_behind_its_operands(trees: Session, policy: str) -> None:
    given = instances(12)
    trees.policy = policy
    trees(given)
    assert Counter(launch.cell for launch in trees.trace) == +Counter(dict(trees.launches))
    ran = {id(node.object): number for number, launch in enumerate(trees.trace) for node in launch.nodes}
    owners = {id(node.object): node.instance for launch in trees.trace for node in launch.nodes}
    for number, (listed, _) in enumerate(given):
        objects = [each for root in listed for each in within(root)]
        assert {owners[id(each)] for each in objects} <= {number}
        for each in objects:
            if isinstance(each, Node):
                assert ran[id(each)] > max(ran[id(each.left)], ran[id(each.right)])
    counts = Counter(node.instance for launch in trees.trace for node in launch.nodes)
    for number, instance in enumerate(given):
        trees([instance])
        assert counts[number] == sum(len(launch.nodes) for launch in trees.trace)
        if policy == "alone":
            assert all(len(launch.nodes) == 1 for launch in trees.trace)


def test_a_node_is_for_the_first_parameter_that_is_no_number(trees: Session) -> None:
    leaf = Leaf(3)
    listed = [leaf, Node(leaf, Leaf(4))]
    trees([(listed, 2), ([], 5)])
    scaled = [node.object for launch in trees.trace for node in launch.nodes if isinstance(node.object, list)]
    found = Counter(id(node.object) for launch in trees.trace for node in launch.nodes)
    assert scaled
    assert all(each is listed for each in scaled)
    assert found[id(leaf)] >= 2  # as a root, and below one
    assert found[id(listed[1])] >= 1


@pytest.mark.parametrize("policy", POLICIES)
def test_instances_that_wait_for_tensors(folder: Path, policy: str) -> None:
    """Instances go on in turns, each for as many steps as its tensors say."""
    given = samples(9)
    with deploykit.open(folder / "Walk") as session:
        session.policy = policy
        expected = session(given)
        launches = session.launches
        session.tracing = True
        for (own, steps), (other, others) in zip(session(given), expected, strict=True):
            assert steps == others
            np.testing.assert_array_equal(own, other)
        assert session.launches == launches
        assert Counter(launch.cell for launch in session.trace) == +Counter(dict(launches))
        counts = Counter(node.instance for launch in session.trace for node in launch.nodes)
        for number, instance in enumerate(given):
            session([instance])
            assert counts[number] == sum(len(launch.nodes) for launch in session.trace)


def test_sanitized(folder: Path) -> None:
    given = instances(5)
    with deploykit.open(folder / "TreeSum", sanitize=True) as session:
        session.tracing = True
        session(given)
        assert Counter(launch.cell for launch in session.trace) == +Counter(dict(session.launches))


def test_a_large_run(trees: Session) -> None:
    """It needs more memory than a session begins with."""
    leaf: object = Leaf(0)
    for _ in range(3000):
        leaf = Node(leaf, Leaf(1))
    trees([([leaf], 1), *instances(300)])
    assert Counter(launch.cell for launch in trees.trace) == +Counter(dict(trees.launches))
    assert sum(len(launch.nodes) for launch in trees.trace) > 6000


def test_no_trace_unless_it_is_asked_for(folder: Path, model_of_tensors: Session) -> None:
    with deploykit.open(folder / "TreeSum") as session:
        session(instances(2))
        with pytest.raises(UsageError, match="no trace: set 'tracing' before it"):
            _ = session.trace
        session.tracing = True
        session([])
        assert session.trace == []
        session.tracing = False
        session(instances(2))
        with pytest.raises(UsageError, match="no trace"):
            _ = session.trace
    with pytest.raises(UsageError, match="no dynamic model"):
        model_of_tensors.tracing = True


@pytest.fixture
def model_of_tensors(tmp_path: Path) -> Iterator[Session]:
    model = seeded('<ir_version: 9, opset_import: ["": 20]> m (float[n] x) => (float[n] y) { y = Relu(x) }', {})
    deploykit.build(model, output=tmp_path / "relu")
    with deploykit.open(tmp_path / "relu") as session:
        yield session
