"""Opsets 1 to 5, with symbolic dims. ONNX Runtime has no guarantee for them, so that NumPy is the reference."""

from collections.abc import Sequence

import numpy as np
import onnxruntime
import pytest

from tests.frontends.onnx.harness import Check, numbers, parse

SIZES = [(1, 1), (2, 3), (3, 5)]


def compare(check: Check, text: str, opset: int, runs: Sequence[dict[str, np.ndarray]], expected: list[list]) -> None:
    model = parse(text, opset)
    model.ir_version = 3
    del model.opset_import[1:]
    check(model, *runs, expected=expected, rtol=1e-4)


@pytest.mark.parametrize("opset", [1, 2, 3, 4, 5, 6])
def test_operands_broadcast_from_an_axis(check: Check, opset: int) -> None:
    text = """(float[n, 3, m] x, float[3] b, float[n, 3, m] z)
        => (float[n, 3, m] y0, float[n, 3, m] y1, bool[n, 3, m] y2) {
        sum = Add <axis = 1, broadcast = 1> (x, b)
        y0 = Mul(sum, z)
        kept = Dropout <is_test = 1> (sum)
        y1 = Relu (kept)
        y2 = Greater <axis = 1, broadcast = 1> (x, b)
    }"""
    runs = [{"x": numbers(n, 3, m), "b": numbers(3, seed=1), "z": numbers(n, 3, m, seed=2)} for n, m in SIZES]
    expected = []
    for run in runs:
        column = run["b"][:, None]
        total = run["x"] + column
        expected.append([total * run["z"], np.maximum(total, 0), run["x"] > column])
    compare(check, text, opset, runs, expected)


@pytest.mark.parametrize("opset", [1, 4])
def test_shapes_and_types_are_attributes(check: Check, opset: int) -> None:
    text = """(float[n, 3, m] x) => (float[n, k] y0, int32[n, 3, m] y1, bool[n, 3, m] y2, float[n, 6, m] y3,
        float[n, 3, m] y4) {
        y0 = Reshape <shape = [0, -1]> (x)
        y1 = Cast <to = "INT32"> (x)
        y2 = Cast <to = "bool"> (x)
        y3 = Concat <axis = 1> (x, x)
        y4 = Selu(x)
    }"""
    runs = [{"x": numbers(n, 3, m)} for n, m in SIZES]
    expected = []
    for x in (run["x"] for run in runs):
        selu = 1.0507 * np.where(x > 0, x, 1.6732 * (np.exp(x) - 1))
        both = np.concatenate([x, x], 1)
        expected.append([x.reshape(len(x), -1), x.astype(np.int32), x != 0, both, selu.astype(np.float32)])
    compare(check, text, opset, runs, expected)


def test_operators_that_opset_2_changed(check: Check) -> None:
    text = """(float[n, 4, m] x, float one, float two)
        => (float[n, 4, k] y0, float[n, 1, m] y1, float[n, 3, m] y2, float[n, 8, m] y3, float[n, 8, m] y4,
            float[n, 4, 1] y5) {
        y0 = Pad <paddings = [0, 0, 1, 0, 0, 2], value = 3.0> (x)
        y1, y2 = Split <axis = 1, split = [1, 3]> (x)
        axis = Constant <value = float {1}> ()
        y3 = Tile(x, two, axis)
        y4 = Concat(x, x)
        y5 = GlobalLpPool <p = 1.0> (x)
    }"""
    runs = [{"x": numbers(n, 4, m), "one": np.float32(1), "two": np.float32(2)} for n, m in SIZES]
    expected = []
    for x in (run["x"] for run in runs):
        double = np.concatenate([x, x], 1)
        padded = np.pad(x, ((0, 0), (0, 0), (1, 2)), constant_values=3)
        expected.append([padded, x[:, :1], x[:, 1:], double, double, np.abs(x).sum(2, keepdims=True)])
    compare(check, text, 1, runs, expected)


def test_recurrent_layers(check: Check) -> None:
    """They are as in opset 7, which ONNX Runtime has."""
    text = """(float[t, n, 3] x, float[1, 8, 3] w, float[1, 8, 2] r) => (float[t, 1, n, 2] y) {
        y = LSTM <hidden_size = 2> (x, w, r)
    }"""
    runs = [{"x": numbers(t, n, 3), "w": numbers(1, 8, 3) / 4, "r": numbers(1, 8, 2) / 4} for t, n in SIZES]
    session = onnxruntime.InferenceSession(parse(text, 7).SerializeToString())
    compare(check, text, 4, runs, [session.run(None, run) for run in runs])


@pytest.mark.parametrize("opset", [18, 20, 21])
def test_group_normalisation(check: Check, opset: int) -> None:
    """Before opset 21, scale and shift have one element per group."""
    count = 4 if opset == 21 else 2
    text = f"""(float[n, 4, m] x, float[{count}] s, float[{count}] b) => (float[n, 4, m] y) {{
        y = GroupNormalization <num_groups = 2> (x, s, b)
    }}"""
    runs = [{"x": numbers(n, 4, m), "s": numbers(count, seed=1), "b": numbers(count, seed=2)} for n, m in SIZES]
    expected = []
    for run in runs:
        groups = run["x"].astype(np.float64).reshape(run["x"].shape[0], 2, -1)
        normal = (groups - groups.mean(2, keepdims=True)) / np.sqrt(groups.var(2, keepdims=True) + 1e-5)
        scale, shift = (np.repeat(run[name], 4 // count)[:, None] for name in "sb")
        expected.append([(normal.reshape(run["x"].shape) * scale + shift).astype(np.float32)])
    check(text, *runs, opset=opset, expected=expected, rtol=1e-4)
