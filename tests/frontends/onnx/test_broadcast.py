"""Broadcasting of sizes that are known only at run time, with numbers and with each other."""

import numpy as np
import pytest

import deploykit
from deploykit.compiler.dims import to_text
from tests.frontends.onnx.harness import Check, by_onnxruntime, each, numbers, parse

CALLS = (
    *(f"{name}(x, y)" for name in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Mean", "Sum")),
    "Sum(x, y, x)",
    "Where(c, x, y)",
    "Where(c, y, x)",
)
TESTS = ("Equal(x, y)", "Less(x, y)", "GreaterOrEqual(y, x)", "And(c, d)", "Xor(d, c)")

LAYOUTS = {
    ("n", "5"): [((1,), (5,)), ((5,), (5,))],
    ("5", "n"): [((5,), (1,)), ((5,), (5,))],
    ("n,m", "5"): [((1, 1), (5,)), ((3, 5), (5,)), ((2, 1), (5,))],
    ("n,5", "m"): [((1, 5), (1,)), ((4, 5), (5,)), ((2, 5), (1,))],
    ("n,4", "3,m"): [((1, 4), (3, 1)), ((3, 4), (3, 4)), ((3, 4), (3, 1))],
    ("n", "m"): [((1,), (1,)), ((7,), (1,)), ((1,), (7,)), ((7,), (7,))],
    ("a,b", "c,d"): [((1, 3), (2, 1)), ((2, 1), (2, 3)), ((1, 1), (1, 1)), ((2, 3), (1, 1))],
    ("n,1,m", "5,n"): [((2, 1, 1), (5, 2)), ((1, 1, 3), (5, 1)), ((3, 1, 3), (5, 3))],
    ("n", "n"): [((1,), (1,)), ((6,), (6,))],
}
"""The shapes of `x` and `y` in each run, for each pair of declared shapes."""

SLOPES = [("n", "5"), ("n,4", "3,m"), ("n", "m"), ("a,b", "c,d"), ("n,1,m", "5,n")]
"""Declared shapes with which `y` may be larger than `x`, so that it cannot be a slope."""


@pytest.mark.sampled(part=6)
@pytest.mark.parametrize("layout", LAYOUTS, ids=" ".join)
def test_elementwise_operators_broadcast_runtime_sizes(check: Check, layout: tuple[str, str]) -> None:
    x, y = layout
    rank = max(len(x.split(",")), len(y.split(",")))
    inputs = f"float[{x}] x, float[{y}] y, bool[{x}] c, bool[{y}] d"
    runs = []
    for one, other in LAYOUTS[layout]:
        a, b = numbers(*one, seed=1), numbers(*other, seed=2)
        runs.append({"x": a, "y": b, "c": a > 0, "d": b > 0})
    calls = [*CALLS, *([] if layout in SLOPES else ["PRelu(x, y)"])]
    for model in (each(inputs, calls, rank), each(inputs, TESTS, rank, dtype="bool")):
        check(model, *runs, expected=by_onnxruntime(model, *runs))


def test_products_broadcast_runtime_sizes(check: Check) -> None:
    model = """(float[n,2,3] x, float[5,3,m] y, float[k,q] w, float[4,3] a, float[3,6] b) =>
        (float[r0,r1,r2] batched, float[r3,r4] whole, float[r5,r6,r7] by_label) {
        batched = MatMul(x, y)
        whole = Gemm(a, b, w)
        by_label = Einsum <equation = "...ij,...jk->...ik"> (x, y)
    }"""
    runs = [
        {
            "x": numbers(n, 2, 3),
            "y": numbers(5, 3, m, seed=1),
            "w": numbers(*addend, seed=2),
            "a": numbers(4, 3, seed=3),
            "b": numbers(3, 6, seed=4),
        }
        for n, m, addend in ((1, 1, (1, 1)), (5, 7, (4, 1)), (1, 2, (1, 6)), (5, 1, (4, 6)))
    ]
    check(model, *runs, expected=by_onnxruntime(model, *runs))


def test_expand_and_concat_take_runtime_sizes_that_must_be_a_number(check: Check) -> None:
    model = """(float[n,2] x, float[5,m] y, int64[1] size) => (float[a,b] wide, float[c,d] joined, float[e,2] grown) {
        five = Constant <value = int64[2] {5, 2}> ()
        wide = Expand(x, five)
        joined = Concat <axis = 1> (wide, y)
        two = Constant <value = int64[1] {2}> ()
        shape = Concat <axis = 0> (size, two)
        grown = Expand(x, shape)
    }"""
    runs = [
        {"x": numbers(n, 2), "y": numbers(5, m, seed=1), "size": np.array([size])}
        for n, m, size in ((1, 1, 1), (5, 3, 5), (1, 2, 7), (5, 2, 1))
    ]
    check(model, *runs, expected=by_onnxruntime(model, *runs))


def test_further_operators_take_results_of_undecided_size(check: Check) -> None:
    """Elementwise operators, reductions, products and reshapes take sizes that are chosen at run time."""
    model = """(float[n,m] x, float[p,q] y, float[q,3] w) => (float[a,b] z, float[c] s, float[d,3] o, float[e] flat) {
        z = Add(x, y)
        zero = Constant <value = int64[1] {0}> ()
        s = ReduceSum <keepdims = 0> (z, zero)
        twice = Mul(z, y)
        o = MatMul(y, w)
        minus = Constant <value = int64[1] {-1}> ()
        flat = Reshape(twice, minus)
    }"""
    runs = [
        {"x": numbers(n, m), "y": numbers(p, q, seed=1), "w": numbers(q, 3, seed=2)}
        for n, m, p, q in ((1, 1, 1, 1), (2, 3, 2, 3), (1, 3, 5, 1), (4, 1, 1, 7), (3, 1, 3, 5))
    ]
    check(model, *runs, expected=by_onnxruntime(model, *runs))


@pytest.mark.parametrize("call", ["Add(x, y)", "Where(c, x, y)", "Mul(y, x)"])
def test_sizes_that_do_not_broadcast_are_named(check: Check, call: str) -> None:
    model = parse(f"(float[n] x, float[5] y, bool[1] c) => (float[m] z) {{ z = {call} }}")
    wanted = r"axis -1 has (3|5) elements in '[xy]', (3|5) in '[xy]'"
    with check.runtime.session(model) as session, pytest.raises(deploykit.ShapeError, match=wanted):
        session.run({"x": numbers(3), "y": numbers(5), "c": np.array([True])})


def test_numbers_that_do_not_broadcast_are_refused_by_name() -> None:
    model = parse("(float[n,3] x, float[4] y) => (float[n,4] z) { z = Add(x, y) }")
    with pytest.raises(deploykit.UnsupportedModelError, match=r"axis -1 has 3 elements in 'x', 4 in 'y'"):
        deploykit.build(model)


MASKED = """(float[batch, past] cache, float[batch, seq] x, float[batch, past_plus_seq] mask) =>
    (float[a, b] y, float[c] z) {
    all = Concat <axis = 1> (cache, x)
    y = Add(all, mask)
    one = Constant <value_ints = [1]> ()
    z = ReduceMax <keepdims = 0> (y, one)
}"""


@pytest.mark.parametrize("least", [0, 1])
def test_a_dim_that_must_be_a_sum_of_others_is_checked(check: Check, least: int) -> None:
    """Exporters give the mask over past and present positions its own dim."""
    model = parse(MASKED)
    with check.runtime.session(model, dims={"past": (least, 64)}) as session:
        for batch, past, seq in ((1, 1, 1), (2, 7, 1), (3, 2, 5), (1, least, 4)):
            run = {
                "cache": numbers(batch, past),
                "x": numbers(batch, seq, seed=1),
                "mask": numbers(batch, past + seq, seed=2),
            }
            for got, want in zip(session.run(run).values(), by_onnxruntime(model, run)[0], strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-6)
            wrong = {**run, "mask": numbers(batch, past + seq + 1)}
            with pytest.raises(
                deploykit.ShapeError, match=rf"has {past + seq} elements in 'all', {past + seq + 1} in 'mask'"
            ):
                session.run(wrong)


def test_a_dim_that_must_be_a_sum_of_others_is_that_sum() -> None:
    loaded = deploykit.load(parse(MASKED))
    past, seq = (dim.var for dim in loaded.dims if dim.name in ("past", "seq"))
    assert to_text(loaded.outputs[0].shape[1]) == to_text(past + seq)
