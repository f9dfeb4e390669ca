"""Operators whose result sizes are known only at run time: selection, sorting, suppression."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.onnx.harness import Check, numbers


def test_nonzero_and_compress(check: Check) -> None:
    text = """(float[a,b] x, bool[c] keep) => (int64[2,n] places, float[p,q] rows, float[m] some) {
        places = NonZero(x)  rows = Compress<axis = 0>(x, keep)  some = Compress(x, keep) }"""
    x = numbers(3, 4)
    x[x < 1] = 0
    check(
        text,
        {"x": x, "keep": np.array([True, False, True])},
        {"x": x * 0, "keep": np.array([False])},
        {"x": numbers(1, 1), "keep": np.array([True])},
    )


def test_further_operators_take_results_of_unknown_size(check: Check) -> None:
    """Further operators use a size that is found at run time, alone and in arithmetic."""
    check(
        """(float[a,b] x) => (float[n] y, int64[1] twice, float[m,k] z) {
            places = NonZero(x)  t = Transpose(places)  v = GatherND(x, t)
            y = Relu(v)  s = Shape(v)  two = Constant<value_ints = [2]>()  twice = Mul(s, two)
            to = Concat<axis = 0>(two, s)  z = Expand(v, to) }""",
        {"x": np.float32([[0, 1, -2], [0, 0, 3]])},
        {"x": np.float32([[0]])},
    )


@pytest.mark.parametrize("largest", [0, 1])
def test_top_k(check: Check, largest: int) -> None:
    """A small number is found by insertion, a large or runtime number by sorting. Equal elements stay in order."""
    text = f"""(float[a,b,c] x, int64[1] k) => (float[i,j,l] y, int64[m,n,o] p, float[q,r,s] v, int64[t,u,w] z) {{
        two = Constant<value_ints = [2]>()
        y, p = TopK<axis = 1, largest = {largest}>(x, two)
        v, z = TopK<largest = {largest}>(x, k) }}"""
    check(
        text,
        {"x": np.round(numbers(2, 5, 3)), "k": np.array([3])},
        {"x": np.round(numbers(1, 2, 40) / 2), "k": np.array([17])},
        {"x": numbers(3, 2, 1), "k": np.array([1])},
    )


def test_nan_is_the_greatest_number(check: Check) -> None:
    x = np.float32([1, np.nan, 3, -np.inf])
    check(
        """(float[a] x) => (float[2] y, int64[2] p, float[2] z, int64[2] q) {
            k = Constant<value_ints = [2]>()  y, p = TopK(x, k)  z, q = TopK<largest = 0>(x, k) }""",
        {"x": x},
        expected=[[np.float32([np.nan, 3]), np.array([1, 2]), np.float32([-np.inf, 1]), np.array([3, 0])]],
    )


@pytest.mark.parametrize("in_order", [0, 1])
def test_unique(check: Check, in_order: int) -> None:
    text = f"""(int32[a,b] x)
        => (int32[n] y, int64[n] i, int64[m] back, int64[n] k, int32[p,q] rows, int32[r,s] columns) {{
        y, i, back, k = Unique<sorted = {in_order}>(x)
        rows = Unique<axis = 0, sorted = {in_order}>(x)
        columns = Unique<axis = -1, sorted = {in_order}>(x) }}"""
    runs = [np.int32([[2, 1, 2, 2], [0, 5, 0, 0], [2, 1, 2, 2]]), np.int32([[7]]), np.int32([[3, 3], [1, 3]])]
    check(text, *({"x": x} for x in runs), expected=[unique(x, in_order=bool(in_order)) for x in runs])


def unique(x: np.ndarray, *, in_order: bool) -> list[np.ndarray]:
    """The results of numpy, which always sorts."""
    results = []
    for axis in (None, 0, 1):
        values, first, back, counts = np.unique(
            x, return_index=True, return_inverse=True, return_counts=True, axis=axis
        )
        order = np.arange(len(first)) if in_order else np.argsort(first)
        results.append(
            [np.take(values, order, axis or 0), first[order], np.argsort(order)[back.reshape(-1)], counts[order]]
        )
    return [*results[0], results[1][0], results[2][0]]


def test_suppression(check: Check) -> None:
    """The number of boxes and the thresholds are known only at run time. Boxes are given by corners in any order."""
    rng = np.random.default_rng(3)
    text = """(float[n,b,4] boxes, float[n,c,b] scores, int64[1] most, float[1] overlap, float[1] least)
        => (int64[k,3] y, int64[m,3] z) {
        y = NonMaxSuppression(boxes, scores, most, overlap, least)  eight = Constant<value_ints = [8]>()
        z = NonMaxSuppression<center_point_box = 1>(boxes, scores, eight, overlap, least) }"""
    check(
        text,
        *(
            {
                "boxes": rng.random((n, b, 4), np.float32),
                "scores": rng.random((n, c, b), np.float32),
                "most": np.array([most]),
                "overlap": np.float32([overlap]),
                "least": np.float32([0.2]),
            }
            for n, c, b, most, overlap in [(2, 3, 9, 4, 0.1), (1, 1, 1, 1, 0.5), (1, 2, 20, 0, 0.3)]
        ),
    )
