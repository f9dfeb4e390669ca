"""Models that ONNX Runtime's optimiser saved, against ONNX Runtime."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from deploykit.errors import UnsupportedModelError
from deploykit.frontends.onnx import load_onnx
from deploykit.frontends.onnx.blocked import mark_blocks
from deploykit.frontends.onnx.reader import read
from tests.frontends.onnx.harness import Check, by_onnxruntime, numbers, parse
from tests.seeded import seeded

NETWORK = """<ir_version: 9, opset_import: ["" : 17]> network (float[n, 3, h, w] x) => (float[n, 20, 1, 1] y) {
    c0 = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (x, w0, b0)
    r0 = Relu(c0)
    c1 = Conv <pads = [1, 1, 1, 1]> (r0, w1)
    p1 = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (c1)
    c2 = Conv <group = 40, pads = [1, 1, 1, 1]> (p1, w2)
    s2 = Add(p1, c2)
    r2 = Relu(s2)
    c3 = Conv(r2, w3)
    c4 = Conv <group = 2, pads = [1, 1, 1, 1]> (c3, w4)
    p4 = AveragePool <kernel_shape = [2, 2]> (c4)
    c5 = Conv(p4, w5)
    r5 = Sigmoid(c5)
    y = GlobalAveragePool(r5)
}"""
WEIGHTS = {
    "w0": (24, 3, 3, 3),
    "b0": (24,),
    "w1": (40, 24, 3, 3),
    "w2": (40, 1, 3, 3),
    "w3": (64, 40, 1, 1),
    "w4": (64, 32, 3, 3),
    "w5": (20, 64, 1, 1),
}


def saved(model: onnx.ModelProto, folder: Path, level: str) -> onnx.ModelProto:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level}")
    options.optimized_model_filepath = str(folder / "saved.onnx")
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return onnx.load(folder / "saved.onnx")


@pytest.mark.parametrize("level", ["BASIC", "EXTENDED", "ALL"])
def test_networks_of_convolutions(check: Check, tmp_path: Path, level: str) -> None:
    model = seeded(NETWORK, WEIGHTS)
    runs = [{"x": numbers(n, 3, h, w)} for n, h, w in ((1, 8, 8), (2, 13, 9), (3, 16, 21))]
    check(saved(model, tmp_path, level), *runs, expected=by_onnxruntime(model, *runs), rtol=1e-4)


def packed(w: np.ndarray, block: int) -> np.ndarray:
    """Filters (O, I, ...) in blocks, as ONNX Runtime writes them: O and I are multiples of the block, or I is small."""
    o, i, *kernel = w.shape
    if i % block:
        return np.moveaxis(w.reshape(o // block, block, i, *kernel), 1, -1).reshape(w.shape)
    return np.moveaxis(w.reshape(o // block, block, i // block, block, *kernel), (3, 1), (-2, -1)).reshape(w.shape)


@pytest.mark.parametrize(("block", "channels"), [(8, 20), (16, 20), (8, 40), (16, 7)])
def test_channels_in_blocks(check: Check, block: int, channels: int) -> None:
    """The numbers of channels tell the block, whatever the machine."""
    width = -(-channels // block) * block
    first, second = numbers(channels, 3, 3, 3) / 20, numbers(channels, channels, 1, 1, seed=1) / 20
    wide_first, wide_second = np.zeros((width, 3, 3, 3), np.float32), np.zeros((width, width, 1, 1), np.float32)
    wide_first[:channels], wide_second[:channels, :channels] = first, second
    plain = """(float[n, 3, h, w] x) => (float[n, c, k, l] y) {
        a = Conv(x, w0) r = LeakyRelu <alpha = 0.3> (a) s = Conv(r, w1)
        b = Add(s, a) y = MaxPool <kernel_shape = [2, 2]> (b)
    }"""
    blocked = f"""(float[n, 3, h, w] x) => (float[n, {channels}, k, l] y) {{
        a = com.microsoft.nchwc.Conv(x, w0)
        r = LeakyRelu <alpha = 0.3> (a)
        b = com.microsoft.nchwc.Conv(r, w1, , a)
        p = com.microsoft.nchwc.MaxPool <kernel_shape = [2, 2]> (b)
        y = com.microsoft.nchwc.ReorderOutput <channels = {channels}> (p)
        z = com.microsoft.nchwc.ReorderOutput <channels = {channels}> (b)
    }}"""
    models = []
    for text, weights in ((plain, (first, second)), (blocked, (packed(wide_first, block), packed(wide_second, block)))):
        model = parse(text, 17)
        model.graph.initializer.extend(onnx.numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights))
        models.append(model)
    models[1].opset_import.append(helper.make_opsetid("com.microsoft.nchwc", 1))
    assert mark_blocks(read(models[1]), "m") is None
    runs = [{"x": numbers(n, 3, h, w)} for n, h, w in ((1, 5, 5), (2, 6, 9))]
    check(models[1], *runs, expected=by_onnxruntime(models[0], *runs), rtol=1e-4)


def test_blocks_that_nothing_tells_are_noted() -> None:
    model = parse("(float[n, 3, h, w] x) => (float[n, 16, k, l] y) { y = com.microsoft.nchwc.Conv(x, w0) }", 17)
    model.graph.initializer.append(onnx.numpy_helper.from_array(numbers(16, 3, 1, 1), "w0"))
    model.opset_import.append(helper.make_opsetid("com.microsoft.nchwc", 1))
    assert "blocks of" in load_onnx(model).notes[0]
    assert "assumed" in load_onnx(model).notes[0]


def test_transformers(check: Check, tmp_path: Path) -> None:
    """What is fused are layer normalisations with a skip, GELU with a bias, and products with scales."""
    text = """<ir_version: 9, opset_import: ["" : 20]> block (float[n, t, 16] x) => (float[n, t, 16] y) {
        q = MatMul(x, wq) k = MatMul(x, wk) kt = Transpose <perm = [0, 2, 1]> (k) s = MatMul(q, kt)
        f = Constant <value_float = 0.25> () d = Mul(s, f) p = Softmax <axis = -1> (d) v = MatMul(p, x)
        a = Add(v, x) n1 = LayerNormalization(a, g, b)
        u = MatMul(n1, wu) ub = Add(u, bu) e = Gelu(ub) o = MatMul(e, wd) ob = Add(o, b) r = Add(ob, n1)
        y = LayerNormalization(r, g, b)
    }"""
    weights = {"wq": (16, 8), "wk": (16, 8), "g": (16,), "b": (16,), "wu": (16, 32), "bu": (32,), "wd": (32, 16)}
    model = seeded(text, weights)
    runs = [{"x": numbers(n, t, 16) / 4} for n, t in ((1, 1), (2, 5), (3, 4))]
    optimised = saved(model, tmp_path, "ALL")
    assert any(node.domain == "com.microsoft" for node in optimised.graph.node)
    check(optimised, *runs, expected=by_onnxruntime(model, *runs), rtol=1e-3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("GreedySearch(x)", "export the encoder and the decoder without it"),
        ("DynamicTimeWarping(x)", "optimisation level 'basic'"),
        ("NGramRepeatBlock(x, x)", "optimisation level 'basic'"),
        ("PackedAttention(x)", "graphics cards only"),
    ],
)
def test_others_are_refused_with_a_remedy(call: str, message: str) -> None:
    model = parse(f"(float[n] x) => (float[m] y) {{ y = com.microsoft.{call} }}", 17)
    with pytest.raises(UnsupportedModelError, match=message):
        load_onnx(model)
