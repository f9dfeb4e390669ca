"""Gathers and scatters with symbolic dims; indices of every sign, within range and out of it."""

from __future__ import annotations

import numpy as np
import pytest

import deploykit
from tests.frontends.onnx.harness import Check, numbers, parse


def indices(*shape: int, limit: int, seed: int = 1) -> np.ndarray:
    """Random indices from `-limit` to `limit - 1`."""
    return np.random.default_rng(seed).integers(-limit, limit, shape)


def test_gathers(check: Check) -> None:
    text = """(float[a,b,3] x, int64[c] i, int64[a,d,3] k, int64[a,e,1] t)
        => (float[p,q,r] y, float[p2,q2,r2] first, float[s,u,v] z, float[w,o,m] n) {
        y = Gather<axis = 1>(x, i)
        last = Constant<value = int64[1] {-1}>()  first = Gather<axis = 2>(x, last)
        z = GatherElements<axis = 1>(x, k)
        n = GatherND<batch_dims = 1>(x, t) }"""
    check(
        text,
        *(
            {
                "x": numbers(a, b, 3),
                "i": indices(c, limit=b),
                "k": indices(a, d, 3, limit=b),
                "t": indices(a, 2, 1, limit=b),
            }
            for a, b, c, d in [(2, 4, 3, 5), (1, 1, 1, 1), (3, 2, 6, 1)]
        ),
    )


def test_one_hot(check: Check) -> None:
    """The depth may be known, a size, or computed at run time. An index out of range has no hot element."""
    check(
        """(int64[a,b] i, int64 depth, float[2] values, float[n] like) => (float[p,q,r] y, float[s,t,u] z) {
            y = OneHot<axis = 1>(i, depth, values)
            s = Shape(like)  n = Squeeze(s)  z = OneHot(i, n, values) }""",
        {
            "i": np.array([[0, 3], [-1, 9]]),
            "depth": np.array(4),
            "values": np.array([0.5, 2], np.float32),
            "like": numbers(5),
        },
        {
            "i": np.array([[0, 0, -2]]),
            "depth": np.array(1),
            "values": np.array([0, 1], np.float32),
            "like": numbers(2),
        },
    )


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_scatters(check: Check, reduction: str) -> None:
    text = f"""(float[a,b] x, int64[c,b] i, float[c,b] u, int64[d,1] t, float[d,b] v) => (float[a,b] y, float[a,b] z) {{
        y = ScatterElements<axis = 0, reduction = "{reduction}">(x, i, u)
        z = ScatterND<reduction = "{reduction}">(x, t, v) }}"""
    runs = []
    for a, b, c, d in [(5, 3, 2, 4), (1, 1, 1, 1), (4, 2, 4, 1)]:
        rows = np.argsort(numbers(a, b, seed=a), axis=0)[:c]
        some = np.arange(d)[::-1].reshape(d, 1) % a
        runs.append({"x": numbers(a, b), "i": rows, "u": numbers(c, b), "t": some, "v": numbers(d, b)})
    check(text, *runs, opset=18)


def test_repeated_indices_are_applied_in_order(check: Check) -> None:
    text = """(float[a] x, int64[c] i, float[c] u) => (float[a] y, float[a] z) {
        y = ScatterElements(x, i, u)  z = ScatterElements<reduction = "add">(x, i, u) }"""
    x, u = np.arange(4, dtype=np.float32), np.array([1, 2, 3], np.float32)
    check(
        text,
        {"x": x, "i": np.array([1, 1, -3]), "u": u},
        expected=[[np.float32([0, 3, 2, 3]), np.float32([0, 7, 2, 3])]],
    )


def test_float16_sums_are_rounded_once_each(check: Check) -> None:
    text = """(float16[a] x, int64[c] i, float16[c] u) => (float16[a] y) {
        y = ScatterElements<reduction = "add">(x, i, u) }"""
    check(text, {"x": numbers(4, dtype="float16"), "i": np.array([0, 3]), "u": numbers(2, dtype="float16")}, rtol=1e-3)


@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_tensor_scatter(check: Check, mode: str) -> None:
    text = f"""(float[b,n,2] cache, float[b,k,2] rows, int64[b] at) => (float[b,n,2] y, float[b,n,2] z) {{
        y = TensorScatter<mode = "{mode}">(cache, rows, at)  z = TensorScatter<mode = "{mode}">(cache, rows) }}"""
    check(
        text,
        {"cache": numbers(2, 5, 2), "rows": numbers(2, 2, 2), "at": np.array([3, 1])},
        {"cache": numbers(1, 1, 2), "rows": numbers(1, 1, 2), "at": np.array([0])},
        opset=24,
    )


def test_updates_that_do_not_fit_are_refused(check: Check) -> None:
    text = "(float[a,b] x, int64[d,1] t, float[e,b] v) => (float[a,b] y) { y = ScatterND(x, t, v) }"
    refused = pytest.raises(deploykit.ShapeError, match="axis 0 of the updates")
    with check.runtime.session(parse(text)) as session, refused:
        session.run({"x": numbers(3, 2), "t": np.array([[1], [2]]), "v": numbers(1, 2)})


def test_max_unpool(check: Check) -> None:
    text = """(float[n,1,h,w] x, int64[n,1,h,w] i) => (float[a,b,c,d] y) {
        y = MaxUnpool<kernel_shape = [2, 2], strides = [2, 2]>(x, i) }"""
    runs = []
    for n, h, w in [(1, 2, 2), (2, 3, 1)]:
        size = 4 * h * w
        corners = (np.arange(h)[:, None] * 4 * w + np.arange(w) * 2).reshape(1, 1, h, w)
        runs.append({"x": numbers(n, 1, h, w), "i": corners + np.arange(n).reshape(n, 1, 1, 1) * size})
    check(text, *runs)


def test_gathering_from_an_empty_axis_is_refused(check: Check) -> None:
    """That there is nothing to pick from is known only at run time."""
    text = """(float[n] x) => (int64[a,b] y) {
        places = NonZero(x)  first = Constant<value_ints = [0]>()  y = Gather<axis = 1>(places, first) }"""
    with check.runtime.session(parse(text)) as session:
        assert session.run({"x": np.float32([0, 3])})["y"].tolist() == [[1]]
        with pytest.raises(deploykit.ShapeError, match="axis of 0"):
            session.run({"x": np.float32([0, 0])})
