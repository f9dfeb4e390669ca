"""Idioms that padding does not affect can be ragged, with the results of ONNX Runtime for each sequence alone. Models
that padding affects are refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import deploykit
from tests.ragged_models import corpus
from tests.ragged_models.idioms import KEPT, LEAKING, WIDTH, model
from tests.runtimes import Runtime
from tests.zoo.judge import TOLERANCE, distance

LENGTHS = ((3,), (1,), (6, 6), (2, 11, 1, 5, 5))
NOT_YET = dict(line.split(": ", 1) for line in Path(__file__).with_name("refused_idioms.txt").read_text().splitlines())


def sequences(lengths: Sequence[int]) -> list[np.ndarray]:
    rng = np.random.default_rng(len(lengths))
    return [rng.standard_normal((length, WIDTH), dtype=np.float32) for length in lengths]


def together(found: onnx.ModelProto, instances: Sequence[np.ndarray], length: int) -> list[dict[str, np.ndarray]]:
    """What ONNX Runtime computes for the batch, padded to `length` with random numbers: for each sequence, the outputs
    without padding."""
    x = np.random.default_rng(9).standard_normal((len(instances), length, WIDTH), dtype=np.float32)
    mask = np.zeros(x.shape[:2], np.int64)
    for row, present, instance in zip(x, mask, instances, strict=True):
        row[: len(instance)] = instance
        present[: len(instance)] = 1
    taken = {value.name for value in found.graph.input}
    session = onnxruntime.InferenceSession(found.SerializeToString(), providers=["CPUExecutionProvider"])
    results = session.run(None, {k: v for k, v in {"x": x, "attention_mask": mask}.items() if k in taken})
    outputs = [
        (value.name, any(dim.dim_param == "seq" for dim in value.type.tensor_type.shape.dim))
        for value in found.graph.output
    ]
    return [
        {
            name: array[index, : len(instance)] if ragged else array[index]
            for (name, ragged), array in zip(outputs, results, strict=True)
        }
        for index, instance in enumerate(instances)
    ]


def alone(found: onnx.ModelProto, instances: Sequence[np.ndarray]) -> list[dict[str, np.ndarray]]:
    return [together(found, [instance], len(instance))[0] for instance in instances]


def largest(found: Sequence[dict[str, np.ndarray]], expected: Sequence[dict[str, np.ndarray]]) -> float:
    return max(
        distance(np.asarray(one[name]), array)
        for one, other in zip(found, expected, strict=True)
        for name, array in other.items()
    )


@pytest.mark.parametrize("name", KEPT)
def test_padding_does_not_matter(name: str) -> None:
    instances = sequences(LENGTHS[-1])
    found = model(*KEPT[name])
    assert largest(together(found, instances, 13), alone(found, instances)) < TOLERANCE


@pytest.mark.parametrize("name", LEAKING)
def test_padding_matters(name: str) -> None:
    instances = sequences(LENGTHS[-1])
    found = model(*LEAKING[name])
    assert largest(together(found, instances, 13), alone(found, instances)) > 1e-3


@pytest.mark.sampled(part=4)
@pytest.mark.parametrize("name", [name for name in KEPT if name not in NOT_YET])
def test_an_idiom_can_be_ragged(name: str, runtime: Runtime) -> None:
    found = model(*KEPT[name])
    with runtime.session(found, dims=corpus.BOUNDS, ragged=corpus.RAGGED) as session:
        for lengths in LENGTHS:
            instances = sequences(lengths)
            results = session(x=instances)
            split = [{output: values[index] for output, values in results.items()} for index in range(len(lengths))]
            assert largest(split, alone(found, instances)) < TOLERANCE, lengths


@pytest.mark.parametrize("name", NOT_YET)
def test_a_listed_idiom_is_refused(name: str) -> None:
    with pytest.raises(deploykit.UnsupportedModelError, match="'seq'") as refusal:
        deploykit.load(model(*KEPT[name]), corpus.BOUNDS, ragged=corpus.RAGGED)
    assert NOT_YET[name] in str(refusal.value)


@pytest.mark.parametrize("name", LEAKING)
def test_a_leak_is_refused(name: str) -> None:
    with pytest.raises(deploykit.UnsupportedModelError, match="'seq'"):
        deploykit.load(model(*LEAKING[name]), corpus.BOUNDS, ragged=corpus.RAGGED)
