"""Random models: what the conversion accepts computes what ONNX Runtime computes for each sequence alone, and padding
does not affect it."""

from __future__ import annotations

import numpy as np
import pytest

import deploykit
from tests.ragged_models import corpus
from tests.ragged_models.random_models import random_model
from tests.ragged_models.test_idioms import alone, largest, sequences, together
from tests.runtimes import Runtime

LENGTHS = ((2, 11, 1, 5, 5), (3,), (1,), (6, 6))
SEEDS = range(400)
TOLERANCE = 2e-4


@pytest.mark.slow
@pytest.mark.sampled(part=160)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_model_is_right_or_refused(seed: int, runtime: Runtime) -> None:
    model = random_model(seed)
    instances = sequences(LENGTHS[0])
    expected = alone(model, instances)
    if not all(np.isfinite(values).all() for outputs in expected for values in outputs.values()):
        pytest.skip("the results are not finite")
    try:
        with runtime.session(model, dims=corpus.BOUNDS, ragged=corpus.RAGGED) as session:
            for lengths in LENGTHS:
                chosen = sequences(lengths)
                results = session(x=chosen)
                split = [{name: values[index] for name, values in results.items()} for index in range(len(lengths))]
                assert largest(split, alone(model, chosen)) < TOLERANCE, lengths
    except deploykit.UnsupportedModelError:
        return
    assert largest(together(model, instances, 13), expected) < TOLERANCE, "padding affects it"


def test_most_random_models_are_not_affected_by_padding() -> None:
    instances = sequences(LENGTHS[0])
    kept = 0
    for seed in SEEDS[:40]:
        model = random_model(seed)
        kept += largest(together(model, instances, 13), alone(model, instances)) < TOLERANCE
    assert 25 <= kept < 40
