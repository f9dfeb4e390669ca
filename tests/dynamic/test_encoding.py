"""Instances from Python: what they may be made of, what messages say about others, and words that are damaged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import deploykit
from deploykit.dynamic.encoding import encode
from deploykit.dynamic.policies import POLICIES
from deploykit.dynamic.signatures import Signature
from deploykit.dynamic.types import Bool, Float, Int, List, Tensor, Tuple, Union, Variant
from deploykit.errors import DataError, ShapeError
from deploykit.sessions.session import Session
from tests.dynamic import models
from tests.dynamic.harness import Built
from tests.dynamic.instances import instances

UNIONS = {
    "Tree": (
        Variant("Leaf", (("word", Int()),)),
        Variant("Node", (("left", Union("Tree")), ("right", Union("Tree")))),
        Variant("Data", (("x", Tensor((2,))), ("flags", List(Bool())), ("pair", Tuple((Int(), Float()))))),
    ),
    "Arc": (Variant("Arc", (("start", Int()), ("to", List(Int())))),),
}
TREE = Signature((("tree", Union("Tree")),), Int(), UNIONS)
SEVERAL = Signature((("arcs", List(Union("Arc"))), ("scale", Float())), Int(), UNIONS)


@dataclass
class Leaf:
    word: int


@dataclass
class Node:
    left: Any
    right: Any


@dataclass
class Data:
    x: Any
    flags: Any
    pair: Any


def words(signature: Signature, *given: Any) -> list[list[int]]:
    found = encode(signature, given)
    return [found.words.tolist(), found.roots.tolist(), found.elements.tolist()]


def test_the_same_tree_in_several_forms() -> None:
    expected = words(TREE, Node(Leaf(3), Data(np.float32([1, 2]), [True], (4, 0.5))))
    data = {"type": "Data", "x": [1, 2], "flags": (True,), "pair": [4, np.float64(0.5)]}
    assert words(TREE, ("Node", ("Leaf", 3), ("Data", (1, 2), [np.True_], (np.int64(4), 0.5)))) == expected
    assert words(TREE, {"type": "Node", "left": {"type": "Leaf", "word": 3}, "right": data}) == expected
    assert words(TREE, ["Node", Leaf(np.uint8(3)), data]) == expected


def test_one_dataclass_needs_no_name() -> None:
    expected = words(SEVERAL, ([("Arc", 1, [2, 3])], 4))
    assert words(SEVERAL, [[(1, (2, 3))], 4.0]) == expected
    assert words(SEVERAL, ([{"start": 1, "to": [2, 3]}], 4)) == expected
    assert words(SEVERAL, ([SimpleNamespace(start=1, to=np.array([2, 3]))], 4)) == expected


def test_shared_objects_are_stored_once() -> None:
    tree: Any = Leaf(1)
    for _ in range(200):
        tree = Node(tree, tree)
    assert len(encode(TREE, [tree, tree]).words) == 1 + 2 + 200 * 3
    array = np.ones(2, np.float32)
    assert encode(TREE, [Data(array, [], (0, 0)), Data(array, [], (0, 0))]).elements.size == 2


def test_a_generator_may_use_its_objects_again() -> None:
    found = encode(TREE, (Leaf(word) for word in range(50)))
    assert [found.words[root + 1] for (root,) in found.roots] == list(range(50))


def cycle() -> Node:
    node = Node(Leaf(1), None)
    node.right = Node(Leaf(2), node)
    return node


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "cycle": (cycle, "a Node contains itself"),
    "none": (lambda: Node(Leaf(1), None), "expected Tree: Leaf(word) or Node(left, right) or Data(x, flags, pair)"),
    "number": (lambda: 3, "expected Tree"),
    "name": (lambda: ("Branch", 1), "expected Tree"),
    "fields": (lambda: ("Leaf", 1, 2), "expected Tree"),
    "type": (lambda: {"type": "Other"}, "expected Tree"),
    "missing": (lambda: {"type": "Leaf", "value": 3}, "'Leaf' needs a field 'word'"),
    "float": (lambda: Leaf(1.5), "expected int, found float 1.5"),
    "bool": (lambda: Leaf(True), "expected int, found bool True"),
    "text": (lambda: Leaf("3"), "expected int, found str 3"),
    "large": (lambda: Leaf(2**31), "integers have 32 bits, found 2147483648"),
    "small": (lambda: Leaf(np.int64(-(2**31) - 1)), "integers have 32 bits, found -2147483649"),
    "shape": (lambda: Data([1, 2, 3], [], (0, 0)), "expected a tensor of shape (2,), found (3,)"),
    "letters": (lambda: Data("ab", [], (0, 0)), "expected a tensor of shape (2,), found str ab"),
    "rows": (lambda: Data([[1], [1, 2]], [], (0, 0)), "expected a tensor of shape (2,)"),
    "nothing": (lambda: Data([None, None], [], (0, 0)), "expected a tensor of shape (2,)"),
    "flags": (lambda: Data([1, 2], [1], (0, 0)), "expected bool, found int 1"),
    "list": (lambda: Data([1, 2], True, (0, 0)), "expected list[bool], found bool True"),
    "letters for a list": (lambda: Data([1, 2], "ab", (0, 0)), "expected list[bool], found str ab"),
    "pair": (lambda: Data([1, 2], [], (0, 0, 0)), "expected tuple[int, float], found tuple"),
    "number for a pair": (lambda: Data([1, 2], [], 5), "expected tuple[int, float], found int 5"),
    "number in a pair": (lambda: Data([1, 2], [], (0, False)), "expected float, found bool False"),
}


@pytest.mark.parametrize("name", WRONG)
def test_messages_name_the_instance(name: str) -> None:
    make, message = WRONG[name]
    with pytest.raises(ShapeError) as refused:
        encode(TREE, [Leaf(1), make()])
    assert str(refused.value).startswith("instance 1: ")
    assert message in str(refused.value)


def test_the_number_of_parameters() -> None:
    for wrong in ([[]], 3, ([], 1.0, 2.0)):
        with pytest.raises(ShapeError, match=r"instance 0: expected tuple\[list\[Arc\], float\]"):
            encode(SEVERAL, [wrong])
    none = Signature((), Int(), {})
    assert encode(none, [(), ()]).roots.shape == (2, 0)
    assert encode(TREE, []).roots.shape == (0, 1)


def test_a_session_names_the_instance(built: Built) -> None:
    with deploykit.open(built("TreeLSTM")) as session:
        with pytest.raises(DataError, match=r"line \d+: row 99 of 'embedding' of 20"):
            session([models.Leaf(1), models.Leaf(99)])
        with pytest.raises(ShapeError, match="instance 1: expected Tree"):
            session([models.Leaf(1), 5])
        assert len(session([models.Leaf(1)])) == 1


# Words that are damaged


def ports(name: str, session: Session, count: int = 4) -> dict[str, Any]:
    assert session._instances is not None
    found = encode(session._instances.signature, instances(name, count, seed=3))
    given = {"instances": found.words, "roots": found.roots, "policy": np.int32(POLICIES["critical"])}
    return given | ({"elements": found.elements} if name in ("TwoTypes", "Graph") else {})


def corrupted(random: np.random.Generator, given: dict[str, Any]) -> dict[str, Any]:
    damaged = {name: np.array(value) for name, value in given.items()}
    for _ in range(int(random.integers(1, 4))):
        name = str(random.choice(["instances", "instances", "instances", "roots"]))
        place = int(random.integers(0, damaged[name].size))
        size = damaged["instances"].size
        values = [0, -1, 1, size - 1, size, 2**31 - 1, -(2**31), int(random.integers(0, size))]
        damaged[name].reshape(-1)[place] = values[int(random.integers(0, len(values)))]
    if random.integers(0, 6) == 0:
        damaged["instances"] = damaged["instances"][: int(random.integers(0, size))]
    if "elements" in damaged and random.integers(0, 6) == 0:
        damaged["elements"] = damaged["elements"][:-1]
    return damaged


def refused(session: Session, given: dict[str, Any]) -> bool:
    """Whether a run refuses its words. Any other failure ends the test."""
    try:
        session.run(given)
    except DataError:
        return True
    return False


@pytest.mark.sampled(part=6)
@pytest.mark.parametrize("name", ["TwoTypes", "Lattice", "Graph"])
@pytest.mark.parametrize("sanitize", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_damaged_words_are_refused(name: str, sanitize: bool, built: Built) -> None:
    random = np.random.default_rng(len(name))
    with deploykit.open(built(name), sanitize=sanitize) as session:
        given = ports(name, session)
        assert not refused(session, given)
        found = [refused(session, corrupted(random, given)) for _ in range(60 if sanitize else 400)]
        assert sum(found) > len(found) / 4
        assert not refused(session, given)


def test_a_handle_to_itself_or_behind_is_refused(built: Built) -> None:
    with deploykit.open(built("TreeLSTM")) as session:
        given = ports("TreeLSTM", session, 1)
        root = int(given["roots"][0, 0])
        for handle in (root, root + 3, 0, -5):
            damaged = given | {"instances": given["instances"].copy()}
            damaged["instances"][root : root + 2] = 1, handle
            with pytest.raises(DataError, match="the record at word"):
                session.run(damaged)
        with pytest.raises(DataError, match="instance 0 refers to no record"):
            session.run(given | {"roots": np.int32([[2**30]])})
