"""Lengths that do not fit the values are refused before anything is written, also without checks of indices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import deploykit
from deploykit.errors import DataError, DeploykitError, ShapeError
from tests.ragged_models import corpus
from tests.runtimes import Runtime

NAME = "sentence.t4.30-legacy-eager-14"
BAD = [[4, 4], [2, 2], [-1, 6], [5, 2**62], [2**62, 2**62], [6, -(2**62)], [corpus.LONGEST + 1, 0]]


@pytest.mark.sampled(part=8)
@pytest.mark.slow
@pytest.mark.parametrize("index_checks", [True, False])
def test_bad_lengths_are_refused(runtime: Runtime, index_checks: bool, tmp_path: Path) -> None:
    deploykit.build(
        corpus.read(NAME),
        runtime.target(),
        corpus.BOUNDS,
        tmp_path / "out",
        cpu=runtime.cpu,
        devices=runtime.devices,
        ragged=corpus.RAGGED,
        index_checks=index_checks,
    )
    with runtime.open(tmp_path / "out") as session:
        given = corpus.batch(NAME, (3, 2)).packed()
        *ids, lengths = (given[port.name] for port in session.manifest.inputs)
        engine = session._engine  # below the session in Python, which refuses such lengths itself
        expected = engine.run([*ids, lengths])
        for bad in BAD:
            with pytest.raises((DataError, ShapeError), match="length"):
                engine.run([*ids, np.array(bad, np.int64)])
        for values, right in zip(engine.run([*ids, lengths]), expected, strict=True):
            assert np.array_equal(values, right), "the session survives"


def test_several_dims_are_refused() -> None:
    with pytest.raises(DeploykitError, match="one dim of a model can be ragged"):
        deploykit.load(corpus.read(NAME), corpus.BOUNDS, ragged=["seq", "batch"])
