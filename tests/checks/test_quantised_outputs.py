"""Outputs of quantised models are compared in steps: one is allowed, because floats that are added in another order may
round to the next integer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

import deploykit
from deploykit.checks.comparison import Tolerance
from deploykit.checks.verify import error_text, mismatch, verify
from deploykit.frontends.onnx.quantized_ports import of_input, of_output, steps_of
from deploykit.frontends.onnx.reader import read

SCALE, ZERO = 0.25, -3


def model_of(added: float, ends: str) -> onnx.ModelProto:
    """`y = x + added` in int8. `ends`: "int8" for an input and an output of integers, else "float"."""
    dtype = "int8" if ends == "int8" else "float"
    first = "" if ends == "int8" else "q = QuantizeLinear(x, s, z)"
    last = (
        "y = QuantizeLinear(r, s, z)" if ends == "int8" else "p = QuantizeLinear(r, s, z) y = DequantizeLinear(p, s, z)"
    )
    text = f"""<ir_version: 8, opset_import: ["" : 17]> g ({dtype}[n, 5] x) => ({dtype}[m, 5] y)
        <float s = {{{SCALE}}}, int8 z = {{{ZERO}}}, float b = {{{added}}}> {{
        {first} d = DequantizeLinear({"x" if ends == "int8" else "q"}, s, z) a = Add(d, b)
        r = Reshape(a, shape) {last} }}"""
    model: onnx.ModelProto = parser.parse_model(text)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([-1, 5]), "shape"))
    return model


@pytest.fixture(params=["int8", "float"])
def ends(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def report_of(folder: Path, ends: str, steps: int):
    """What `verify` says of an artifact whose results are `steps` off."""
    model = folder / "model.onnx"
    onnx.save(model_of(0.5, ends), model)
    deploykit.build(model_of(0.5 + steps * SCALE, ends), output=folder / "artifact", check=False)
    inputs = {"x": np.arange(10).reshape(2, 5).astype("int8" if ends == "int8" else "float32")}
    return verify(folder / "artifact", model, inputs=inputs), verify(
        folder / "artifact", model, inputs=inputs, tolerance=Tolerance(0, 0)
    )


@pytest.mark.parametrize("steps", [0, 1])
def test_one_step_is_allowed(tmp_path: Path, ends: str, steps: int) -> None:
    report, strict = report_of(tmp_path, ends, steps)
    (difference,) = report.checks[0].differences
    assert (report.within, difference.steps) == (True, steps)
    assert strict.within == (steps == 0)


def test_more_is_wrong_and_told_in_steps(tmp_path: Path, ends: str) -> None:
    report, _ = report_of(tmp_path, ends, 3)
    assert report.wrong
    unit = "1" if ends == "int8" else "0.25"
    assert f"largest error 3 steps of {unit}" in mismatch(report)


def test_floats_have_no_steps(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(
        parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> g (float[n] x) => (float[n] y) { y = Abs(x) }'),
        path,
    )
    deploykit.build(path, output=tmp_path / "artifact", check=False)
    (difference,) = verify(tmp_path / "artifact", path, at={"n": 3}).checks[0].differences
    assert (difference.steps, error_text(difference)) == (None, "0")


def test_what_integers_mean_is_in_manifest_session_and_header(tmp_path: Path) -> None:
    artifact = deploykit.build(model_of(0.5, "int8"), "embedded", {"n": (1, 3)}, tmp_path / "int8")
    (x,), (y,) = artifact.manifest.inputs, artifact.manifest.outputs
    for port in (x, y):
        assert port.quantization is not None
        assert (port.quantization.scale, port.quantization.zero_point) == (SCALE, ZERO)
    with deploykit.open(tmp_path / "int8") as session:
        assert session.inputs[0].quantization == session.outputs[0].quantization == x.quantization
    header = (tmp_path / "int8" / "model.h").read_text()
    for name in ("G_INPUT_X", "G_OUTPUT_Y"):
        assert f"#define {name}_SCALE 0.25f\n#define {name}_ZERO_POINT (-3)\n" in header


def test_ends_of_floats_have_none(tmp_path: Path) -> None:
    artifact = deploykit.build(model_of(0.5, "float"), output=tmp_path / "float", check=False)
    assert [port.quantization for port in (*artifact.manifest.inputs, *artifact.manifest.outputs)] == [None, None]
    assert "ZERO_POINT" not in (tmp_path / "float" / "model.h").read_text()
    assert "quantization" not in (tmp_path / "float" / "manifest.json").read_text()


def test_readers_that_disagree_give_no_meaning() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> g (int8[n] x, int8[n] w) => (float[n] y, float[n] v, int8[n] w2)
        <float s = {0.5}, float t = {0.25}, int8 z = {0}> {
        y = DequantizeLinear(x, s, z) v = DequantizeLinear(x, t, z) w2 = Abs(w) }"""
    model = read(parser.parse_model(text))
    assert [of_input(value) for value in model.graph.inputs] == [None, None]
    assert [of_output(value) for value in model.graph.outputs] == [None, None, None]
    assert steps_of(model) == {"y": 0.5, "v": 0.25}
