"""Extreme values in a model's fields: each works, or is refused with a reason that names the node."""

from __future__ import annotations

import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import deploykit
from deploykit import UnsupportedModelError
from tests.frontends.onnx.harness import Check, by_onnxruntime, numbers, parse

HUGE = 2**62


def node_model(
    operator: str,
    shapes: list[Any],
    weights: dict[str, Any] | None = None,
    outputs: int = 1,
    opset: int = 21,
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one node. Its operands are float inputs of these shapes, followed by weights."""
    names = [f"x{i}" for i in range(len(shapes))]
    stored = [numpy_helper.from_array(np.asarray(value), name) for name, value in (weights or {}).items()]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(operator, [*names, *(t.name for t in stored)], results, name="it", **attributes)
    graph = helper.make_graph(
        [node],
        "extreme",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in zip(names, shapes, strict=True)],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in results],
        stored,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


IMAGE = ["n", 3, 8, 8]
LARGE = np.array([1, 1, 2**31, 2**31], np.float32)

REFUSED = {
    "window": (node_model("LpPool", [IMAGE], kernel_shape=[2**31, 1], pads=[2**31, 0] * 2), "window of 2147483648"),
    "pads": (node_model("AveragePool", [IMAGE], kernel_shape=[3, 3], pads=[HUGE] * 4), "pads of .* beyond"),
    "strides": (node_model("MaxPool", [IMAGE], kernel_shape=[3, 3], strides=[HUGE] * 2), "strides of"),
    "far strides": (node_model("Conv", [IMAGE, [2, 3, 3, 3]], strides=[2**33, 1]), "strides of 8589934592 lead beyond"),
    "far pads": (node_model("Conv", [IMAGE, [2, 3, 3, 3]], pads=[2**31, 0, 0, 0]), "pads of 2147483648 lead beyond"),
    "far steps": (node_model("ConvTranspose", [IMAGE, [3, 2, 3, 3]], strides=[1, 2**30]), "strides of 1073741824 lead"),
    "one axis": (node_model("ReverseSequence", [[4, "n"]], {"l": [1, 2, 3, 4]}, batch_axis=0), "axis 0 is both"),
    "boxes": (node_model("NonMaxSuppression", [[1, 4], [1, "n", 4]]), "'x0' has 2 axes; it must have 3"),
    "padded strings": (
        parse("(string[a, b] x) => (string[c, d] y) <int64[2] s = {5, 2}> { y = CenterCropPad(x, s) }"),
        "strings are not supported by this operator",
    ),
    "half of strings": (
        parse("(string[a, b] x) => (string[c, d] y) { y = Trilu(x) }"), "strings are not supported by this operator"
    ),
    "no strides": (node_model("MaxPool", [IMAGE], kernel_shape=[3, 3], strides=[0, 1]), "strides of 0"),
    "dilations": (node_model("Conv", [IMAGE, [2, 3, 3, 3]], dilations=[HUGE, 1]), "dilations of"),
    "spread": (node_model("ConvTranspose", [IMAGE, [3, 2, 3, 3]], dilations=[1, 0]), "dilations of 0"),
    "columns": (node_model("Col2Im", [["n", 4, 4]], {"i": [5, 5], "b": [2, 2]}, strides=[0, 1]), "strides of 0"),
    "layout": (node_model("RNN", [[2, 3, 4], [1, 5, 4], [1, 5, 5]], layout=2, hidden_size=5), "layout is 2.* 0 or 1"),
    "sizes besides": (
        node_model("Resize", [["n", 1, 2, 2], [0]], {"s": LARGE, "t": [1, 1, 2, 2]}),
        "both scales and sizes are given",
    ),
    "order": (node_model("LpPool", [IMAGE], kernel_shape=[2, 2], p=0), "p is 0"),
    "parts": (node_model("Split", [["n", 8]], outputs=2, axis=1, num_outputs=2**63 - 1), "num_outputs is .* 2 outputs"),
    "axis": (node_model("LayerNormalization", [[2, 3], [3]], outputs=3, axis=2**31), "axis 2147483648"),
    "neighbours": (node_model("LRN", [IMAGE], size=HUGE + 1), "size is"),
    "type": (node_model("Cast", [["n"]], to=-1), "no tensor type number -1"),
    "repeats": (node_model("Tile", [["n", 2]], {"r": [1, HUGE]}), "more than any memory"),
    "negative repeats": (node_model("Tile", [["n", 2]], {"r": [1, -2]}), "repeats is -2"),
    "sizes": (node_model("Expand", [["n", 1]], {"s": [1, HUGE]}), "more than any memory"),
    "scales": (node_model("Resize", [["n", 1, 2, 2]], {"s": LARGE}, opset=10), "more than any memory"),
    "best": (node_model("TopK", [["n", 8]], {"k": [-1]}, outputs=2), "k is -1"),
    "precision": (
        node_model("Attention", [[2, 3, 4, 8], [2, 3, 6, 8], [2, 3, 6, 8]], opset=23, softmax_precision=2),
        "softmax_precision is uint8",
    ),
    "flag": (node_model("ReduceMax", [["n", 3]], keepdims=2**63 - 1), "keepdims is .* 0 or 1"),
    "training": (node_model("BatchNormalization", [IMAGE, [3], [3], [3], [3]], training_mode=HUGE), "training_mode is"),
    "dots": (node_model("Einsum", [["n", 3], ["n", 3]], equation="..." * 40), "'...' twice"),
    "scan inputs": (
        parse("(float[n, 3] x) => (float[n, 3] y) { y = Scan<num_scan_inputs = 1099511627776, "
              "body = b (float[3] i) => (float[3] o) { o = Abs(i) }>(x) }"),
        "num_scan_inputs is 1099511627776",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_at_once_and_by_name(name: str) -> None:
    model, reason = REFUSED[name]
    start, memory = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UnsupportedModelError, match=reason) as caught:
        deploykit.load(model)
    assert time.process_time() - start < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 500_000
    assert "Error" not in str(caught.value)


def test_a_constant_without_its_data() -> None:
    model = parse("(float[n] x) => (float[n] y) { c = Constant<value = float[3] {1, 2, 3}>()  y = Add(x, c) }")
    tensor = model.graph.node[0].attribute[0].t
    tensor.ClearField("float_data")
    with pytest.raises(UnsupportedModelError, match=r"FLOAT\[3\]|TensorProto"):
        deploykit.load(model)


def test_no_outputs() -> None:
    model = parse("(float[n] x) => (float[n] y) { y = Abs(x) }")
    model.graph.ClearField("output")
    with pytest.raises(UnsupportedModelError, match="has no outputs"):
        deploykit.load(model)


def test_a_reference_to_a_function_attribute_outside_a_function() -> None:
    model = parse("""(float[n] x, bool b) => (float[n] y) { y = If(b)<
        then_branch = t () => (float[n] a) { a = Elu<alpha = 2.0>(x) },
        else_branch = e () => (float[n] c) { c = Abs(x) }> }""")
    branch = next(a.g for a in model.graph.node[0].attribute if a.name == "then_branch")
    branch.node[0].attribute[0].ClearField("f")
    branch.node[0].attribute[0].ref_attr_name = "alpha"
    with pytest.raises(UnsupportedModelError, match="'alpha' refers to one of a function"):
        deploykit.load(model)


@pytest.mark.parametrize("stored_as", ["initializer", "Constant"])
def test_missing_external_data(stored_as: str, tmp_path: Path) -> None:
    tensor = numpy_helper.from_array(np.ones(3, np.float32), "c")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "none.bin"
    model = parse("(float[n, 3] x) => (float[n, 3] y) { y = Add(x, c) }") if stored_as == "Constant" else None
    model = model or parse("(float[n, 3] x) => (float[n, 3] y) <float[3] c = {1, 1, 1}> { y = Add(x, c) }")
    if stored_as == "Constant":
        model.graph.node.insert(0, helper.make_node("Constant", [], ["c"], value=tensor))
    else:
        model.graph.initializer[0].CopyFrom(tensor)
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    for source in (tmp_path / "model.onnx", model):
        with pytest.raises(UnsupportedModelError, match=r"none\.bin") as caught:
            deploykit.load(source)
        assert "Error" not in str(caught.value)


@pytest.mark.parametrize("order", [3, 8, 9, 30])
def test_norms_of_high_order(check: Check, order: int) -> None:
    text = f"(float[n, 2, 5, 5] x) => (float[n, 2, a, b] y) {{ y = LpPool<kernel_shape = [2, 2], p = {order}>(x) }}"
    runs = [{"x": numbers(n, 2, 5, 5)} for n in (1, 3)]
    check(text, *runs, expected=by_onnxruntime(text, *runs), rtol=1e-4)


def test_unique_booleans(check: Check) -> None:
    text = """(bool[n, m] x) => (bool[k] y, int64[k] first, int64[l] inverse, int64[k] counts) {
        y, first, inverse, counts = Unique(x) }"""
    runs = [{"x": numbers(n, m) > 0} for n, m in ((1, 1), (3, 5), (2, 8))]
    check(text, *runs, {"x": np.ones((2, 3), bool)})


PADS = """(float[n, 3, m, 5] x, int64[4] pads, int64[2] axes) => (float[a, b, c, d] y) {
    nine = Constant<value_float = 9.0>()  y = Pad(x, pads, nine, axes) }"""


def test_runtime_pads_and_axes(check: Check) -> None:
    """The time does not grow with the number of combinations."""
    axes = [[1, 3], [-1, 0], [2, -3], [0, 1]]
    runs = [
        {"x": numbers(n, 3, m, 5), "pads": np.array([1, 0, 2, 3]), "axes": np.array(where)}
        for n, m, where in zip((1, 2, 3, 1), (1, 4, 7, 9), axes, strict=True)
    ]
    start = time.process_time()
    check(PADS, *runs)
    assert time.process_time() - start < 15


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("diagonal", [-(2**63), 2**63 - 1])
def test_the_furthest_diagonals(check: Check, diagonal: int, upper: int) -> None:
    """All elements are kept, or none."""
    model = node_model("Trilu", [["n", 4]], {"k": diagonal}, upper=upper)
    runs = [{"x0": numbers(n, 4)} for n in (1, 5)]
    stay = (diagonal < 0) == bool(upper)
    check(model, *runs, expected=[[run["x0"] * stay] for run in runs])


def test_a_slice_to_the_end_of_a_product_of_dims(check: Check) -> None:
    """Exporters write the largest int64 for the end of an axis. It must not be treated as a size."""
    text = """(float[n,m,k] x) => (float[a,b] y, float[c] z)
        <int64[2] s = {-2, 2}, int64[2] e = {9223372036854775807, 9223372036854775807}, int64[2] axes = {-1, 0},
         int64[2] t = {1, 2}, int64[1] f = {0}, int64[1] g = {9223372036854775806}, int64[1] all = {-1}> {
        p = Flatten<axis = -1>(x)  q = Transpose<perm = [1, 0]>(p)  y = Slice(q, s, e, axes, t)
        r = Reshape(x, all)  z = Slice(r, f, g) }"""
    check(text, *({"x": numbers(*shape)} for shape in ((1, 2, 3), (3, 5, 4), (1, 3, 2))))


def test_a_loop_with_the_largest_trip_count(check: Check) -> None:
    text = """(float[n] x) => (float[n] y) {
        most = Constant<value_int = 9223372036854775807>()  yes = Constant<value = bool {1}>()
        y = Loop<body = b (int64 i, bool before, float[n] v) => (bool after, float[n] w) {
            two = Constant<value_int = 2>()  after = Less(i, two)  w = Add(v, v) }>(most, yes, x) }"""
    check(text, {"x": numbers(1)}, {"x": numbers(5)})


def test_a_fill_that_is_too_large_to_fold() -> None:
    """Importing works. Only the run lacks memory."""
    model = parse("() => (float[n] y) { n = Constant<value_ints = [1099511627776]>()  y = ConstantOfShape(n) }")
    assert deploykit.load(model).outputs[0].shape == (2**40,)
