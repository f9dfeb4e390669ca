"""Parts of the fuzzers. `python -m tests.fuzz.graphs` and `python -m tests.fuzz.fields` run any seeds."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

import numpy as np
import pytest
from onnx import TensorProto, helper

from deploykit.errors import UnsupportedModelError
from tests.frontends.onnx.harness import parse
from tests.fuzz import fields, graphs
from tests.fuzz.generate import Case, generate
from tests.fuzz.judge import Outcome, by_onnxruntime, by_reference, compare, epsilon
from tests.fuzz.shrink import shrink
from tests.fuzz.workers import Died, Limits, Say, run

GRAPHS, LOADS, BUILDS = range(300, 480), range(30000, 40000), range(20000, 20750)
"""Seeds whose outcome is right or refused, except those of `UNDEFINED`."""
UNDEFINED = {
    20264: "an infinity cast to int8",
    20642: "the reference implementation adds an axis to the scalars that a Loop collects",
    20665: "an integer Resize whose results are at the edge of being cut off",
}


def chunks(seeds: range, size: int) -> pytest.MarkDecorator:
    """Parametrise a test by ranges of `size` seeds."""
    parts = [seeds[at : at + size] for at in range(0, len(seeds), size)]
    return pytest.mark.parametrize("seeds", parts, ids=[f"{part[0]}-{part[-1]}" for part in parts])


def failures(outcomes: Iterable[tuple[int, Outcome]], kinds: Sequence[str]) -> list[str]:
    return [f"{seed}: {found.kind}: {found.detail}" for seed, found in outcomes if found.kind in kinds]


@pytest.mark.slow
@pytest.mark.sampled(part=80)
@chunks(GRAPHS, 4)
def test_random_graphs(seeds: range) -> None:
    answers = run(((seed, graphs.way_of(seed)) for seed in seeds), graphs.outcome, graphs.LIMITS)
    outcomes = [(given[0], graphs.settled(answer)) for given, answer in answers]
    assert not failures(outcomes, ("wrong", "fault", "died", "refused", "no run"))
    assert sum(found.kind == "right" for _, found in outcomes) >= len(seeds) - 1


def edited_outcomes(seeds: range, build: bool, limits: Limits) -> list[tuple[int, Outcome]]:
    edited = (fields.edited(seed, build) for seed in seeds if seed not in UNDEFINED)
    return [(given.seed, fields.settled(answer)) for given, answer in run(edited, fields.outcome, limits)]


@pytest.mark.slow
@pytest.mark.sampled(part=200)
@chunks(LOADS, 100)
def test_models_with_edited_fields_load_or_are_refused(seeds: range) -> None:
    outcomes = edited_outcomes(seeds, False, fields.LOAD)
    assert not failures(outcomes, fields.FAILURES)
    assert {found.kind for _, found in outcomes} >= {"refused", "loaded"}


@pytest.mark.slow
@pytest.mark.sampled(part=140)
@chunks(BUILDS, 10)
def test_models_with_edited_fields_are_right_or_refused(seeds: range) -> None:
    assert not failures(edited_outcomes(seeds, True, fields.BUILD), fields.FAILURES)


def test_the_graph_of_a_seed_is_always_the_same() -> None:
    first, second = generate(3), generate(3)
    assert first.model.SerializeToString() == second.model.SerializeToString()
    for a, b in zip(first.feeds, second.feeds, strict=True):
        assert all(np.array_equal(a[name], b[name]) for name in a)


def test_a_failing_graph_is_made_small() -> None:
    """Here a graph counts as failing if it contains a certain operator."""
    case = next(c for c in map(generate, range(100)) if any(n.op_type == "Softmax" for n in c.model.graph.node[3:]))

    def fails(candidate: Case) -> bool:
        return any(node.op_type == "Softmax" for node in candidate.model.graph.node)

    (node,) = shrink(case, fails).model.graph.node
    assert node.op_type == "Softmax"


def test_results_are_judged() -> None:
    right, wrong = np.ones((2, 3), np.float32), np.full((2, 3), 1.01, np.float32)
    assert compare([{"y": right}], [{"y": right}], None).kind == "right"
    assert compare([{"y": wrong}], [{"y": right}], [{"y": right.astype(float)}]).kind == "wrong"
    assert compare([{"y": right[0]}], [{"y": right}], None).kind == "wrong"
    assert compare([{"y": wrong}], [{"y": right}], [{"y": right * 2.0}]).kind == "unjudged"
    assert compare([{"y": right}], "no kernel", None).kind == "unjudged"
    assert compare([{"y": right}], [{"y": right + 1j}], None).kind == "wrong"
    assert compare([{"y": [right, right]}], [{"y": [right, wrong]}], None).kind == "wrong"
    assert compare([{"y": None}], [{"y": None}], None).kind == "right"
    text = np.array(["a", "b"], object)
    assert compare([{"y": text}], [{"y": text[::-1]}], None).kind == "wrong"


def test_results_of_coarse_floats_may_be_further_off() -> None:
    half = helper.make_tensor_value_info("y", TensorProto.FLOAT16, [2])
    model = helper.make_model(helper.make_graph([], "g", [], [half]))
    near, far = np.array([0.84, 0.1]), np.array([0.86, 0.1])
    right = near + 4.3e-4
    assert compare([{"y": right}], [{"y": near}], None, epsilon(model)).kind == "right"
    assert compare([{"y": right}], [{"y": near}], None).kind == "wrong"
    assert compare([{"y": right}], [{"y": far}], None, epsilon(model)).kind == "wrong"


def test_the_reference_implementation_judges_what_onnxruntime_declines() -> None:
    model = parse("(float[n] x) => (double[n] y) { y = Abs(x) }")
    feeds = {"x": np.array([-1, 2], np.float32)}
    assert isinstance(by_onnxruntime(model, [feeds]), str)
    ((y,),) = (found.values() for found in by_reference(model, [feeds]))
    assert y.tolist() == [1, 2]


def loop_or_die(case: str, say: Say) -> str:
    say("at work")
    if case == "loop":
        while True:
            pass
    if case == "die":
        os.abort()
    return case


@pytest.mark.slow
def test_cases_that_hang_or_crash_do_not_stop_others() -> None:
    answers = dict(run(["a", "loop", "b", "die", "c"], loop_or_die, Limits(seconds=1, bytes=2 << 30)))
    assert answers["loop"] == Died("takes too long", "at work")
    assert answers["die"] == Died("SIGABRT", "at work")
    assert [answers[name] for name in "abc"] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("m cannot be compiled because of 1 node:\n  - Add (opset 7): TypeError: 3; at 'y'", True),
        ("sizes 3 and 4 do not broadcast at 'TypeError'", False),
        ("Check failed: (false_ty == true_ty) is false", True),
    ],
)
def test_messages_of_python_are_recognised(message: str, kind: bool) -> None:
    assert bool(fields.UNKIND.search(fields._own(str(UnsupportedModelError(message))))) is kind
