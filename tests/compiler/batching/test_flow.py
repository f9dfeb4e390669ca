"""What is said about the flow of tensors between cells holds for the nodes of all instances."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deploykit.compiler.batching.flow import Summary, stages, summaries
from deploykit.compiler.batching.model import DynamicModel
from deploykit.compiler.batching.tracing import traced
from deploykit.frontends.python.models import import_model
from tests.dynamic import models
from tests.dynamic.instances import MAKERS, instances
from tests.dynamic.programs import program
from tests.dynamic.test_random_programs import instance

SOURCE = Path(models.__file__)


@pytest.mark.parametrize("name", MAKERS)
def test_models(name: str) -> None:
    check(import_model(SOURCE, name, None), instances(name, 30))


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed: int, tmp_path: Path) -> None:
    source = tmp_path / "random_program.py"
    source.write_text(program(seed))
    random = np.random.default_rng(seed)
    check(import_model(source, "Random", None), [instance(random) for _ in range(12)])


def check(model: DynamicModel, given: list[Any]) -> None:
    graph = traced(model, given)
    found = stages(model.control, len(model.cells))
    depths: dict[int, int] = {}
    for node, (cell, operands) in enumerate(zip(graph.cell_of, graph.operands_of, strict=True)):
        stage = found[cell]
        depths[node] = 1 + max((depths[operand] for operand in operands), default=0)
        before = {graph.cell_of[operand] for operand in operands}
        assert before <= set(stage.after)
        assert all(found[other].phase <= stage.phase for other in before)
        assert stage.depth is None or depths[node] <= stage.depth
    for stage in found:
        assert all(found[other].phase <= stage.phase for other in stage.after)


def test_a_tree() -> None:
    """Leaves, nodes that follow leaves and nodes, and the output layer."""
    model = import_model(SOURCE, "TreeLSTM", None)
    assert model.cell_names == ("encode", "encode_2", "main")
    leaf, node, last = stages(model.control, 3)
    assert (leaf.after, leaf.phase, leaf.depth) == ((), 1, 1)
    assert (node.after, node.phase, node.depth) == ((0, 1), 2, None)
    assert (last.after, last.phase, last.depth) == ((0, 1), 3, None)
    assert summaries(model.control) == [
        Summary("main", ("encode",), (), (2,), False),
        Summary("encode", ("encode",), (), (0, 1), False),
    ]


def test_lists_apart(tmp_path: Path) -> None:
    """What is in one list does not come from another one; a chain of known length has a depth."""
    (tmp_path / "lists.py").write_text(LISTS)
    model = import_model(tmp_path / "lists.py", "Lists", None)
    found = stages(model.control, len(model.cells))
    after = {model.cell_names[i]: {model.cell_names[j] for j in stage.after} for i, stage in enumerate(found)}
    depths = {name: stage.depth for name, stage in zip(model.cell_names, found, strict=True)}
    assert all(depth is not None for depth in depths.values())
    assert max(depth or 0 for depth in depths.values()) == 3
    assert sum(not before for before in after.values()) == 2


LISTS = """
from deploykit.dynamic import Model, Tensor, tanh


def inner(w: Tensor[4, 4], x: Tensor[4]) -> Tensor[4]:
    return tanh(w @ x)


class Lists(Model):
    a: Tensor[9, 4]
    b: Tensor[9, 4]
    w: Tensor[4, 4]
    v: Tensor[4, 4]

    def main(self, words: list[int]) -> tuple[list[Tensor[4]], list[Tensor[4]]]:
        left = [self.a[word] for word in words]
        right = [tanh(self.b[word]) for word in words]
        once = [tanh(self.w @ x) for x in left]
        return [tanh(self.w @ x) for x in once], [tanh(self.v @ x) for x in right]
"""
