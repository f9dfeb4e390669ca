"""Slices of the fuzzers; `python -m tests.fuzz.graphs` and `python -m tests.fuzz.fields` run what is asked for."""

from __future__ import annotations

import os

import numpy as np
import pytest

from deploykit.errors import UnsupportedModelError
from tests.fuzz import fields, graphs
from tests.fuzz.generate import Case, generate
from tests.fuzz.judge import Outcome, compare
from tests.fuzz.shrink import shrink
from tests.fuzz.workers import Died, Limits, Say, run

SLICE = 4
"""Slices that the seeds below are divided into, so that workers of pytest share them."""
GRAPHS, LOADS, BUILDS = range(2000, 2032), range(5000, 5160), range(7000, 7024)


def failures(outcomes: list[tuple[int, Outcome]], kinds: tuple[str, ...]) -> list[str]:
    return [f"{seed}: {found.kind}: {found.detail}" for seed, found in outcomes if found.kind in kinds]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(SLICE))
def test_random_graphs(part: int) -> None:
    cases = [(seed, graphs.way_of(seed)) for seed in GRAPHS[part::SLICE]]
    outcomes = [(given[0], graphs.settled(answer)) for given, answer in run(cases, graphs.outcome, graphs.LIMITS)]
    assert not failures(outcomes, ("wrong", "fault", "died", "refused", "no run"))
    assert sum(found.kind == "right" for _, found in outcomes) >= len(cases) - 1


@pytest.mark.slow
@pytest.mark.parametrize("build", [False, True])
@pytest.mark.parametrize("part", range(2))
def test_edited_fields(part: int, build: bool) -> None:
    plans = [fields.Plan(seed, build) for seed in (BUILDS if build else LOADS)[part::2]]
    answers = run(plans, fields.outcome, fields.BUILD if build else fields.LOAD)
    outcomes = [(plan.seed, fields.settled(answer)) for plan, answer in answers]
    assert not failures(outcomes, fields.FAILURES)
    assert {found.kind for _, found in outcomes} >= {"refused", "right" if build else "loaded"}


def test_the_graph_of_a_seed_is_always_the_same() -> None:
    first, second = generate(3), generate(3)
    assert first.model.SerializeToString() == second.model.SerializeToString()
    for a, b in zip(first.feeds, second.feeds, strict=True):
        assert all(np.array_equal(a[name], b[name]) for name in a)


def test_a_failing_graph_is_made_small() -> None:
    """What is looked for is a graph with a certain operator."""
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


def loop_or_die(case: str, say: Say) -> str:
    say("at work")
    if case == "loop":
        while True:
            pass
    if case == "die":
        os.abort()
    return case


def test_what_takes_too_long_or_crashes_is_ended_and_the_rest_goes_on() -> None:
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
def test_messages_of_python_are_found(message: str, kind: bool) -> None:
    assert bool(fields.UNKIND.search(fields._own(str(UnsupportedModelError(message))))) is kind
