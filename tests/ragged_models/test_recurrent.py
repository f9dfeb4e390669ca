"""Recurrent layers over ragged sequences give what the padded layer gives for each sequence alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from onnx import numpy_helper

import deploykit
from tests.runtimes import Runtime
from tests.zoo.judge import TOLERANCE, distance

WIDTH, HIDDEN, LONGEST = 3, 20, 9
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
BOUNDS = {"batch": (1, 16), "seq": (1, LONGEST)}
LENGTHS = (
    (1,),
    (LONGEST,),
    (3, 3, 3, 3),
    (5, 2, 1, 4),
    (1, 2, 1, 2, LONGEST),
    (2, 1, 4, 1, 1, 1, 1, 6, 5, LONGEST, 3),
)
EMPTY = ((0,), (0, 0, 0, 0, 0), (0, 5, 0, 2), (3, 0, 1, 1, 2, 0))


def model(operator: str, direction: str, lengths: str, nodes: str = "", options: str = "") -> onnx.ModelProto:
    """A layer over x[batch, seq, width] with a first state h0[1, batch, hidden]. The outputs are y[batch, seq, ...] and
    the last state. `nodes` compute `l`, the lengths, from the mask or from the input `lens`; `lengths` names them."""
    both = direction == "bidirectional"
    directions = 1 + both
    last = "h" if lengths else ""
    outputs = f"float[batch,seq,{directions * HIDDEN}] y" + (f", float[{directions},batch,{HIDDEN}] h" if last else "")
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
        m (float[batch,seq,{WIDTH}] x, int64[batch,seq] attention_mask, int32[batch] sequence_lens,
           float[{directions},batch,{HIDDEN}] h0) => ({outputs}) {{
        {nodes}  t = Transpose<perm = [1, 0, 2]>(x)
        o{"," if last else ""} {last} = {operator}<hidden_size = {HIDDEN}, direction = "{direction}" {options}>
            (t, w, r, b, {lengths}, h0)
        s = Transpose<perm = [2, 0, 1, 3]>(o)  y = Reshape(s, together) }}"""
    found = onnx.parser.parse_model(text)
    unused = {value.name for value in found.graph.input} - {name for node in found.graph.node for name in node.input}
    kept = [value for value in found.graph.input if value.name not in unused]
    del found.graph.input[:]
    found.graph.input.extend(kept)
    rng = np.random.default_rng(len(operator))
    rows = GATES[operator] * HIDDEN
    constants: dict[str, np.ndarray] = {
        "w": rng.standard_normal((directions, rows, WIDTH), dtype=np.float32) / 2,
        "r": rng.standard_normal((directions, rows, HIDDEN), dtype=np.float32) / 4,
        "b": rng.standard_normal((directions, 2 * rows), dtype=np.float32) / 4,
        "together": np.array([0, 0, directions * HIDDEN]),
        "axis1": np.array([1]),
    }
    found.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in constants.items())
    return found


COUNTED = "n = ReduceSum<keepdims = 0>(attention_mask, axis1)  l = Cast<to = 6>(n)"
SHAPED = "f = Cast<to = 1>(attention_mask)  n = ReduceSum(f, axis1)  q = Squeeze(n, axis1)  l = Cast<to = 6>(q)"
KEPT = {
    "lstm": ("LSTM", "bidirectional", "l", COUNTED),
    "lstm-no-lengths": ("LSTM", "forward", ""),
    "gru": ("GRU", "reverse", "l", SHAPED),
    "gru-linear": ("GRU", "forward", "sequence_lens", "", ", linear_before_reset = 1"),
    "gru-no-lengths": ("GRU", "forward", ""),
    "rnn": ("RNN", "bidirectional", "sequence_lens"),
}
_COUNT = COUNTED.replace("l = ", "k = ")
REFUSED = {
    "backwards": (("LSTM", "reverse", ""), "begins in the padding"),
    "one-more": (("GRU", "forward", "l", f"{_COUNT}  l = Add(k, k)"), "not known"),
    "of-others": (
        ("RNN", "forward", "l", f"{_COUNT}  l = ReduceMax<axes = [0]>(k)"),
        "'batch'",
    ),
}
"""Layers that are refused, and a part of the message."""


def alone(found: onnx.ModelProto, x: np.ndarray, first: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The outputs of the padded model for one sequence without padding: y, and the last state if it has one."""
    given = {
        "x": x[None],
        "attention_mask": np.ones((1, len(x)), np.int64),
        "sequence_lens": np.array([len(x)], np.int32),
        "h0": first[:, None],
    }
    taken = {value.name for value in found.graph.input}
    session = onnxruntime.InferenceSession(found.SerializeToString(), providers=["CPUExecutionProvider"])
    y, *last = session.run(None, {name: value for name, value in given.items() if name in taken})
    return y[0], last[0][:, 0] if last else first


@pytest.mark.sampled(part=8)
@pytest.mark.parametrize("name", KEPT)
def test_each_sequence_is_as_alone(name: str, runtime: Runtime) -> None:
    found = model(*KEPT[name])
    with runtime.session(found, dims=BOUNDS, ragged="seq") as session:
        assert [port.name for port in session.manifest.inputs] == ["x", "h0", "lengths"]
        for lengths in (*LENGTHS, *EMPTY):
            _check(found, session, lengths)


def _check(found: onnx.ModelProto, session: deploykit.Session, lengths: Sequence[int]) -> None:
    rng = np.random.default_rng(sum(lengths))
    instances = [rng.standard_normal((length, WIDTH), dtype=np.float32) for length in lengths]
    directions = found.graph.input[-1].type.tensor_type.shape.dim[0].dim_value
    first = rng.standard_normal((directions, len(lengths), HIDDEN), dtype=np.float32)
    results = session(x=instances, h0=first)
    for index, instance in enumerate(instances):
        if len(instance):
            y, last = alone(found, instance, first[:, index])
        else:
            y, last = np.zeros((0, directions * HIDDEN), np.float32), first[:, index]
        assert results["y"][index].shape == y.shape
        assert y.size == 0 or distance(np.asarray(results["y"][index]), y) < TOLERANCE, (index, lengths)
        if "h" in results:
            assert distance(np.asarray(results["h"])[:, index], last) < TOLERANCE, (index, lengths)


@pytest.mark.parametrize("name", REFUSED)
def test_a_layer_that_depends_on_padding_is_refused(name: str) -> None:
    given, reason = REFUSED[name]
    with pytest.raises(deploykit.UnsupportedModelError, match="'seq'") as refusal:
        deploykit.load(model(*given), BOUNDS, ragged="seq")
    assert reason in str(refusal.value)


def _renamed(name: str) -> onnx.ModelProto:
    """A model whose input of lengths has this name."""
    found = model("GRU", "forward", "sequence_lens")
    for value in found.graph.input:
        value.name = name if value.name == "sequence_lens" else value.name
    for node in found.graph.node:
        node.input[:] = [name if given == "sequence_lens" else given for given in node.input]
    return found


def test_the_input_of_lengths_is_that_with_the_name() -> None:
    found = _renamed("valid_steps")
    with pytest.raises(deploykit.UnsupportedModelError, match="not known"):
        deploykit.load(found, BOUNDS, ragged="seq")
    session = deploykit.load(found, BOUNDS, ragged="seq", masks=["valid_steps"])
    assert [port.name for port in session.only.inputs] == ["x", "h0", "lengths"]


def test_an_input_called_lengths_stays(tmp_path: Path) -> None:
    """The input of the converted model has the same name, and `verify` gives the padded model the lengths."""
    path = tmp_path / "model.onnx"
    onnx.save(_renamed("lengths"), path)
    deploykit.build(path, output=tmp_path / "dist", dims=BOUNDS, ragged="seq")
    assert deploykit.verify(tmp_path / "dist", path).within
