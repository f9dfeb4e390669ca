"""`python -m bench.dynamic`: its models compute what their sources do, the report, and runs of the whole command."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from math import isnan
from pathlib import Path

import numpy as np
import pytest

from bench.dynamic import eager
from bench.dynamic.cases import CASES, flat, plain, prepare
from bench.dynamic.report import ALONE, DYNET, OURS, TORCH, Ablation, Report, Row, Technique
from bench.dynamic.sides import build, error, in_turn, open_artifact, runs
from bench.tables import document, markdown
from deploykit.compiler.batching.graphs import lower_bound
from deploykit.compiler.batching.policies import launches
from deploykit.compiler.batching.tracing import traced
from deploykit.dynamic.policies import POLICIES
from deploykit.frontends.python.models import import_model
from tests.bench.commands import ran

HIDDEN = 8
TIMES = {OURS: 2e-3, ALONE: 5e-3, TORCH: 3e-2, "DyNet agenda": 4e-3, "DyNet depth": 3e-3}
ROW = Row(
    "tree", 64, 8, 1, "critical", TIMES, 1e-2, 100, 20, 19, 1e-3, 4096, 65536, {"DyNet depth": 0.9}, ["DyNet depth"]
)


@pytest.mark.sampled(part=8)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "latticegru" else pytest.mark.slow) for name in CASES]
)
def test_artifacts_compute_what_the_sources_do(name: str, tmp_path: Path) -> None:
    prepared = prepare(CASES[name], HIDDEN, tmp_path)
    instances = prepared.instances(prepared.structures(4))
    artifact = open_artifact(build(prepared, tmp_path), instances)
    expected = prepared.expected(instances)
    for policy in POLICIES:
        assert error(artifact.outputs(policy), expected) < 1e-5
    assert artifact.launches() < artifact.launches("alone")


@pytest.mark.sampled(part=8)
@pytest.mark.parametrize("name", CASES)
def test_decisions_follow_from_seeds(name: str, tmp_path: Path) -> None:
    """The numbers of nodes are the same for all hidden sizes, so that their times can be compared."""
    counts = []
    for hidden in (4, HIDDEN):
        prepared = prepare(CASES[name], hidden, tmp_path)
        model = import_model(prepared.path, prepared.case.model, prepared.weights)
        counts.append(len(traced(model, prepared.instances(prepared.structures(3))).cells))
    assert counts[0] == counts[1] > 3


@pytest.mark.sampled(part=8)
@pytest.mark.parametrize("name", ["tree", "tagger", "lattice", "latticegru", "shiftreduce"])
def test_critical_paths_need_few_launches(name: str, tmp_path: Path) -> None:
    """Hardly more than any policy needs at least; those of DyNet and TensorFlow Fold need up to three times as many."""
    prepared = prepare(CASES[name], 4, tmp_path)
    model = import_model(prepared.path, prepared.case.model, prepared.weights)
    for count in (8, 32):
        graph = traced(model, prepared.instances(prepared.structures(count)))
        found = launches(graph, "critical")
        assert found <= 1.05 * lower_bound(graph)
        assert found < min(launches(graph, "depth"), launches(graph, "agenda"))


@pytest.mark.parametrize("name", CASES)
def test_pytorch_runs_the_sources(name: str, tmp_path: Path) -> None:
    if eager.missing():
        pytest.skip(f"PyTorch is {eager.missing()}")
    prepared = prepare(CASES[name], HIDDEN, tmp_path)
    structures = prepared.structures(2)
    found = eager.Eager(prepared, structures, 1).outputs()
    assert error(found, prepared.expected(prepared.instances(structures))) < 1e-5


def test_instances_as_json(tmp_path: Path) -> None:
    module = prepare(CASES["tree"], HIDDEN, tmp_path).module
    leaf = {"type": "Leaf", "word": 3}
    assert plain(([module.Node(module.Leaf(3), module.Leaf(3))], np.ones(2))) == [
        [{"type": "Node", "left": leaf, "right": leaf}],
        [1, 1],
    ]


def test_differences_are_relative_to_the_largest_result() -> None:
    assert flat([(np.ones((1, 2)), 3), [4.0]]).tolist() == [1, 1, 3, 4]
    assert error(np.array([1.0, 4.4]), np.array([1.0, 4.0])) == pytest.approx(0.1)
    assert np.isinf(error(np.ones(1), np.ones(2)))
    assert error(np.empty(0), np.empty(0)) == 0


def test_sides_take_turns() -> None:
    called: list[str] = []
    found = in_turn({"a": lambda: called.append("a") or [1.0, 2.0], "b": lambda: called.append("b") or [5.0]}, 2)
    assert "".join(called) == "abab"
    assert found == {"a": 1.5, "b": 5.0}
    assert len(runs(lambda: None, "wall", 0)) >= 3


def test_a_ratio_is_to_the_fastest_right_result_of_dynet() -> None:
    assert ROW.fastest(DYNET) == "DyNet agenda"
    assert ROW.ratio(ROW.fastest(DYNET)) == pytest.approx(2)
    assert isnan(replace(ROW, times={OURS: 1.0}).ratio(ROW.fastest(DYNET)))


def test_the_report_has_a_line_for_each_batch(tmp_path: Path) -> None:
    report = Report(
        (ROW, replace(ROW, times={OURS: 1e-3, ALONE: 1e-3}, errors={ALONE: 1.0}, wrong=[ALONE])),
        {"pytorch": "not installed"},
    )
    columns, rows = report.table()
    assert {len(cells) for cells in rows} == {len(columns)}
    found = dict(zip(columns, rows[0], strict=True))
    assert (found[">over DyNet"], found["its strategy"], found[">not kernels"]) == ("2.00", "agenda", "50%")
    assert report.wrong == report.rows[1:]
    assert "2.00 over DyNet (least 2.00), 1.58 over unbatched (least 1.00)" in report.summary()[0]
    assert "DyNet depth differs by 9e-01" in markdown(report)
    assert len(json.loads(json.dumps(document(report)))["rows"]) == 2
    report.picture(tmp_path / "report.png")
    assert (tmp_path / "report.png").read_bytes().startswith(b"\x89PNG")


def test_the_report_has_a_column_for_edbatch_if_it_took_part() -> None:
    assert ">over ED-Batch" not in Report((ROW,)).table()[0]
    both = replace(ROW, times={**TIMES, "ED-Batch base": 7e-3, "ED-Batch max": 6e-3})
    columns, rows = Report((ROW, both)).table()
    place = columns.index(">over ED-Batch")
    assert [cells[place] for cells in rows] == ["", "3.00"]
    assert {len(cells) for cells in rows} == {len(columns)}


def test_the_report_of_techniques(tmp_path: Path) -> None:
    ablation = Ablation((Technique("tree", 64, 8, "no fusion", 2e-3, 20, 2.0),))
    columns, rows = ablation.table()
    assert dict(zip(columns, rows[0], strict=True))[">times as long"] == "2.00"
    assert ablation.summary() == ["no fusion: 2.00 times as long"]
    ablation.picture(tmp_path / "report.png")


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--ablation"]])
def test_a_quick_run(options: list[str], tmp_path: Path) -> None:
    ran("bench.dynamic", "--quick", "--peers", "none", "--output", tmp_path, *options)
    rows = json.loads((tmp_path / "report.json").read_text())["rows"]
    assert {(row["model"], row["hidden"], row["batch"]) for row in rows} == {("tree", 16, 4)}
    if not options:
        (row,) = rows
        assert row["wrong"] == []
        assert row["ratios"].keys() == {OURS, ALONE}
        assert row["launches"] >= row["bound"] > 0
        assert row["pool"] > 0
    else:
        assert {"no coarsening", "no hoisting", "no tables", "no gathering", "no fusion"} <= {r["name"] for r in rows}
    assert (tmp_path / "report.md").exists()
    assert (tmp_path / "report.png").exists()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_a_quick_run_in_node(tmp_path: Path) -> None:
    ran("bench.dynamic.web", "--quick", "--turns", "1", "--output", tmp_path)
    (row,) = json.loads((tmp_path / "report.json").read_text())["rows"]
    assert row["error"] < 1e-4
    assert min(row["wasm"], row["alone"], row["native"]) > 0
    assert "over unbatched" in (tmp_path / "report.md").read_text()


@pytest.mark.slow
def test_instances_that_arrive(tmp_path: Path) -> None:
    """A line for each way, whose results were compared."""
    result = ran("bench.dynamic.arrivals", "--hidden", "8", "--count", "50", "--output", tmp_path)
    assert [line.split("|")[1].strip() for line in result.stdout.splitlines()[2:]] == ["full", "waiting", "submit"]
