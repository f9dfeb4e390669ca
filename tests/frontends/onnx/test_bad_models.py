"""Broken and unsupported models give one clear error that names the faulty part. No other exception escapes."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

import deploykit
from deploykit import ShapeError, UnsupportedModelError, UsageError
from deploykit.frontends.onnx import load_onnx
from tests.frontends.onnx.harness import Check, by_onnxruntime, numbers, parse

TEXT = """(float[batch, 8] x, float[8, 4] w) => (float[batch, 4] y)
{ h = MatMul(x, w)  s = Shape(h)  r = Reshape(h, s)  y = Relu(r) }"""


def mlp(weight: float = 0.5) -> onnx.ModelProto:
    model = parse(TEXT)
    del model.graph.input[1]
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.full((8, 4), weight, np.float32), "w"))
    return model


MLP = mlp().SerializeToString()


@pytest.mark.parametrize("keep", [0, 1, 7, 100, -3])
def test_truncated_file(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "short.onnx"
    path.write_bytes(MLP[:keep])
    with pytest.raises(UnsupportedModelError, match=r"short\.onnx"):
        deploykit.load(path)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.onnx: No such file"):
        deploykit.load(tmp_path / "none.onnx")


def external_model(tmp_path: Path) -> Path:
    path = tmp_path / "big.onnx"
    onnx.save(mlp(), path, save_as_external_data=True, location="weights.data", size_threshold=0)
    return path


def test_external_data(tmp_path: Path) -> None:
    deploykit.load(external_model(tmp_path))


def test_missing_external_data(tmp_path: Path) -> None:
    path = external_model(tmp_path)
    (tmp_path / "weights.data").unlink()
    with pytest.raises(UnsupportedModelError, match=r"weights\.data"):
        deploykit.load(path)


def test_truncated_external_data(tmp_path: Path) -> None:
    path = external_model(tmp_path)
    (tmp_path / "weights.data").write_bytes(b"\0" * 10)
    with pytest.raises(UnsupportedModelError, match=r"'w'.*truncated"):
        deploykit.load(path)


def test_external_data_outside_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    model = onnx.load(external_model(tmp_path), load_external_data=False)
    for entry in model.graph.initializer[0].external_data:
        if entry.key == "location":
            entry.value = "../weights.data"
    onnx.save(model, folder / "big.onnx")
    with pytest.raises(UnsupportedModelError):
        deploykit.load(folder / "big.onnx")


def external(location: str) -> onnx.TensorProto:
    tensor = TensorProto(data_type=TensorProto.FLOAT, dims=[4], name="w", data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    return tensor


def constant_of(location: str) -> onnx.ModelProto:
    """A model with external data in an attribute of a branch."""
    text = "(bool c, float[4] x) => (float[4] y) { y = If (c) <then_branch = t() => (float[4] a) { %s }, else_branch = "
    text += "e() => (float[4] b) { b = Identity(x) }> }"
    model = parse(text % "a = Constant <value = float[4] {0, 0, 0, 0}> ()")
    (branch,) = (a.g for a in model.graph.node[0].attribute if a.name == "then_branch")
    branch.node[0].attribute[0].t.CopyFrom(external(location))
    return model


@pytest.mark.parametrize("weight", [True, False])
def test_external_data_of_a_model_without_a_folder(
    tmp_path: Path, weight: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.zeros(4, np.float32).tofile("weights.data")
    model = constant_of("weights.data")
    if weight:
        model = parse("(float[n, 4] x) => (float[n, 4] y) { y = Add(x, w) }")
        model.graph.initializer.append(external("weights.data"))
    with pytest.raises(UsageError, match=r"'w' lies in the file 'weights.data', .* Give the path"):
        deploykit.load(model)


def graph_of(*nodes: onnx.NodeProto) -> onnx.ModelProto:
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("x", "z")]
    graph = helper.make_graph(list(nodes), "g", value[:1], value[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.acme", 1)])


def test_cyclic_graph() -> None:
    with pytest.raises(UnsupportedModelError, match="topologically sorted"):
        deploykit.load(graph_of(helper.make_node("Add", ["x", "z"], ["y"]), helper.make_node("Relu", ["y"], ["z"])))


def test_nodes_in_any_order(check: Check) -> None:
    """Some tools append the nodes that they add. ONNX Runtime sorts such nodes too."""
    text = """(float[n] x, bool c) => (float[m] z) {
        z = If(c) <then_branch = a () => (float[k] t) { t = Neg(y) u = Abs(x) }, else_branch = b () => (float[k] e) {
            f = Exp(x)
            e = Mul(f, y)
        }>
        y = Relu(x)
    }"""
    runs = [{"x": numbers(n), "c": np.array(c)} for n, c in ((3, True), (1, False))]
    model = parse(text)
    check(model, *runs, expected=by_onnxruntime(model, *runs))
    assert [node.op_type for node in model.graph.node] == ["If", "Relu"]


def test_every_unknown_operator_is_listed() -> None:
    nodes = [
        helper.make_node("Frobnicate", ["x"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Twist", ["b"], ["z"], name="second", domain="com.acme"),
    ]
    with pytest.raises(UnsupportedModelError) as caught:
        deploykit.load(graph_of(*nodes))
    assert [(p.operator, p.node, p.opset) for p in caught.value.problems] == [
        ("Frobnicate", "first", 17),
        ("Twist", "second", 1),
    ]
    assert "com.acme" in str(caught.value)


def test_unknown_opset() -> None:
    with pytest.raises(UnsupportedModelError, match="opset 99"):
        deploykit.load(helper.make_model(graph_of().graph, opset_imports=[helper.make_opsetid("", 99)]))


def test_contradictory_sizes() -> None:
    with pytest.raises(UnsupportedModelError, match="3 and 4"):
        deploykit.load(parse("(float[2, 3] x, float[4, 5] w) => (float[2, 5] y) { y = MatMul(x, w) }"))


def test_mixed_dtypes() -> None:
    with pytest.raises(UnsupportedModelError, match="dtypes"):
        deploykit.load(parse("(float[2, 3] x, double[3, 5] w) => (float[2, 5] y) { y = MatMul(x, w) }"))


def test_unknown_dim() -> None:
    with pytest.raises(UsageError, match=r"no dim named seq.*batch"):
        deploykit.load(mlp(), {"seq": 8})


def test_weight_larger_than_its_shape() -> None:
    model = mlp()
    model.graph.initializer[0].dims[:] = [1, 4]
    with pytest.raises(UnsupportedModelError, match="weight 'w' cannot be read"):
        load_onnx(model)


def test_weights_of_nan(tmp_path: Path) -> None:
    deploykit.build(mlp(np.nan), output=tmp_path / "dist")
    session = deploykit.open(tmp_path / "dist")
    assert np.isnan(session(x=np.ones((3, 8), np.float32))["y"]).all()


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(MLP) - 1), st.integers(0, 255)), min_size=1, max_size=6))
def test_mutated_bytes(changes: list[tuple[int, int]]) -> None:
    data = bytearray(MLP)
    for position, byte in changes:
        data[position] = byte
    start = time.perf_counter()
    with contextlib.suppress(UnsupportedModelError, UsageError):
        load_onnx(bytes(data))
    assert time.perf_counter() - start < 10


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> deploykit.Session:
    folder = tmp_path_factory.mktemp("session") / "dist"
    deploykit.build(mlp(), dims={"batch": (1, 64)}, output=folder)
    return deploykit.open(folder)


_DTYPES = st.sampled_from([np.float32, np.float64, np.int64, np.bool_, np.float16])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(0, 70), max_size=4), _DTYPES, st.sampled_from(["x", "y", ""]))
def test_session_inputs(session: deploykit.Session, shape: list[int], dtype: type[np.generic], name: str) -> None:
    fits = name == "x" and dtype is np.float32 and len(shape) == 2 and shape[1:] == [8] and 1 <= shape[0] <= 64
    if fits:
        assert session.run({name: np.ones(shape, dtype)})["y"].shape == (shape[0], 4)
        return
    with pytest.raises(ShapeError, match=r"x|'y'|''"):
        session.run({name: np.ones(shape, dtype)})


def test_a_negative_size_is_unknown(check: Check) -> None:
    """Some exporters write -1 where others leave the size out."""
    model = parse("(float[b, 4] x, float[c, d] w) => (float[e, f] y) { y = MatMul(x, w) }")
    for value in (*model.graph.input, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if not dim.dim_value:
                dim.dim_value = -1
    loaded = deploykit.load(model)
    assert [dim.name for dim in loaded.dims] == ["x_dim0", "w_dim0", "w_dim1"]
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_value == -1
    check(model, {"x": numbers(3, 4), "w": numbers(4, 5)}, {"x": numbers(1, 4), "w": numbers(4, 1)})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            (
                "(float[n,1,4,4] x, float[m,4] r, int64[m] i) => (float[a,b,c,d] y) "
                "{ y = RoiAlign <output_height = -2, output_width = 3> (x, r, i) }"
            ),
            "-2 by 3 bins",
        ),
        (
            (
                "(float[n,4] x) => (float[a,b] y) "
                "{ size = Constant <value_ints = [3, -2]> () y = CenterCropPad (x, size) }"
            ),
            "size is -2; the least is 0",
        ),
        (
            "(float[n,1,4,4] x, float[m,5] r) => (float[a,b,c,d] y) { y = MaxRoiPool <pooled_shape = [-3, 2]> (x, r) }",
            "size -3 along an axis",
        ),
    ],
)
def test_negative_sizes_of_results_are_refused(text: str, words: str) -> None:
    with pytest.raises(UnsupportedModelError, match=words):
        deploykit.load(parse(text))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "(float[n,3] x) => (float[a] y) { one = Shape(x) twice = Add(one, one) y = Reshape(x, twice) }",
            r"3\*n elements cannot take a shape of 12\*n elements",
        ),
        (
            "(float[n,3] x, int64[m] axes) => (float[a] y) { y = ReduceSum(x, axes) }",
            "an operand of unknown length m would",
        ),
        (
            (
                "(float[n,3] x, int64 k, bool c) => (float[a,b] y) { y = Loop <body = g(int64 i, bool o, float[n,3] s) "
                "=> (bool o, float[a,b] t) { t = Concat <axis = 0> (s, s) }> (k, c, x) }"
            ),
            r"state 's' grows along axis 0 without a known bound; give one, --dim s_dim0=\.\.N",
        ),
    ],
)
def test_sizes_in_messages_are_formulas(text: str, words: str) -> None:
    with pytest.raises(UnsupportedModelError, match=words):
        deploykit.load(parse(text))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ('AveragePool <kernel_shape = [2, 2], auto_pad = "SAME"> (x)', "auto_pad is 'SAME'; it must be one of NOTSET"),
        ('ConvTranspose <auto_pad = "SAME"> (x, w)', "auto_pad is 'SAME'"),
        ('BitShift <direction = "UP"> (i, i)', "direction is 'UP'; it must be one of LEFT, RIGHT"),
        ('Cast <to = 24, round_mode = "even"> (x)', "round_mode is 'even'"),
        ('RoiAlign <coordinate_transformation_mode = "half"> (x, r, n)', "coordinate_transformation_mode is 'half'"),
        ('TensorScatter <mode = "ring"> (x, x)', "mode is 'ring'; it must be one of linear, circular"),
        ('StringNormalizer <case_change_action = "TITLE"> (s)', "case_change_action is 'TITLE'"),
        (
            (
                "TfIdfVectorizer <max_gram_length = 1, max_skip_count = 0, min_gram_length = 1, "
                'mode = "BM25", ngram_counts = [0], ngram_indexes = [0], pool_int64s = [1]> (n)'
            ),
            "mode is 'BM25'",
        ),
        ('Upsample <mode = "cubic"> (x, f)', "mode is 'cubic'"),
    ],
)
def test_unknown_choices_are_refused(call: str, words: str) -> None:
    inputs = "float[a,1,4,4] x, float[1,1,2,2] w, uint8[m] i, float[k,4] r, int64[k] n, string[c] s, float[4] f"
    opset = 9 if call.startswith("Upsample") else 24
    with pytest.raises(UnsupportedModelError, match=words):
        deploykit.load(parse(f"({inputs}) => (float[d] y) {{ y = {call} }}", opset))


def test_choices_may_be_written_in_any_case() -> None:
    deploykit.load(parse('(uint8[n] x) => (uint8[n] y) { y = BitShift <direction = "left"> (x, x) }'))


@pytest.mark.parametrize(
    "call", ["Reshape(x, i)", "ReduceSum(x, i)", "Squeeze(x, i)", "Unsqueeze(x, i)", "Slice(x, i, i)"]
)
def test_too_many_axes_are_refused(call: str) -> None:
    text = f"(float[n, 3] x, int64[1099511627776] i) => (float[a] y) {{ y = {call} }}"
    with pytest.raises(UnsupportedModelError, match="1099511627776 runtime integers"):
        deploykit.load(parse(text))


@pytest.mark.parametrize(
    "call",
    [
        "Transpose <perm = [1, 2]> (x)",
        "Resize <axes = [2]> (x, , , i)",
        "CenterCropPad <axes = [-3]> (x, i)",
        "MeanVarianceNormalization <axes = [0, 2]> (x)",
        "Slice (x, i, i, two)",
        "ArgMax <axis = 2> (x)",
    ],
)
def test_axes_beyond_the_rank_are_refused(call: str) -> None:
    text = f"(float[n, 3] x, int64[1] i) => (float[a, b] y) {{ two = Constant <value = int64[1] {{2}}> () y = {call} }}"
    with pytest.raises(UnsupportedModelError, match=r"-?[23] is outside of a tensor of rank 2"):
        deploykit.load(parse(text))


def test_two_nodes_with_the_same_result_and_an_unknown_operator() -> None:
    with pytest.raises(UnsupportedModelError, match="a broken ONNX model: Output 'y' is redeclared"):
        deploykit.load(parse("(float[n] x) => (float[n] y) { y = Frobnicate(x) y = Abs(x) }"))


@pytest.mark.parametrize(
    ("inputs", "call", "shapes"),
    [
        (
            "float[n,c,4] x, float[s] s, float[c] b",
            "GroupNormalization <num_groups = 2> (x, s, b)",
            [(2, 6, 4), (4,), (6,)],
        ),
        ("float[n,c,4] x, float[s] s, float[c] b", "BatchNormalization (x, s, b, b, b)", [(2, 6, 4), (4,), (6,)]),
        (
            "float[n,1,3,3] x, float[1,1,2,2] w, float[m,8,2,2] o",
            "DeformConv <kernel_shape = [2, 2]> (x, w, o)",
            [(2, 1, 3, 3), (1, 1, 2, 2), (1, 8, 2, 2)],
        ),
        ("float[n,1,3,3] x, float[m,2,2,2] g", "GridSample (x, g)", [(2, 1, 3, 3), (1, 2, 2, 2)]),
    ],
)
def test_sizes_that_do_not_fit_are_refused_at_run_time(
    inputs: str, call: str, shapes: list[tuple[int, ...]], tmp_path: Path
) -> None:
    rank = len(shapes[0])
    text = f"({inputs}) => (float[{','.join('abcd'[:rank])}] y) {{ y = {call} }}"
    deploykit.build(parse(text, 22), output=tmp_path / "model", fuse=False)
    names = [value.split("] ")[1] for value in inputs.split(", ")]
    with deploykit.open(tmp_path / "model") as session, pytest.raises(ShapeError):
        session.run({name: numbers(*shape) for name, shape in zip(names, shapes, strict=True)})


def test_an_output_that_no_node_computes() -> None:
    proto = parse("(float[n] x) => (float[n] y) { y = Identity(x) }")
    proto.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n"]))
    with pytest.raises(UnsupportedModelError, match="output 'z'"):
        load_onnx(proto)


def test_an_input_without_a_shape() -> None:
    model = parse("(float[n] x) => (float[n] y) { y = Relu(x) }")
    model.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(UnsupportedModelError, match=r"input 'x' has no shape.*make_tensor_value_info\('x', .*FLOAT"):
        deploykit.load(model)


def test_a_number_of_sizes_that_is_unknown() -> None:
    text = "(float[n, 4] x, int64[k] s) => (float[a, b, c] y) { y = Reshape(x, s) }"
    with pytest.raises(UnsupportedModelError, match=r"unknown length k .*: fix it, as in --dim k=3"):
        deploykit.load(parse(text))
    deploykit.load(parse(text), dims={"k": 3})


def test_a_size_that_would_change_the_rank_is_noted() -> None:
    text = "(float[n, 1, 4] x) => (float[a, b] y) { y = Squeeze(x) }"
    (note,) = deploykit.load(parse(text)).notes
    assert "a run with n = 1 would change the rank" in note
    assert "2 with --dim n=2..N or 1 with --dim n=1" in note
    assert not deploykit.load(parse(text), dims={"n": (2, 9)}).notes


def test_inputs_with_values_are_noted() -> None:
    model = mlp()
    value = helper.make_tensor_value_info("w", TensorProto.FLOAT, [8, 4])
    model.graph.input.append(value)
    (note,) = deploykit.load(model).notes
    assert note.endswith("which runs cannot replace: 'w'")
    model.ir_version = 3
    assert not deploykit.load(model).notes


@pytest.mark.parametrize("operator", ["SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"])
def test_a_loss_with_an_unknown_reduction(operator: str) -> None:
    node = helper.make_node(operator, ["x", "labels"], ["y"], reduction="median")
    inputs = [("x", TensorProto.FLOAT, [3, 5]), ("labels", TensorProto.INT64, [3])]
    graph = helper.make_graph(
        [node],
        "loss",
        [helper.make_tensor_value_info(*port) for port in inputs],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(UnsupportedModelError, match="reduction is 'median'; it must be one of none, sum, mean"):
        deploykit.load(model)
