"""Loops whose states change their shape, and sequences that get longer, against ONNX Runtime."""

import numpy as np
import onnx
import pytest

import deploykit
from deploykit.frontends.onnx import load_onnx
from tests.frontends.onnx.harness import Check, by_onnxruntime, numbers, parse


def compare(check: Check, model: str, *runs: dict[str, np.ndarray]) -> None:
    check(model, *runs, expected=by_onnxruntime(model, *runs))


GROWING = """(float[n, 3] x, int64 m) => (float[k, 3] y, float[r, 1] rows) {
    y, rows = Loop (m, , x) <body = step (int64 i, bool c, float[j, 3] s) => (bool d, float[l, 3] t, float[1] row) {
        d = Identity(c)
        f = CastLike(i, s)
        all = ReduceSum <keepdims = 0> (s)
        one = Constant <value_ints = [0, 1]> ()
        wide = Unsqueeze(f, one)
        shape = Constant <value_ints = [1, 3]> ()
        last = Expand(wide, shape)
        more = Add(last, all)
        t = Concat <axis = 0> (s, more)
        flat = Constant <value_ints = [1]> ()
        row = Reshape(all, flat)
    }>
}"""


def test_a_state_gets_longer(check: Check) -> None:
    compare(check, GROWING, *({"x": numbers(n, 3) / 9, "m": np.array(m)} for n, m in ((1, 3), (2, 0), (3, 5))))


DECODING = """(int64[n] start, float[9, 4] table, float[4, 9] head) => (int64[n, k] y) {
    one = Constant <value_ints = [1]> ()
    first = Unsqueeze(start, one)
    most = Constant <value_int = 6> ()
    go = Constant <value = bool {1}> ()
    y = Loop (most, go, first) <body = step (int64 i, bool c, int64[n2, j] s) => (bool d, int64[n3, l] t) {
        embedded = Gather(table, s)
        mean = ReduceMean <keepdims = 0> (embedded, one)
        scores = MatMul(mean, head)
        next = ArgMax <axis = 1, keepdims = 0> (scores)
        column = Unsqueeze(next, one)
        t = Concat <axis = 1> (s, column)
        zero = Constant <value_int = 0> ()
        goes = Greater(next, zero)
        number = Cast <to = 7> (goes)
        left = ReduceMax <keepdims = 0> (number)
        d = Greater(left, zero)
    }>
}"""


def test_greedy_decoding_ends_early(check: Check) -> None:
    """The condition ends the loop before its trip count does, after a number of rounds that depends on the data."""
    runs = [
        {"start": np.arange(n), "table": numbers(9, 4, seed=seed), "head": numbers(4, 9, seed=seed + 1)}
        for n, seed in ((1, 0), (1, 8), (1, 10), (1, 31), (2, 2))
    ]
    lengths = {result[0].shape[1] for result in by_onnxruntime(DECODING, *runs)}
    assert len(lengths) > 1
    compare(check, DECODING, *runs)


WHILE = """(float[n] x) => (float[k] y) {
    most = Constant <value_int = 9223372036854775807> ()
    go = Constant <value = bool {1}> ()
    y = Loop (most, go, x) <body = step (int64 i, bool c, float[j] s) => (bool d, float[l] t) {
        t = Concat <axis = 0> (s, s)
        total = ReduceSum <keepdims = 0> (t)
        limit = Constant <value_float = 40.0> ()
        d = Less(total, limit)
    }>
}"""


def test_room_that_nothing_bounds_is_the_users_choice(check: Check) -> None:
    with pytest.raises(deploykit.UnsupportedModelError, match=r"--dim s_dim0=\.\.N"):
        load_onnx(parse(WHILE))
    run = {"x": np.array([1, 2], np.float32)}
    (expected,) = by_onnxruntime(WHILE, run)
    with check.runtime.session(parse(WHILE), dims={"n": (1, 4), "s_dim0": (1, 40)}) as session:
        np.testing.assert_array_equal(session.run(run)["y"], expected[0])
        with pytest.raises(deploykit.ShapeError, match=r"'s' of a loop has room for 40 positions"):
            session.run({"x": np.array([0.25, 0.125], np.float32)})


APPENDING = """(float[n, 3] x, float[2] w) => (float[k, 2, 3] y, float[3, l] z, float[j] e) {
    zero = Constant <value_ints = [0]> ()
    sizes = Shape <start = 0, end = 1> (x)
    count = Squeeze(sizes, zero)
    none = SequenceEmpty()
    nothing = SequenceEmpty()
    found, others = Loop (count, , none, nothing) <body = step (int64 i, bool c, seq(float) s, seq(float) o)
        => (bool d, seq(float) t, seq(float) p) {
        d = Identity(c)
        row = Gather <axis = 0> (x, i)
        one = Constant <value_ints = [1]> ()
        column = Unsqueeze(w, one)
        item = Mul(column, row)
        t = SequenceInsert(s, item)
        wide = Unsqueeze(row, one)
        p = SequenceInsert(o, wide)
    }>
    y = ConcatFromSequence <axis = 0, new_axis = 1> (found)
    z = ConcatFromSequence <axis = 1, new_axis = 0> (others)
    at = Constant <value_int = -1> ()
    last = SequenceAt(found, at)
    along = Constant <value_ints = [1]> ()
    e = ReduceSum <keepdims = 0> (last, along)
}"""


def test_a_sequence_gets_longer(check: Check) -> None:
    compare(check, APPENDING, *({"x": numbers(n, 3), "w": numbers(2, seed=n)} for n in (1, 2, 5)))


REPEATING = """(float[n, 2] x, int64[n] repeats) => (float[k, 2] y) {
    zero = Constant <value_int = 0> ()
    parts = SplitToSequence <axis = 0, keepdims = 1> (x)
    times = SplitToSequence <axis = 0, keepdims = 1> (repeats)
    count = SequenceLength(parts)
    none = SequenceEmpty()
    found = Loop (count, , none) <body = step (int64 i, bool c, seq(float) s) => (bool d, seq(float) t) {
        d = Identity(c)
        part = SequenceAt(parts, i)
        often = SequenceAt(times, i)
        two = Constant <value_ints = [2]> ()
        shape = Concat <axis = 0> (often, two)
        many = Expand(part, shape)
        t = SequenceInsert(s, many)
    }>
    y = ConcatFromSequence <axis = 0> (found)
}"""


def test_items_of_different_sizes_are_joined(check: Check) -> None:
    """The form in which PyTorch's older exporter writes `repeat_interleave`."""
    runs = [{"x": numbers(n, 2), "repeats": np.arange(1, n + 1)} for n in (1, 2, 4)]
    with check.runtime.session(parse(REPEATING), dims={"n": (1, 4), "s_dim0": (1, 16)}) as session:
        for run in runs:
            expected = np.repeat(run["x"], run["repeats"], axis=0)
            np.testing.assert_array_equal(session.run(run)["y"], expected)


NESTED = """(float[n] x, int64 m) => (float[k] y) {
    y = Loop (m, , x) <body = outer (int64 i, bool c, float[j] s) => (bool d, float[l] t) {
        d = Identity(c)
        two = Constant <value_int = 2> ()
        t = Loop (two, , s) <body = inner (int64 a, bool b, float[p] u) => (bool e, float[q] v) {
            e = Identity(b)
            top = ReduceMax <keepdims = 1> (u)
            v = Concat <axis = 0> (top, u)
        }>
    }>
}"""


def test_loops_within_loops(check: Check) -> None:
    compare(check, NESTED, *({"x": numbers(n), "m": np.array(m)} for n, m in ((1, 2), (3, 1), (2, 4))))


def test_a_sequence_of_unknown_length_is_no_output() -> None:
    text = "(float[n, 2] x) => (seq(float) y) { y = SplitToSequence <axis = 0, keepdims = 0> (x) }"
    with pytest.raises(deploykit.UnsupportedModelError, match="make it a tensor by ConcatFromSequence"):
        load_onnx(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> m {text}'))
