"""Weights as int8 and fp16: results are those of the formula, near those of float32; rows do not mix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import deploykit
from deploykit.compiler.constants import array_of
from deploykit.compiler.graph.join_matmuls import join_siblings
from deploykit.compiler.graph.quantize_weights import Kind, Quantized, quantize_weights
from deploykit.compiler.model import ImportedModel
from tests.runtimes import HOST, Runtime, named
from tests.seeded import seeded

MODEL = """<ir_version: 10, opset_import: ["" : 21]>
layers (int64[b, s] ids, float[b, s, 48] x) => (float[b, s, 20] y) {
    e = Gather(table, ids)  h = Add(e, x)
    p = MatMul(h, w1)  q = MatMul(h, w2)  g = Tanh(p)  m = Mul(g, q)  n = Add(m, bias)
    o = MatMul(n, w3)  t = Transpose<perm = [0, 2, 1]>(o)  u = Transpose<perm = [0, 2, 1]>(t)  y = Add(u, small)
}"""
WEIGHTS = {"table": (30, 48), "w1": (48, 72), "w2": (48, 72), "w3": (72, 20), "bias": (72,), "small": (20,)}
LEAST = 1000


def model() -> onnx.ModelProto:
    return seeded(MODEL, WEIGHTS)


def changed(kind: Kind = "int8") -> tuple[ImportedModel, Quantized]:
    found = deploykit.load(model(), {"b": (1, 16), "s": (1, 16)})
    module, what = quantize_weights(join_siblings(found.module), kind, LEAST)
    return replace(found, module=module), what


def weights() -> dict[str, np.ndarray]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model().graph.initializer}


def inputs(b: int, s: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(b * 100 + s)
    return {
        "ids": random.integers(-30, 30, (b, s)),
        "x": (random.standard_normal((b, s, 48)) * random.choice([0.01, 1, 50], (b, s, 1))).astype(np.float32),
    }


def whole(x: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    step = (np.abs(x).max(axis=axis, keepdims=True) / np.float32(127)).astype(np.float32)
    return np.rint(x / np.where(step > 0, step, np.float32(1))), step


def product(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    (a, by_row), (b, by_column) = whole(x, -1), whole(w, 0)
    return (a @ b) * by_row * by_column


def formula(given: Mapping[str, np.ndarray], kind: Kind = "int8") -> np.ndarray:
    w = weights()
    if kind == "fp16":
        w |= {name: w[name].astype(np.float16).astype(np.float64) for name in ("table", "w1", "w2", "w3")}
        h = w["table"][given["ids"]] + given["x"]
        return (np.tanh(h @ w["w1"]) * (h @ w["w2"]) + w["bias"]) @ w["w3"] + w["small"]
    integers, step = whole(w["table"], 1)
    h = (integers * step)[given["ids"]] + given["x"]
    n = np.tanh(product(h, w["w1"])) * product(h, w["w2"]) + w["bias"]
    return product(n.astype(np.float32), w["w3"]) + w["small"]


def test_what_changes() -> None:
    found, what = changed()
    assert (what.products, what.tables) == (3, 1)
    assert changed("fp16")[1].after == what.before // 2
    elements = {name: int(np.prod(shape)) for name, shape in WEIGHTS.items() if len(shape) > 1}
    assert what.before == 4 * sum(elements.values())
    assert what.after == sum(elements.values()) + 4 * (30 + 72 + 72 + 20)
    text = found.module.script()
    assert "relax.matmul" not in text
    assert "R.matmul" not in text


def test_small_weights_stay() -> None:
    module = deploykit.load(model()).module
    assert quantize_weights(module, least=10_000)[0].same_as(module)


@pytest.mark.sampled(part=4)
def test_values_of_int8(runtime: Runtime) -> None:
    with runtime.session(changed()[0]) as session:
        for b, s in ((1, 1), (2, 7), (3, 16)):
            given = inputs(b, s)
            expected = formula(given)
            # A quotient at the boundary between two integers may be rounded to either.
            np.testing.assert_allclose(session(**given)["y"], expected, atol=0.02 * np.abs(expected).max())
            assert np.median(np.abs(session(**given)["y"] - expected)) < 1e-5 * np.abs(expected).max()


@pytest.mark.sampled(part=4)
def test_values_of_fp16(runtime: Runtime) -> None:
    with runtime.session(changed("fp16")[0]) as session:
        for b, s in ((1, 1), (2, 7), (3, 16)):
            expected = formula(inputs(b, s), "fp16")
            np.testing.assert_allclose(session(**inputs(b, s))["y"], expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize(("kind", "number"), [("int8", np.inf), ("int8", np.nan), ("fp16", 7e4), ("fp16", np.nan)])
def test_a_weight_without_such_a_form_stays(kind: Kind, number: float) -> None:
    given = model()
    for place, tensor in enumerate(given.graph.initializer):
        if tensor.name == "w3":
            array = numpy_helper.to_array(tensor).copy()
            array[3, 4] = number
            given.graph.initializer[place].CopyFrom(numpy_helper.from_array(array, "w3"))
    _, what = quantize_weights(join_siblings(deploykit.load(given).module), kind, LEAST)
    assert (what.products, what.tables) == (2, 1)


def test_near_float32() -> None:
    """The error of a product is at most what half a step of each factor makes."""
    text = MODEL.replace("(int64[b, s] ids, float", "(float").replace("20] y", "72] y")
    text = text[: text.index("{") + 1] + " y = MatMul(x, w1) }"
    found = deploykit.load(seeded(text, {"w1": (48, 72)}))
    module, _ = quantize_weights(found.module, least=LEAST)
    w = numpy_helper.to_array(seeded(text, {"w1": (48, 72)}).graph.initializer[0]).astype(np.float64)
    with HOST.session(replace(found, module=module)) as session:
        for s in (1, 5, 33):
            x = inputs(2, s)["x"].astype(np.float64)
            half_x, half_w = (np.abs(v).max(axis=axis, keepdims=True) / 254 for v, axis in ((x, -1), (w, 0)))
            most = np.abs(x) @ np.broadcast_to(half_w, w.shape) + half_x * np.abs(w).sum(axis=0) + 48 * half_x * half_w
            error = np.abs(session(x=x.astype(np.float32))["y"] - x @ w)
            assert (error <= most * 1.001).all()
            assert error.max() > 0


def test_rows_do_not_change_each_other() -> None:
    with HOST.session(changed()[0]) as session:
        given = inputs(2, 7)
        together = session(**given)["y"]
        for b in range(2):
            for s in range(7):
                alone = session(**{name: value[b : b + 1, s : s + 1] for name, value in given.items()})["y"]
                np.testing.assert_array_equal(alone[0, 0], together[b, s])


@pytest.mark.parametrize("name", ["host", "embedded"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_row_without_numbers(value: float, name: str) -> None:
    with named(name).session(changed()[0]) as session:
        given = inputs(2, 5)
        expected = session(**given)["y"]
        given["x"][1, 2, 3] = value
        found = session(**given)["y"]
        assert np.isnan(found[1, 2]).all()
        found[1, 2] = expected[1, 2]
        np.testing.assert_array_equal(found, expected)


def test_a_row_of_zeros() -> None:
    with HOST.session(changed()[0]) as session:
        given = inputs(1, 3)
        table = weights()["table"]
        integers, step = whole(table, 1)
        given["x"][0, 1] = -(integers * step)[given["ids"][0, 1]]
        found = session(**given)["y"]
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found, formula(given), atol=0.02 * np.abs(found).max())


def test_weights_of_7_bits() -> None:
    """No integer is beyond 63, and no column has a larger error than with the step of its greatest number."""
    found = deploykit.load(model(), {"b": (1, 16), "s": (1, 16)})
    _, what = quantize_weights(found.module, "int8", LEAST, greatest=63.0)
    stored = [tuple(map(array_of, parts)) for parts in what.weights.values() if parts is not None]
    assert len(stored) == 4
    assert all(np.abs(integers.astype(np.int32)).max() == 63 for integers, _ in stored)
    w = weights()["w3"]
    integers, step = next(parts for parts in stored if parts[0].shape == w.shape)
    usual = np.abs(w).max(axis=0) / 63
    error, most = (np.square(whole - w).sum(axis=0) for whole in (integers * step, np.rint(w / usual) * usual))
    assert (error <= most * 1.0001).all()


ATTENTION = """<ir_version: 10, opset_import: ["" : 21]>
heads (float[b, s, 64] x) => (float[b, s, 64] y) <int64[4] apart = {0, -1, 2, 32}, int64[3] together = {0, -1, 64}> {
    q0 = MatMul(x, wq)  q1 = Reshape(q0, apart)  q = Transpose<perm = [0, 2, 1, 3]>(q1)
    k0 = MatMul(x, wk)  k1 = Reshape(k0, apart)  k = Transpose<perm = [0, 2, 3, 1]>(k1)
    v0 = MatMul(x, wv)  v1 = Reshape(v0, apart)  v = Transpose<perm = [0, 2, 1, 3]>(v1)
    scores = MatMul(q, k)  p = Softmax(scores)  a = MatMul(p, v)
    t = Transpose<perm = [0, 2, 1, 3]>(a)  y = Reshape(t, together)
}"""


def test_joined_products_of_a_batch() -> None:
    """Products that are joined along a further axis, which their columns' steps have and the batch has not."""
    given = seeded(ATTENTION, dict.fromkeys(("wq", "wk", "wv"), (64, 64)))
    found = deploykit.load(given, {"b": (1, 16), "s": (1, 16)})
    module, _ = quantize_weights(join_siblings(found.module), "int8", LEAST)
    random = np.random.default_rng(0)
    with HOST.session(found) as before, HOST.session(replace(found, module=module)) as after:
        for b, s in ((1, 5), (3, 5), (4, 1)):
            x = random.standard_normal((b, s, 64)).astype(np.float32)
            expected = before(x=x)["y"]
            assert np.linalg.norm(after(x=x)["y"] - expected) < 0.05 * np.linalg.norm(expected)
