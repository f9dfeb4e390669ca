"""The exported models in the repository: built once for this machine, they are right at four sizes of every dim. One of
them is checked on every target of the zoo."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import deploykit
from tests.runtimes import named
from tests.zoo import sample
from tests.zoo.check import bounds, check
from tests.zoo.judge import TOLERANCE, distance, verdict
from tests.zoo.results import TARGETS

MOST_BYTES = 8 << 20


def test_the_sample_is_small() -> None:
    assert len(sample.names()) >= 15
    assert sum(path.stat().st_size for path in sample.SAMPLE.iterdir()) < MOST_BYTES


@pytest.mark.slow
@pytest.mark.sampled(part=20)
@pytest.mark.parametrize("name", sample.names())
def test_an_export_is_right_at_every_size(name: str, tmp_path: Path) -> None:
    kept = sample.read(name)
    path = tmp_path / f"{name}.onnx"
    path.write_bytes(kept.model)
    session = onnxruntime.InferenceSession(kept.model, providers=["CPUExecutionProvider"])
    outputs = [port.name for port in session.get_outputs()]
    rounds = [dict(one) for one in kept.rounds]
    deploykit.build(path, dims=bounds(path, rounds), output=tmp_path / "artifact")
    with deploykit.open(tmp_path / "artifact") as artifact:
        for number, (inputs, expected) in enumerate(zip(rounds, kept.expected, strict=True)):
            actual = artifact.run(inputs)
            runtime = dict(zip(outputs, session.run(outputs, inputs), strict=True))
            assert list(actual) == outputs == list(expected)
            for output, array in actual.items():
                fault = verdict(output, array, runtime[output], None, None).fault
                assert fault is None, f"{output} in round {number}: {fault}"
                shape, elements = expected[output]
                assert array.shape == shape
                assert_near_pytorch(sample.elements(array), elements, array, f"{output} in round {number}")


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_an_export_is_checked_on_every_target(target: str, tmp_path: Path) -> None:
    if reason := named(target).missing:
        pytest.skip(reason)
    kept = sample.read("bert-classify.legacy")
    (tmp_path / "model.onnx").write_bytes(kept.model)
    inputs = {f"{n}/input/{name}": array for n, one in enumerate(kept.rounds) for name, array in one.items()}
    np.savez(tmp_path / "data.npz", **inputs)  # type: ignore[arg-type]
    found = check(tmp_path, target, timed=False)
    assert found["status"] == "right", found
    assert found["check"] == ("agrees" if target == "host" else None)
    assert not (tmp_path / f"artifact-{target}").exists()


def assert_near_pytorch(actual: np.ndarray, expected: np.ndarray, whole: np.ndarray, where: str) -> None:
    """Check the elements within the tolerance, relative to the largest magnitude of the whole output."""
    scale = max(float(np.abs(whole[np.isfinite(whole)]).max(initial=0.0)), 1e-3)
    padded = (np.append(one.astype(np.float64), scale) for one in (actual, expected))
    assert distance(*padded) <= TOLERANCE, f"{where} is not what PyTorch computes"
