"""If, Loop and Scan: branches that differ, bodies that declare sizes, batches of scans; models of old opsets."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

import deploykit
from tests.frontends.onnx.harness import by_onnxruntime, check, numbers, parse


@pytest.mark.parametrize("n", [1, 4])
def test_branches_read_different_tensors(n: int) -> None:
    model = """(float[n] x, float[n] y, bool t) => (float[m] z) {
        z = If(t) <then_branch = yes () => (float[k] s) { s = Exp(y) },
                   else_branch = no () => (float[k] s) { s = Neg(x) }>
    }"""
    feeds = [{"x": numbers(n), "y": numbers(n, seed=1), "t": np.array(t)} for t in (True, False)]
    check(model, *feeds)


def test_branches_of_other_rank_give_the_higher_one() -> None:
    model = parse("""(float[n] x, bool t) => (float[m] y) {
        y = If(t) <then_branch = yes () => (float s) { s = ReduceSum<keepdims=0>(x) },
                   else_branch = no () => (float[1] s) { s = ReduceSum(x) }>
    }""")
    x = numbers(5)
    runs = [{"x": x, "t": np.array(t)} for t in (True, False)]
    check(model, *runs, expected=[[x.sum(keepdims=True)]] * 2)
    assert any("ranks" in note for note in deploykit.load(model).notes)


def test_branches_whose_ranks_cannot_agree_are_refused() -> None:
    model = parse("""(float[n] x, bool t) => (float[m] y) {
        y = If(t) <then_branch = yes () => (float s) { s = ReduceSum<keepdims=0>(x) },
                   else_branch = no () => (float[k] s) { s = Neg(x) }>
    }""")
    with pytest.raises(deploykit.UnsupportedModelError, match="rank 0 and float32 of rank 1"):
        deploykit.load(model)


def test_sizes_that_a_body_declares_are_checked() -> None:
    model = """(int64 trips, float[1] y, float[n] x) => (float[1] last, float[k,1] rows) {
        go = Constant<value=bool {1}>()
        last, rows = Loop(trips, go, y) <body = step (int64 i, bool c, float[1] before)
                                                     => (bool d, float[1] after, float[1] row) {
            d = Identity(c)
            one = Constant<value_ints=[1]>()
            start = Reshape(i, one)
            end = Add(start, one)
            piece = Slice(x, start, end)
            after = Add(before, piece)
            row = Identity(after)
        }>
    }"""
    feeds = {"y": np.array([-2.0], np.float32), "x": numbers(5)}
    runs = [{"trips": np.array(t), **feeds} for t in (0, 1, 5)]
    sums = [np.concatenate([feeds["y"], feeds["y"] + np.cumsum(feeds["x"])])[: t + 1] for t in (0, 1, 5)]
    check(model, *runs, expected=[[s[-1:], s[1:, None]] for s in sums])
    with pytest.raises(deploykit.ShapeError, match="declared with a size of 1, found 0"):
        check(model, {"trips": np.array(6), **feeds}, expected=[[]])


@pytest.mark.parametrize(("batch", "steps"), [(1, 3), (4, 1), (3, 5)])
@pytest.mark.parametrize("direction", [0, 1])
def test_scan_over_a_batch(batch: int, steps: int, direction: int) -> None:
    model = f"""(float[b,2] start, float[b,t,2] x) => (float[b2,2] end, float[b3,t3,2] sums) {{
        end, sums = Scan("", start, x) <num_scan_inputs = 1, directions = [{direction}],
            body = step (float[2] before, float[2] next) => (float[2] after, float[2] row) {{
                after = Add(before, next)
                row = Identity(after)
            }}>
    }}"""
    feeds = {"start": numbers(batch, 2), "x": numbers(batch, steps, 2, seed=1)}
    x = feeds["x"][:, ::-1] if direction else feeds["x"]
    sums = feeds["start"][:, None] + np.cumsum(x, axis=1)
    check(model, feeds, opset=8, expected=[[sums[:, -1], sums]])


def test_models_of_old_opsets_are_converted() -> None:
    text = """<ir_version: 3, opset_import: ["" : 1]> old (float[2,3] x, float[3] b) => (float[6] y) {
        sum = Add<axis = 1, broadcast = 1>(x, b)
        kept = Dropout<is_test = 1>(sum)
        positive = Relu<consumed_inputs = [0]>(kept)
        y = Reshape<shape = [6]>(positive)
    }"""
    model = onnx.parser.parse_model(text)
    feeds = {"x": numbers(2, 3), "b": numbers(3, seed=1)}
    check(model, feeds, expected=[[np.maximum(feeds["x"] + feeds["b"], 0).reshape(6)]])


def test_scan_of_opset_8_agrees_with_onnxruntime() -> None:
    assert onnxruntime.__version__
    model = """(float[b,2] start, float[b,t,2] x) => (float[b2,2] end) {
        end = Scan("", start, x) <num_scan_inputs = 1,
            body = step (float[2] before, float[2] next) => (float[2] after) { after = Max(before, next) }>
    }"""
    feeds = {"start": numbers(2, 2), "x": numbers(2, 6, 2, seed=1)}
    check(model, feeds, opset=8, expected=by_onnxruntime(model, feeds, opset=8))


def test_maps_are_refused_with_the_next_step() -> None:
    maps = onnx.helper.make_sequence_type_proto(
        onnx.helper.make_map_type_proto(
            onnx.TensorProto.INT64, onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [])
        )
    )
    node = onnx.helper.make_node("ZipMap", ["x"], ["p"], domain="ai.onnx.ml", classlabels_int64s=[0, 1])
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 2])
    graph = onnx.helper.make_graph([node], "maps", [x], [onnx.helper.make_value_info("p", maps)])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("ai.onnx.ml", 1)])
    with pytest.raises(deploykit.UnsupportedModelError, match="zipmap=False"):
        deploykit.load(model)
