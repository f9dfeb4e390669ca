"""Dynamic models on the command line: build with weights and samples, inspect, run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from deploykit.cli import app

SOURCE = """
from __future__ import annotations

from dataclasses import dataclass

from deploykit.dynamic import Model, Tensor, tanh


@dataclass
class Leaf:
    word: int


@dataclass
class Node:
    left: Tree
    right: Tree


Tree = Leaf | Node


class Sums(Model):
    embedding: Tensor[4, 2]

    def main(self, tree: Tree) -> Tensor[2]:
        match tree:
            case Leaf(word):
                return self.embedding[word]
            case Node(left, right):
                return tanh(self.main(left) + self.main(right))
"""
EMBEDDING = np.arange(8, dtype=np.float32).reshape(4, 2) / 8
TREES = [["Node", ["Leaf", 1], {"type": "Leaf", "word": 3}], ["Leaf", 2]]


def run(*arguments: object) -> tuple[int, str]:
    found = CliRunner().invoke(app, list(map(str, arguments)))
    return found.exit_code, found.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sums")
    (folder / "sums.py").write_text(SOURCE)
    (folder / "trees.json").write_text(json.dumps(TREES))
    np.savez(folder / "weights.npz", embedding=EMBEDDING)
    options = ("--weights", folder / "weights.npz", "--samples", folder / "trees.json", "-o", folder / "dist")
    code, output = run("build", f"{folder / 'sums.py'}:Sums", *options)
    assert code == 0, output
    assert "launches on the samples, of which at least 2 are needed" in " ".join(output.split())
    return folder


def test_a_run_prints_results_and_launches(folder: Path) -> None:
    code, output = run("run", folder / "dist", "--instances", folder / "trees.json", "--policy", "depth", "--json")
    assert code == 0, output
    found = json.loads(output)
    first, second = found["results"]
    np.testing.assert_allclose(first, np.tanh(EMBEDDING[1] + EMBEDDING[3]), rtol=1e-6)
    np.testing.assert_allclose(second, EMBEDDING[2])
    assert found["policy"] == "depth"
    assert sum(found["launches"].values()) == 2
    code, output = run("run", folder / "dist", "--instances", folder / "trees.json")
    assert code == 0, output
    assert "launches" in output


def test_a_picture_of_the_schedule(folder: Path) -> None:
    given = ("run", folder / "dist", "--instances", folder / "trees.json", "--policy", "alone")
    assert run(*given, "--trace", folder / "schedule.svg")[0] == 0
    picture = (folder / "schedule.svg").read_text()
    launches = json.loads(run(*given, "--json")[1])["launches"]
    count = sum(launches.values())
    assert "Sums, 2 instances, policy alone" in picture
    assert f"{count} nodes in {count} launches" in picture
    assert all(f"{cell} x {launched}" in picture for cell, launched in launches.items())
    assert run(*given, "--trace", folder / "schedule.png")[0] == 0
    assert run(*given, "--trace", folder / "again.svg")[0] == 0
    assert (folder / "again.svg").read_text() == picture


def test_a_picture_of_no_instances(folder: Path) -> None:
    (folder / "none.json").write_text("[]")
    code, output = run("run", folder / "dist", "--instances", folder / "none.json", "--trace", folder / "none.svg")
    assert code == 0, output
    assert "0 nodes in 0 launches" in (folder / "none.svg").read_text()


def test_a_picture_has_no_room_for_many_nodes(folder: Path) -> None:
    (folder / "many.json").write_text(json.dumps([TREES[0]] * 3000))
    code, output = run("run", folder / "dist", "--instances", folder / "many.json", "--trace", folder / "many.svg")
    assert code == 2
    assert "a picture has room for 2000 nodes" in " ".join(output.split())
    assert not (folder / "many.svg").exists()


def test_inspect_shows_the_model(folder: Path) -> None:
    code, output = run("inspect", folder / "dist")
    assert code == 0, output
    assert "main(tree: Tree) -> Tensor[2]" in output
    assert "Tree: Leaf(word: int) or Node(left: Tree, right: Tree)" in output
    assert "by instance" in output
    assert "bytes of control flow, counting the nodes of each cell" in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "dist"), "give it --instances FILE.json"),
        (("run", "dist", "--policy", "depth"), "--policy goes with --instances"),
        (("run", "dist", "--trace", "s.svg"), "--trace goes with --instances"),
        (("run", "dist", "--instances", "trees.json", "--trace", "s.pdf"), "must end in .png or .svg"),
        (("run", "dist", "--instances", "trees.json", "--trace", "no/s.svg"), "cannot write 'no/s.svg'"),
        (("run", "dist", "--instances", "missing.json"), "missing.json cannot be read"),
        (("run", "dist", "--instances", "trees.json", "--policy", "best"), "there is no policy 'best'"),
        (
            ("build", "sums.py:Sums", "--ragged", "seq", "-o", "other"),
            "the option 'ragged' is for an ONNX file; sums.py:Sums, a dynamic model, has",
        ),
        (("build", "sums.py:Sums", "--weights", "trees.json", "-o", "other"), "is no file of weights"),
        (("build", "sums.py:Sums", "--dim", "seq=1..8", "-o", "other"), "its dims are: batch, words, elements"),
        (("build", "sums.py:Other", "-o", "other"), "has no operator 'Other'"),
    ],
)
def test_wrong_use(folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str) -> None:
    monkeypatch.chdir(folder)
    code, output = run(*arguments)
    assert code == 2
    assert message in " ".join(output.split())
    assert not (folder / "other").exists()
