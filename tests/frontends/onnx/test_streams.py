"""Models that take new frames only, next to ONNX Runtime on all frames at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper, parser

import deploykit
from deploykit.checks.reference import Runner
from deploykit.checks.streamed import streamed_form
from deploykit.errors import ShapeError, UnsupportedModelError, UsageError
from deploykit.sessions.session import Session
from tests.frontends.onnx.chains import Chain, grow, reference, streamed
from tests.runtimes import Runtime

LAYOUTS = ((3, 2), (4, 2), (4, 3))
"""The rank of tensors, and the axis of frames."""


def model(text: str, **weights: object) -> onnx.ModelProto:
    """A model in ONNX's text form. A weight is an array of integers, or the shape of random numbers."""
    random = np.random.default_rng(0)
    found = parser.parse_model(f'<ir_version: 9, opset_import: ["": 17]> g {text}')
    for name, given in weights.items():
        numbers = isinstance(given, tuple) and random.standard_normal(given) / max(np.sqrt(np.prod(given[1:])), 1)
        array = np.asarray(given if numbers is False else numbers.astype(np.float32))
        found.graph.initializer.append(numpy_helper.from_array(array, name))
    return found


def axes(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def compare(session: Session, source: onnx.ModelProto, sizes: Mapping[str, int], seed: int = 0) -> None:
    """Run a stream in parts of these sizes, and its model on all frames."""
    form = streamed_form(session.manifest, sizes, exact=True)
    assert form is not None
    random, shapes = np.random.default_rng(seed), {}
    for port in form.longer(session.manifest).inputs:
        shapes[port.name] = [sizes.get(str(n), n) for n in port.shape]
    given = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    runner = onnx_runner(source)
    expected, found = form.around(runner)(given), form.run(session, given)
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert array.size
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-5, err_msg=f"{name} at {sizes}")


def onnx_runner(source: onnx.ModelProto) -> Runner:
    session = onnxruntime.InferenceSession(source.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    return lambda given: dict(zip(names, session.run(names, given), strict=True))


def check_chain(runtime: Runtime, seed: int, padding: Sequence[bool], sizes: Sequence[Sequence[int]]) -> None:
    """A random chain in parts of these sizes, in hops; `padding` says which groups of its layers are causal."""
    random = np.random.default_rng(seed)
    rank, axis = LAYOUTS[seed % len(LAYOUTS)]
    chain = Chain(random, rank, axis)
    hop = 1
    for causal in padding:
        hop *= grow(chain, causal=causal, layers=int(random.integers(1, 5 // len(padding) + 1)))
    source = chain.model()
    x = chain.data(2, hop * max(12, 36 // hop))
    expected = reference(source, x)
    steps = any(node.op_type == "QuantizeLinear" for node in source.graph.node)
    bounds = {"batch": (1, 2), "time": (1, 5 * hop)}
    with runtime.session(source, dims=bounds, stream="time") as session:
        assert session.manifest.stream is not None
        assert session.manifest.stream.hop == hop
        for parts in sizes:
            found = streamed(session, x, axis, [hop * n for n in parts], {"batch": 2})
            joined = np.concatenate(found, axis)
            assert joined.shape == expected.shape
            np.testing.assert_allclose(joined, expected, rtol=1e-3, atol=0.1 if steps else 1e-4)
        if hop > 1:
            with pytest.raises(ShapeError, match=f"has to be a multiple of {hop}, found {hop + 1}"):
                streamed(session, x, axis, [hop + 1], {"batch": 2})


@pytest.mark.sampled(part=12)
@pytest.mark.parametrize("seed", range(24))
def test_causal_chains(runtime: Runtime, seed: int) -> None:
    check_chain(runtime, seed, [True], sizes=[[1], [3], [1, 5, 2]])


@pytest.mark.sampled(part=8)
@pytest.mark.parametrize("seed", range(100, 116))
def test_chains_without_padding(runtime: Runtime, seed: int) -> None:
    check_chain(runtime, seed, [False], sizes=[[1], [5], [2, 1]])


@pytest.mark.sampled(part=8)
@pytest.mark.parametrize("seed", range(200, 212))
def test_chains_with_padding_behind_layers_without(runtime: Runtime, seed: int) -> None:
    """Frames that are of no full run are zeros where later layers pad."""
    check_chain(runtime, seed, [False, True, False, True], sizes=[[1], [5]])


CLASSIFIER = "(float[batch,1,49,10] x) => (float[batch,4] y)"

WINDOWS = {
    "dscnn": (
        model(
            CLASSIFIER + " { a = Conv<strides=[2,2]>(x,w1,b1) r = Relu(a) b = Conv<group=6>(r,w2) s = Relu(b)"
            " c = Conv(s,w3) t = Relu(c) p = GlobalAveragePool(t) f = Flatten(p) z = Gemm<transB=1>(f,w4,b4)"
            " y = Softmax(z) }",
            w1=(6, 1, 10, 4), b1=(6,), w2=(6, 1, 3, 3), w3=(8, 6, 1, 1), w4=(4, 8), b4=(4,),
        ),
        "x:2",
    ),
    "leftover": (
        model(
            "(float[1,1,50,10] x) => (float[1,4] y) { a = Conv<strides=[2,2]>(x,w1) r = Relu(a)"
            " b = Conv<group=6,strides=[2,1]>(r,w2) p = ReduceMean<axes=[2,3],keepdims=0>(b)"
            " y = Gemm<transB=1>(p,w3) }",
            w1=(6, 1, 5, 4), w2=(6, 1, 3, 3), w3=(4, 6),
        ),
        "x:2",
    ),
    "causal": (
        model(
            "(float[1,3,48] x) => (float[1,4] y) { a = Conv<strides=[2],pads=[3,0]>(x,w1) r = Relu(a)"
            " b = Conv<pads=[2,0]>(r,w2) p = GlobalAveragePool(b) f = Flatten(p) y = Gemm<transB=1>(f,w3) }",
            w1=(6, 3, 5), w2=(6, 6, 3), w3=(4, 6),
        ),
        "x:2",
    ),
    "causal-odd": (
        model(
            "(float[1,3,47] x) => (float[1,6,1] y) { a = Conv<strides=[2],pads=[3,0]>(x,w1) r = Relu(a)"
            " b = Conv<pads=[2,0]>(r,w2) y = GlobalMaxPool(b) }",
            w1=(6, 3, 5), w2=(6, 6, 3),
        ),
        "x:2",
    ),
    "mean": (
        model(
            "(float[batch,3,time] x) => (float[batch,6] y) { a = Conv<dilations=[2],strides=[2]>(x,w) r = Relu(a)"
            " y = ReduceMean<axes=[2],keepdims=0>(r) }",
            w=(6, 3, 5),
        ),
        "time=40",
    ),
    "pool": (
        model(
            "(float[1,3,40] x) => (float[1,6] y) { a = Conv(x,w) r = Relu(a)"
            " p = MaxPool<kernel_shape=[36],strides=[36]>(r) y = Flatten(p) }",
            w=(6, 3, 5),
        ),
        "x:2",
    ),
    "flatten": (
        model(
            "(float[batch,3,40] x) => (float[batch,4] y) { a = Conv<strides=[4]>(x,w) r = Relu(a) f = Flatten(r)"
            " y = Gemm(f,v) }",
            w=(6, 3, 5), v=(54, 4),
        ),
        "x:2",
    ),
    "shapes": (
        model(
            "(float[1,40,3] x) => (float[1,4] y) { s = Reshape(x,one) a = Conv(s,w) r = Relu(a) q = Reshape(r,flat)"
            " m = ReduceMax<axes=[2],keepdims=0>(q) y = Gemm(m,v) }",
            w=(6, 1, 5, 3), v=(6, 4), one=axes(1, 1, 40, 3), flat=axes(1, -1, 36),
        ),
        "x:1",
    ),
    "kept-shapes": (
        model(
            "(float[1,40,6] x) => (float[1,40,6] y) { s = Reshape(x,apart) r = Relu(s) y = Reshape(r,together) }",
            apart=axes(1, 40, 2, 3), together=axes(-1, 40, 6),
        ),
        "x:1",
    ),
    "attention": (
        model(
            "(float[1,20,4] x) => (float[1,20,4] y) { k = MatMul(x,wk) t = Transpose<perm=[0,2,1]>(k) q = MatMul(x,wq)"
            " s = MatMul(q,t) p = Softmax(s) y = MatMul(p,x) }",
            wk=(4, 4), wq=(4, 4),
        ),
        "x:1",
    ),
    "excitation": (
        model(
            "(float[1,3,20] x) => (float[1,3] y) { a = Conv(x,w) g = GlobalAveragePool(a) s = Sigmoid(g) m = Mul(a,s)"
            " p = GlobalAveragePool(m) y = Flatten(p) }",
            w=(3, 3, 3),
        ),
        "x:2",
    ),
    "places": (
        model(
            "(float[1,20,4] x) => (float[1,4] y) { a = Add(x,p) y = ReduceMean<axes=[1],keepdims=0>(a) }",
            p=(1, 20, 4),
        ),
        "x:1",
    ),
}  # fmt: skip

SEQUENCES = {
    "lstm": model(
        "(float[time,batch,3] x) => (float[time,batch,4] y, float[1,batch,5] h, float[1,batch,5] c)"
        " { Y,h,c = LSTM<hidden_size=5>(x,w,r,b) s = Squeeze(Y,one) y = MatMul(s,v) }",
        w=(1, 20, 3), r=(1, 20, 5), b=(1, 40), one=axes(1), v=(5, 4),
    ),
    "gru": model(
        "(float[batch,time,3] x) => (float[batch,4] y) { t = Transpose<perm=[1,0,2]>(x)"
        " Y,h = GRU<hidden_size=5,linear_before_reset=1>(t,w,r,b,,zeros) s = Squeeze(h,first) y = Gemm(s,v) }",
        w=(1, 15, 3), r=(1, 15, 5), b=(1, 30), first=axes(0), v=(5, 4), zeros=np.zeros((1, 2, 5), np.float32),
    ),
    "rnn": model(
        "(float[batch,3,time] x) => (float[batch,5] y) { a = Conv<pads=[2,0]>(x,k) t = Transpose<perm=[2,0,1]>(a)"
        " Y,h = RNN<hidden_size=5>(t,w,r) s = Squeeze(Y,one) y = Gather<axis=0>(s,last) }",
        k=(3, 3, 3), w=(1, 5, 3), r=(1, 5, 5), one=axes(1), last=np.array(-1),
    ),
    "newest": model(
        "(float[batch,3,time] x) => (float[batch,6,1] y) { a = Conv<dilations=[2]>(x,w) r = Relu(a)"
        " b = Conv<pads=[2,0]>(r,v) y = Slice(b,start,end,axis) }",
        w=(6, 3, 5), v=(6, 6, 3), start=axes(-1), end=axes(2**62), axis=axes(2),
    ),
    "residual": model(
        "(float[batch,3,time] x) => (float[batch,3,t] y) { a = Conv<dilations=[2]>(x,w) s = Slice(x,start,end,axis)"
        " y = Add(a,s) }",
        w=(3, 3, 3), start=axes(4), end=axes(2**62), axis=axes(2),
    ),
    "centred": model(
        "(float[batch,3,time] x) => (float[batch,3,t] y) { a = Conv(x,w) s = Slice(x,start,end,axis) y = Add(a,s) }",
        w=(3, 3, 3), start=axes(1), end=axes(-1), axis=axes(2),
    ),
    "residual-first": model(
        "(float[batch,3,time] x) => (float[batch,3,t] y) { s = Slice(x,start,end,axis) a = Conv<dilations=[2]>(x,w)"
        " y = Add(a,s) }",
        w=(3, 3, 3), start=axes(4), end=axes(2**62), axis=axes(2),
    ),
    "padded-residual": model(
        "(float[batch,1,time,4] x) => (float[batch,1,time,4] y) { p = Pad(x,pads) a = Conv(p,w) y = Add(x,a) }",
        w=(1, 1, 3, 3), pads=axes(0, 0, 2, 1, 0, 0, 0, 1),
    ),
    "largest": model(
        "(float[batch,3,time] x) => (float[batch,time] y, float[batch,1,time] z) { a = Conv<pads=[2,0]>(x,w)"
        " i = ArgMax<axis=1,keepdims=0>(a) y = Cast<to=1>(i) z = ReduceLogSumExp<axes=[1]>(a) }",
        w=(3, 3, 3),
    ),
    "shapes": model(
        "(float[batch,time,4] x) => (float[batch,time,4] y) { s = Shape<end=2>(x) t = Concat<axis=0>(s,pair)"
        " a = Reshape(x,t) r = Tanh(a) u = Concat<axis=0>(s,all) y = Reshape(r,u) }",
        pair=axes(2, 2), all=axes(4),
    ),
    "softmax": model(
        "(float[batch,time,3] x) => (float[batch,time,4] y) { a = MatMul(x,w) b = LayerNormalization(a,n,n)"
        " s = Softmax<axis=-1>(b) y = Identity(s) }",
        w=(3, 4), n=(4,),
    ),
    "sound": model(
        "(float[batch,1,time] x) => (float[batch,5,t] y) { a = Conv<strides=[16]>(x,w) r = Abs(a)"
        " b = Conv<pads=[2,0]>(r,v) m = MaxPool<kernel_shape=[3],pads=[2,0]>(b) y = Relu(m) }",
        w=(8, 1, 40), v=(5, 8, 3),
    ),
    "subsampled": model(
        "(float[batch,3,time] x) => (float[batch,4,t] y) { a = Conv(x,w) y = Conv<strides=[3]>(a,v) }",
        w=(3, 3, 2), v=(4, 3, 1),
    ),
}  # fmt: skip


@pytest.mark.sampled(part=12)
@pytest.mark.parametrize("case", WINDOWS)
def test_results_of_a_window(runtime: Runtime, case: str) -> None:
    """Each is that of the model for the last frames, and there is none before there are as many."""
    source, stream = WINDOWS[case]
    dims = {"time" if stream.startswith("time") else "frames": (1, 20)}
    dims |= {"batch": (1, 3)} if "batch" in str(source.graph.input) else {}
    with runtime.session(source, dims=dims, stream=stream) as session:
        entry = session.manifest.stream
        assert entry is not None
        for batch, part in ((1, entry.hop), (3, 4 * entry.hop), (2, entry.hop)):
            if case == "causal-odd" and part != entry.hop:
                continue  # no run ends with its first window
            compare(session, source, {"batch": batch, entry.dim: part})


@pytest.mark.sampled(part=8)
@pytest.mark.parametrize("case", SEQUENCES)
def test_results_of_all_frames(runtime: Runtime, case: str) -> None:
    source = SEQUENCES[case]
    with runtime.session(source, dims={"batch": (2, 2), "time": (1, 64)}, stream="time") as session:
        entry = session.manifest.stream
        assert entry is not None
        for part in (entry.hop, 3 * entry.hop):
            compare(session, source, {"batch": 2, "time": part})


@pytest.mark.parametrize("part", [2, 6])
def test_a_fixed_number_of_new_frames(runtime: Runtime, part: int) -> None:
    source, stream = WINDOWS["dscnn"]
    with runtime.session(source, dims={"batch": 1, "frames": part}, stream=stream) as session:
        assert session.manifest.dims == () or all(dim.name != "frames" for dim in session.manifest.dims)
        compare(session, source, {"batch": 1})


@pytest.mark.parametrize("case", SEQUENCES)
def test_a_fixed_number_of_frames_of_all(case: str, tmp_path: Path) -> None:
    """Sizes that are computed from the number of new frames are numbers then."""
    part = 48
    deploykit.build(SEQUENCES[case], "host", {"batch": 2, "time": part}, tmp_path / "out", stream="time", check=False)
    with deploykit.open(tmp_path / "out") as session:
        compare(session, SEQUENCES[case], {"batch": 2})


def test_notes_say_what_a_run_takes(tmp_path: Path) -> None:
    source, stream = WINDOWS["causal"]
    deploykit.build(source, "host", None, tmp_path / "out", stream=stream)
    later = "later ones have frames where the model has padding in front of its window"
    assert deploykit.open(tmp_path / "out").manifest.notes == (
        "a run takes a multiple of 2 new frames, 'frames'",
        "'y' has no rows until there have been 48 frames",
        "GlobalAveragePool 'p' reads all frames of the window in each run",
        f"'y' is that of the model for the first window of 48 frames; {later}",
    )


def test_room_for_results_of_a_window_is_known(tmp_path: Path) -> None:
    source, stream = WINDOWS["dscnn"]
    deploykit.build(source, "embedded", {"batch": 2, "frames": 2}, tmp_path / "out", stream=stream)
    assert "#define G_OUTPUT_Y_BYTES 32\n" in (tmp_path / "out" / "model.h").read_text()


def test_a_chain_of_8_bit_integers_keeps_integers(tmp_path: Path) -> None:
    chain = Chain(np.random.default_rng(5))
    chain.quantised()
    chain.conv(3, pads=(2, 0))
    deploykit.build(chain.model(), "host", {"batch": 1}, tmp_path / "out", stream="time")
    manifest = deploykit.open(tmp_path / "out").manifest
    assert manifest.states is not None
    assert [(state.dtype, state.shape) for state in manifest.states.tensors] == [("int8", (1, 3, 2))]


def test_a_reset_starts_again(tmp_path: Path) -> None:
    deploykit.build(SEQUENCES["lstm"], "host", None, tmp_path / "out", stream="time", check=False)
    session = deploykit.open(tmp_path / "out")
    x = np.random.default_rng(0).standard_normal((4, 1, 3)).astype(np.float32)
    first, second = session(x=x)["y"], session(x=x)["y"]
    assert not np.array_equal(first, second)
    session.reset()
    np.testing.assert_array_equal(session(x=x)["y"], first)


def test_numbers_that_are_none_stay_where_they_are(tmp_path: Path) -> None:
    """A frame of NaN and infinities reaches the outputs that read it, and no others."""
    source = model("(float[1,2,time] x) => (float[1,2,time] y) { y = Conv<pads=[2,0],group=2>(x,w) }", w=(2, 1, 3))
    deploykit.build(source, "host", None, tmp_path / "out", stream="time", check=False)
    x = np.zeros((1, 2, 8), np.float32)
    x[0, 0, 3], x[0, 1, 4] = np.nan, np.inf
    expected = reference(source, x)
    found = np.concatenate(streamed(deploykit.open(tmp_path / "out"), x, 2, [1], {}), 2)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    assert np.isnan(expected[0, 0]).sum() == 3


def test_the_largest_of_infinities_does_not_see_padding(tmp_path: Path) -> None:
    source = model("(float[1,1,time] x) => (float[1,1,time] y) { y = MaxPool<kernel_shape=[3],pads=[2,0]>(x) }")
    deploykit.build(source, "host", None, tmp_path / "out", stream="time", check=False)
    x = np.array([[[-np.inf, -3, -np.inf, -np.inf, -np.inf, np.nan, 2, 1, 0]]], np.float32)
    found = np.concatenate(streamed(deploykit.open(tmp_path / "out"), x, 2, [1, 2], {}), 2)
    expected = [-np.inf, -3, -3, -3, -np.inf, np.nan, np.nan, np.nan, 2]
    np.testing.assert_array_equal(found[0, 0], np.array(expected, np.float32))


REFUSED = {
    "Conv 'a' pads behind the last frame": "{ a = Conv<pads=[1,1]>(x,w) y = Relu(a) }",
    "auto_pad SAME_UPPER pads behind the last frame": '{ y = Conv<auto_pad="SAME_UPPER">(x,w) }',
    "GlobalAveragePool .* as in --stream time=50": "{ y = GlobalAveragePool(x) }",
    "InstanceNormalization .* it mixes frames": "{ y = InstanceNormalization(x,n,n) }",
    "CumSum .* it mixes frames": "{ y = CumSum(x,axis) }",
    "Pad .* with something else than zeros": '{ p = Pad<mode="edge">(x,pads) y = Conv(p,w) }',
    "it computes with the number of frames": "{ s = Shape(x) f = Cast<to=1>(s) m = ReduceMax(f) y = Div(x,m) }",
    "a stream can only have layers that read forward": "{ t = Transpose<perm=[2,0,1]>(x)"
    ' y = LSTM<hidden_size=5,direction="bidirectional">(t,w2,r2) }',
    "its first state is given": "{ t = Transpose<perm=[2,0,1]>(x) y = LSTM<hidden_size=5>(t,w1,r1,,,h,h) }",
    "its means leave padding out": "{ y = AveragePool<kernel_shape=[3],pads=[2,0]>(x) }",
    "ceil_mode": "{ y = MaxPool<kernel_shape=[3],strides=[2],ceil_mode=1>(x) }",
    "padded in front of an operator that is no convolution": "{ p = Pad(x,pads) y = Sigmoid(p) }",
    "control flow that depends on frames": "{ t = ReduceSum(w) b = Cast<to=9>(t) y = If(b)<then_branch ="
    " g1 () => (float[1,3,time] u) { u = Relu(x) }, else_branch = g2 () => (float[1,3,time] u) { u = Abs(x) }> }",
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_no_stream_can_compute_is_refused(reason: str, tmp_path: Path) -> None:
    source = model(
        "(float[1,3,time] x) => (float y) " + REFUSED[reason],
        w=(3, 3, 3), n=(3,), axis=np.array(2), pads=axes(0, 0, 2, 0, 0, 0), w1=(1, 20, 3), r1=(1, 20, 5),
        w2=(2, 20, 3), r2=(2, 20, 5), h=(1, 1, 5),
    )  # fmt: skip
    with pytest.raises(UnsupportedModelError, match=f"(?s){reason}"):
        deploykit.build(source, "host", None, tmp_path / "out", stream="time")


def test_softmax_over_channels_and_frames_is_refused(tmp_path: Path) -> None:
    """Before opset 13, Softmax over axis 1 takes all axes behind it in."""
    source = model("(float[1,3,time] x) => (float[1,3,time] y) { y = Softmax<axis=1>(x) }")
    deploykit.build(source, "host", None, tmp_path / "now", stream="time")
    source.opset_import[0].version = 11
    with pytest.raises(UnsupportedModelError, match="it mixes frames"):
        deploykit.build(source, "host", None, tmp_path / "then", stream="time")


@pytest.mark.parametrize(
    ("stream", "dims", "reason"),
    [
        ("tim", None, "no input has one axis 'tim' to stream; its dims are batch, time"),
        ("y:2", None, "no input 'y' to stream; the model has 'x'"),
        ("x:5", None, "'x' has 3 axes"),
        ("time=many", None, "a window is a number of frames"),
        ("time", {"time": 3}, "is a multiple of 2: say --dim time=4"),
        ("time", {"tine": 2}, "no dim named tine"),
    ],
)
def test_what_a_user_asks_for_wrongly(stream: str, dims: dict[str, int] | None, reason: str, tmp_path: Path) -> None:
    source = model(
        "(float[batch,3,time] x) => (float[batch,3,t] y) { y = Conv<strides=[2],pads=[1,0]>(x,w) }", w=(3, 3, 3)
    )
    with pytest.raises(UsageError, match=reason):
        deploykit.build(source, "host", dims, tmp_path / "out", stream=stream)


def test_verify_and_check_compare_with_the_full_run(tmp_path: Path) -> None:
    source, stream = WINDOWS["leftover"]
    onnx.save(source, tmp_path / "m.onnx")
    deploykit.build(tmp_path / "m.onnx", "host", None, tmp_path / "out", stream=stream, check=True)
    report = deploykit.verify(tmp_path / "out", tmp_path / "m.onnx", at={"frames": (4, 12)})
    assert report.within
    assert [check.sizes for check in report.checks] == [{"frames": 4}, {"frames": 12}]
    changed = onnx.load(tmp_path / "m.onnx")
    weight = changed.graph.initializer[1]
    weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) * np.float32(1.01), weight.name))
    onnx.save(changed, tmp_path / "other.onnx")
    assert deploykit.verify(tmp_path / "out", tmp_path / "other.onnx", at={"frames": 4}).wrong
