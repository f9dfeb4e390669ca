"""Reductions with symbolic dims, and with axes that are known only at run time."""

import numpy as np
import pytest

from tests.frontends.onnx.harness import Check, numbers

KINDS = ["Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSumExp", "SumSquare"]
SIZES = [(1, 1, 1), (2, 5, 3), (4, 1, 17)]


def test_known_axes(check: Check) -> None:
    axes = [("[1]", 1, "n, 1, k"), ("[0, 2]", 0, "m"), ("[-1]", 0, "n, m")]
    outputs = ", ".join(f"float[{shape}] y{kind}{i}" for kind in KINDS for i, (_, _, shape) in enumerate(axes))
    nodes = "\n".join(
        f"y{kind}{i} = Reduce{kind} <keepdims = {keep}> (x, a{i})"
        for kind in KINDS
        for i, (_, keep, _) in enumerate(axes)
    )
    constants = "\n".join(f"a{i} = Constant <value_ints = {a}> ()" for i, (a, _, _) in enumerate(axes))
    model = f"(float[n, m, k] x) => ({outputs}) {{ {constants} {nodes} }}"
    check(model, *({"x": numbers(*size)} for size in SIZES), rtol=1e-4)


@pytest.mark.parametrize(("keepdims", "shape"), [(1, "p, q, r"), (0, "p")])
def test_runtime_axes(check: Check, keepdims: int, shape: str) -> None:
    outputs = ", ".join(f"float[{shape}] y{kind}" for kind in ("Sum", "Mean", "Max", "LogSumExp"))
    nodes = "\n".join(
        f"y{kind} = Reduce{kind} <keepdims = {keepdims}> (x, a)" for kind in ("Sum", "Mean", "Max", "LogSumExp")
    )
    model = f"(float[n, m, k] x, int64[2] a) => ({outputs}) {{ {nodes} }}"
    runs = [{"x": numbers(*size), "a": np.array(a)} for size, a in zip(SIZES, ([0, 1], [-1, 1], [2, 0]), strict=True)]
    check(model, *runs, rtol=1e-4)


def test_without_axes(check: Check) -> None:
    model = """(float[n, m] x, int64[0] none) => (float[n, m] a, float b, float[1, 1] c) {
        a = ReduceSum <noop_with_empty_axes = 1> (x, none)
        b = ReduceMax <keepdims = 0> (x)
        c = ReduceMean(x, none)
    }"""
    check(
        model, {"x": numbers(3, 4), "none": np.zeros(0, np.int64)}, {"x": numbers(1, 1), "none": np.zeros(0, np.int64)}
    )


def test_an_empty_axis_reduces_to_the_identity(check: Check) -> None:
    model = """(float[n, 0] x, bool[n, 0] c) => (float[n] a, float[n] b, float[n] d, float[n] e, bool[n] f) {
        axes = Constant <value_ints = [1]> ()
        a = ReduceSum <keepdims = 0> (x, axes)
        b = ReduceProd <keepdims = 0> (x, axes)
        d = ReduceMax <keepdims = 0> (x, axes)
        e = ReduceMin <keepdims = 0> (x, axes)
        f = ReduceMax <keepdims = 0> (c, axes)
    }"""
    infinity = np.full(3, np.inf, np.float32)
    expected = [np.zeros(3, np.float32), np.ones(3, np.float32), -infinity, infinity, np.zeros(3, bool)]
    check(model, {"x": np.zeros((3, 0), np.float32), "c": np.zeros((3, 0), bool)}, expected=[expected])


def test_other_dtypes(check: Check) -> None:
    model = """(int32[n, m] i, float16[n, m] h, bool[n, m] b) =>
        (int32[n] a, int32[n] c, int32[n] d, float16[n] e, float16[n] f, bool[n] g) {
        axes = Constant <value_ints = [1]> ()
        a = ReduceSum <keepdims = 0> (i, axes)
        c = ReduceMin <keepdims = 0> (i, axes)
        d = ReduceL1 <keepdims = 0> (i, axes)
        e = ReduceSum <keepdims = 0> (h, axes)
        f = ReduceMean <keepdims = 0> (h, axes)
        g = ReduceMin <keepdims = 0> (b, axes)
    }"""
    rng = np.random.default_rng(0)
    feeds = {
        "i": rng.integers(-9, 9, (3, 7)).astype(np.int32),
        "h": np.ones((3, 7), np.float16) * np.float16(0.1),
        "b": rng.integers(0, 2, (3, 7)).astype(bool),
    }
    check(model, feeds, rtol=2e-3)


@pytest.mark.parametrize("last", [0, 1])
def test_positions_of_extremes(check: Check, last: int) -> None:
    model = f"""(float[n, m] x) => (int64[1, m] a, int64[n] b) {{
        a = ArgMax <axis = 0, select_last_index = {last}> (x)
        b = ArgMin <axis = -1, keepdims = 0, select_last_index = {last}> (x)
    }}"""
    draw = np.random.default_rng(last).integers(0, 3, (6, 9)).astype(np.float32)
    unknown = np.full((2, 9), np.nan, np.float32)
    check(model, {"x": draw}, {"x": draw[:1, :1]}, {"x": unknown})


def test_running_totals_along_runtime_axes(check: Check) -> None:
    model = """(float[n, m] x, int64 axis) => (float[n, m] a, float[n, m] b, float[n, m] c) {
        a = CumSum(x, axis)
        b = CumSum <exclusive = 1> (x, axis)
        c = CumSum <reverse = 1, exclusive = 1> (x, axis)
    }"""
    runs = [{"x": numbers(n, m), "axis": np.array(axis)} for n, m, axis in ((1, 1, 0), (3, 5, 0), (4, 2, -1))]
    check(model, *runs)


@pytest.mark.parametrize(("opset", "axis"), [(11, 1), (13, 1), (13, -1)])
def test_softmax_before_and_since_opset_13(check: Check, opset: int, axis: int) -> None:
    model = f"""(float[n, m, k] x) => (float[n, m, k] a, float[n, m, k] b, float[n, m, k] c) {{
        a = Softmax <axis = {axis}> (x)
        b = LogSoftmax <axis = {axis}> (x)
        c = Hardmax <axis = {axis}> (x)
    }}"""
    runs = [{"x": numbers(*size)} for size in SIZES]
    expected = None
    if opset < 13:
        expected = [_as_matrix(run["x"]) for run in runs]
    check(model, *runs, opset=opset, expected=expected or ())


def _as_matrix(x: np.ndarray) -> list[np.ndarray]:
    rows = x.reshape(x.shape[0], -1).astype(np.float64)
    powers = np.exp(rows - rows.max(1, keepdims=True))
    soft = powers / powers.sum(1, keepdims=True)
    hard = np.eye(rows.shape[1])[rows.argmax(1)]
    return [y.reshape(x.shape).astype(np.float32) for y in (soft, np.log(soft), hard)]
