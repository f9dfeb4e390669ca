"""Each technique can be left out: results stay the same, and what it does is no longer there."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

import deploykit
from deploykit.compiler.batching.cells import Constant, Step, tables
from deploykit.compiler.batching.graphs import lower_bound
from deploykit.compiler.batching.model import DynamicModel, cells_model
from deploykit.compiler.batching.techniques import ALL, Techniques
from deploykit.compiler.batching.tracing import traced
from deploykit.frontends.python.models import import_model
from tests.dynamic import models
from tests.dynamic.conftest import MODELS
from tests.dynamic.harness import assert_close, eager
from tests.dynamic.instances import MAKERS, instances

WITHOUT = {each.name: Techniques(**{each.name: False}) for each in fields(Techniques)}


def read(name: str, techniques: Techniques = ALL) -> DynamicModel:
    return import_model(MODELS, name, getattr(models, name)().weights(), techniques)


def build(name: str, techniques: Techniques, folder: Path) -> Path:
    deploykit.build(cells_model(read(name, techniques)), output=folder)
    return folder


@pytest.mark.sampled(part=18)
@pytest.mark.parametrize("without", WITHOUT)
@pytest.mark.parametrize(
    "name",
    [
        "Tagger",
        *(pytest.param(each, marks=pytest.mark.slow) for each in MAKERS if each != "Tagger"),
    ],
)
def test_results_without_a_technique(name: str, without: str, tmp_path: Path) -> None:
    given = instances(name, 9, seed=3)
    expected = eager(getattr(models, name)(), given)
    with deploykit.open(build(name, WITHOUT[without], tmp_path / "dist")) as session:
        for policy in ("critical", "depth", "alone"):
            session.policy = policy
            assert_close(session(given), expected)


def test_without_coarsening_each_operator_is_a_cell() -> None:
    coarse, fine = read("Tagger"), read("Tagger", WITHOUT["coarsening"])

    def operators(model: DynamicModel) -> list[int]:
        return [sum(isinstance(each, Step) for each in cell.entries) for cell in model.cells]

    assert set(operators(fine)) == {1}
    assert max(operators(coarse)) > 5
    given = [[1, 2, 3]]
    assert len(traced(fine, given).cells) > 3 * len(traced(coarse, given).cells)


def test_without_hoisting_an_input_is_multiplied_when_it_is_needed() -> None:
    hoisted, late = read("Tagger"), read("Tagger", WITHOUT["hoisting"])
    weights = [
        {each.source for each in cell.entries if isinstance(each, Constant)} for cell in (*hoisted.cells, *late.cells)
    ]
    own, joint = weights[: len(hoisted.cells)], weights[len(hoisted.cells) :]
    assert not any({"fw", "fu"} <= names for names in own)
    assert any({"fw", "fu"} <= names for names in joint)
    given = [[1, 2, 3], [4, 5]]
    assert lower_bound(traced(late, given)) < lower_bound(traced(hoisted, given))


def test_without_tables_cells_of_leaves_have_operators(tmp_path: Path) -> None:
    model = read("TreeLSTM")
    assert [cell for cell in model.cells if tables(cell, model.weights) is not None]
    assert "matmul" not in steps("TreeLSTM", ALL, tmp_path / "all")["cell_encode"]
    assert "matmul" in steps("TreeLSTM", WITHOUT["tables"], tmp_path / "none")["cell_encode"]


def test_operators_of_a_cell_run_together(tmp_path: Path) -> None:
    """The products of both children are one."""
    together = steps("TreeLSTM", ALL, tmp_path / "all")["cell_encode_2"]
    apart = steps("TreeLSTM", WITHOUT["joining"], tmp_path / "none")["cell_encode_2"]
    assert [len(re.findall(r"= \w*matmul", text)) for text in (together, apart)] == [1, 2]


def test_kernels_gather_their_operands(tmp_path: Path) -> None:
    """The states of the children in the sum, but not those in front of products."""
    together = steps("TreeLSTM", WITHOUT["joining"], tmp_path / "all")["cell_encode_2"]
    apart = steps("TreeLSTM", Techniques(joining=False, gathering=False), tmp_path / "none")["cell_encode_2"]
    assert together.count("= operand(") == 2
    assert apart.count("= operand(") == 4


def steps(name: str, techniques: Techniques, folder: Path) -> dict[str, str]:
    """The steps of each function of the program, as text."""
    functions = (build(name, techniques, folder) / "program.txt").read_text().split("function ")
    return {text.split()[0]: text for text in functions[1:]}
