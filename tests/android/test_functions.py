"""Models of several functions and with states in Java: the same results as NumPy, on the CPU and on GPUs."""

from __future__ import annotations

import ast

import numpy as np
import pytest

import deploykit
from deploykit.artifact.devices import CODE
from deploykit.engines.native.adapters import adapters
from deploykit.targets.android import AndroidTarget
from tests.android.conftest import Run, marked, needs_desktop, needs_java, on_desktop
from tests.frontends.running_mean import INNER, WIDTH, running_mean, weights

pytestmark = [needs_java, needs_desktop]

DEVICES = [
    "cpu",
    "auto",
    *(pytest.param(each, marks=pytest.mark.skipif(not adapters(each), reason=f"needs {each}")) for each in CODE),
]


@pytest.fixture(scope="module")
def means(tmp_path_factory: pytest.TempPathFactory) -> Run:
    package = tmp_path_factory.mktemp("android") / "mean"
    deploykit.build(running_mean(weights()), AndroidTarget(["x86_64"]), output=package, devices=tuple(CODE))
    return marked(on_desktop(package, "Means", tmp_path_factory.mktemp("means")))


def sample(rows: int, seed: int) -> np.ndarray:
    """The same values as in Means.java."""
    values = ((np.arange(rows * WIDTH) * 7 + seed * 5) % 11 - 5) * 0.25
    return values.astype(np.float32).reshape(rows, WIDTH)


@pytest.mark.parametrize("device", DEVICES)
def test_states_are_kept_between_runs(means: Run, device: str) -> None:
    *lines, projected, where = means("results", device)
    weight, found = weights(), iter(lines)
    for streams in (1, 3, 9, 4):
        total = np.zeros((streams, INNER), np.float32)
        for number in (1, 2, 3):
            total += sample(streams, number) @ weight
            expected = sample(number, 9) @ weight @ (total / number).T
            assert float(next(found)) == number
            np.testing.assert_allclose(ast.literal_eval(next(found)), expected.ravel(), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(ast.literal_eval(projected), (sample(5, 1) @ weight).ravel(), rtol=1e-4, atol=1e-5)
    reason = "a model with states is not measured, because a run changes them" if device == "auto" else ""
    assert where == f"{'cpu' if device == 'auto' else device}|{reason}"


@pytest.mark.parametrize("device", DEVICES)
def test_refused_calls_leave_states_alone(means: Run, device: str) -> None:
    first, other, many, none, grows, second, short, third, reset, fourth, fifth, closed, read = means("errors", device)
    assert (first, second, third) == ("1.0", "2.0", "3.0")
    assert other == "ShapeException: input 'x' axis 0 (dim 'streams') is 2, but the states are made for 1"
    assert many == "ShapeException: dim 'streams' must be in 1..9, found 10"
    assert none == "ShapeException: dim 'streams' must be in 1..9, found 0"
    assert grows == "true"
    assert short.startswith("MemoryException: the memory of the states needs ")
    assert reset == "reset"
    assert fourth.startswith("MemoryException: a run needs ")
    assert fifth == "1.0", "the run that was refused has changed nothing"
    assert closed == read == "ClosedException: the model is closed"


@pytest.mark.parametrize("device", DEVICES)
def test_threads_take_turns(means: Run, device: str) -> None:
    """Calls of all functions, which share the states, from eight threads: no update is lost, and none is half done."""
    seen, scores = map(ast.literal_eval, means("threads", device))
    assert seen == [0] + [1] * 400
    expected = sample(1, 9) @ weights() @ (sample(3, 1) @ weights()).T
    np.testing.assert_allclose(scores, expected.ravel(), rtol=1e-3, atol=1e-3)
