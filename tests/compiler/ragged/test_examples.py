"""The operators of `apps/ragged/ops.py`, on each runtime, compared with loops in Python."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

from deploykit.compiler.ragged.model import ragged_model
from deploykit.ragged import Operator
from tests.compiler.ragged.reference import Reference
from tests.compiler.ragged.runs import inputs_of
from tests.runtimes import Runtime

OPS = runpy.run_path(str(Path(__file__).parents[3] / "apps" / "ragged" / "ops.py"))

CASES: dict[str, list[dict[str, list[int] | int]]] = {
    "vgemm": [
        {"m": [3, 0, 9], "k": [5, 4, 17], "n": [8, 2, 33]},
        {"m": [], "k": [], "n": []},
        {"m": [1], "k": [0], "n": [2]},
    ],
    "trmm": [{"size": 9, "across": 5}, {"size": 1, "across": 1}],
    "attention": [{"lengths": [3, 0, 7, 1]}, {"lengths": []}, {"lengths": [9]}],
    "segment_softmax": [{"lengths": [40, 0, 1, 17]}, {"lengths": [0, 0]}],
    "convolution": [{"lengths": [4, 0, 1, 2]}, {"lengths": [9]}],
    "set_encoder": [{"lengths": [5, 1, 12]}],
    "means": [{"sentences": [2, 0, 3], "words": [4, 0, 1, 9, 2]}, {"sentences": [], "words": []}],
}
"""For each operator, lengths and sizes of runs."""


@pytest.mark.sampled(part=4)
@pytest.mark.parametrize("name", CASES)
def test_results(runtime: Runtime, name: str) -> None:
    operator: Operator = OPS[name]
    with runtime.session(ragged_model(operator)) as session:
        for given in CASES[name]:
            inputs, sizes = inputs_of(operator, given)
            expected = Reference(operator, sizes, inputs)
            results = session(**inputs)
            for output in operator.outputs:
                found = results[output.name]
                values = getattr(found, "values", found).reshape(-1)
                np.testing.assert_allclose(values, expected.flat(output), rtol=2e-5, atol=2e-5)
