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
from deploykit.compiler.dims import to_text
from tests.ragged_models import corpus
from tests.ragged_models.idioms import KEPT, LEAKING, WIDTH, model
from tests.runtimes import Runtime
from tests.zoo.judge import TOLERANCE, distance

LENGTHS = ((3,), (1,), (6, 6), (2, 11, 1, 5, 5))
WITH_EMPTY = ((0,), (3, 0, 1), (0, 0, 7))
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
        (value.name, [dim.dim_param == "seq" for dim in value.type.tensor_type.shape.dim[1:]])
        for value in found.graph.output
    ]
    return [
        {
            name: array[(index, *(slice(len(instance) if cut else None) for cut in ragged))]
            for (name, ragged), array in zip(outputs, results, strict=True)
        }
        for index, instance in enumerate(instances)
    ]


def alone(found: onnx.ModelProto, instances: Sequence[np.ndarray]) -> list[dict[str, np.ndarray]]:
    return [together(found, [instance], max(1, len(instance)))[0] for instance in instances]


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


@pytest.mark.sampled(part=16)
@pytest.mark.parametrize("name", [name for name in KEPT if name not in NOT_YET])
def test_an_idiom_can_be_ragged(name: str, runtime: Runtime) -> None:
    found = model(*KEPT[name])
    with runtime.session(found, dims=corpus.BOUNDS, ragged=corpus.RAGGED) as session:
        ragged = all(port.instance is not None for port in session.manifest.outputs)
        for lengths in (*LENGTHS, *(WITH_EMPTY if ragged else ())):
            instances = sequences(lengths)
            results = session(x=instances)
            split = [{output: values[index] for output, values in results.items()} for index in range(len(lengths))]
            assert largest(split, alone(found, instances)) < TOLERANCE, lengths


def test_weights_of_attention_as_an_output() -> None:
    """The instances one after the other, each [heads, length, length] without padding."""
    loaded = deploykit.load(model(*KEPT["attention-weights"]), corpus.BOUNDS, ragged=corpus.RAGGED)
    _, weights = loaded.only.outputs
    assert [to_text(extent) for extent in weights.shape] == ["4*squares"]
    assert weights.instance == (4, "lengths", "lengths")


@pytest.mark.parametrize("name", NOT_YET)
def test_a_listed_idiom_is_refused(name: str) -> None:
    with pytest.raises(deploykit.UnsupportedModelError, match="'seq'") as refusal:
        deploykit.load(model(*KEPT[name]), corpus.BOUNDS, ragged=corpus.RAGGED)
    assert NOT_YET[name] in str(refusal.value)


@pytest.mark.parametrize("name", LEAKING)
def test_a_leak_is_refused(name: str) -> None:
    with pytest.raises(deploykit.UnsupportedModelError, match="'seq'"):
        deploykit.load(model(*LEAKING[name]), corpus.BOUNDS, ragged=corpus.RAGGED)


def test_an_input_has_the_ragged_dim_once() -> None:
    with pytest.raises(deploykit.UnsupportedModelError, match="the input 'x' has 'seq' twice"):
        _load("float[batch,seq,seq] x", "float[batch,seq,seq] y", "y = Neg(x)")


def test_no_tensor_has_the_ragged_dim_three_times() -> None:
    with pytest.raises(deploykit.UnsupportedModelError, match="'seq' 3 times"):
        _load(
            "float[batch,seq] x",
            "float[batch,seq,seq,seq] y",
            "a = Unsqueeze(x, late)  b = Unsqueeze(x, outer)  c = Unsqueeze(x, early)  d = Mul(a, b)  y = Mul(d, c)",
        )


def _load(inputs: str, outputs: str, nodes: str) -> None:
    found = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> m ({inputs}) => ({outputs}) {{ {nodes} }}'
    )
    for name, axes in (("late", [2, 3]), ("outer", [1, 3]), ("early", [1, 2])):
        found.graph.initializer.append(onnx.numpy_helper.from_array(np.array(axes), name))
    deploykit.load(found, corpus.BOUNDS, ragged=corpus.RAGGED, masks=[])
