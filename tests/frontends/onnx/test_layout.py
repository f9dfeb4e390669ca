"""Views, transposes, joining, filling: models with symbolic dims, run at several sizes."""

from __future__ import annotations

import numpy as np
import pytest

import deploykit
from tests.frontends.onnx.harness import Check, numbers, parse


def test_views_and_transposes(check: Check) -> None:
    check(
        """(float[a,b,6] x) => (float[i] flat, float[j,k] rows, float[l,m,n] t, float[o,p,q,r] u, float[s,t] f) {
            all = Constant<value_ints = [-1]>()  flat = Reshape(x, all)
            pair = Constant<value_ints = [0, -1]>()  rows = Reshape(x, pair)
            t = Transpose<perm = [1, 2, 0]>(x)
            axes = Constant<value_ints = [-2]>()  u = Unsqueeze(x, axes)
            f = Flatten<axis = -1>(x) }""",
        {"x": numbers(2, 3, 6)},
        {"x": numbers(1, 1, 6)},
        {"x": numbers(5, 2, 6)},
    )


def test_runtime_shapes_and_axes(check: Check) -> None:
    text = """(float[a,b,1] x, int64[2] shape, int64[1] axis) => (float[i,j] y, float[k,l] s, float[m,n,o,p] u) {
        y = Reshape(x, shape)  s = Squeeze(x, axis)  u = Unsqueeze(x, axis) }"""
    x = numbers(4, 3, 1)
    check(
        text,
        {"x": x, "shape": np.array([6, -1]), "axis": np.array([2])},
        {"x": x, "shape": np.array([0, 3]), "axis": np.array([-1])},
        {"x": x[:1], "shape": np.array([3, 1]), "axis": np.array([0])},
    )


def test_a_runtime_shape_that_does_not_fit_is_refused(check: Check) -> None:
    text = "(float[a,4] x, int64[2] shape) => (float[i,j] y) { y = Reshape(x, shape) }"
    refused = pytest.raises(deploykit.DeploykitError, match="8 elements")
    with check.runtime.session(parse(text)) as session, refused:
        session.run({"x": numbers(2, 4), "shape": np.array([3, 2])})


def test_squeeze_without_axes(check: Check) -> None:
    """The declared rank of the result says whether a symbolic size is 1. If it is not, no run may make it 1."""
    check("(float[a,1] x) => (float y) { y = Squeeze(x) }", {"x": numbers(1, 1)})
    check("(float[a,1] x) => (float y) { y = Squeeze<axes: ints = []>(x) }", {"x": numbers(1, 1)}, opset=11)
    text = "(float[a,1,b] x) => (float[i,j] y) { y = Squeeze(x) }"
    check(text, {"x": numbers(2, 1, 3)}, {"x": numbers(5, 1, 2)})
    refused = pytest.raises(deploykit.ShapeError, match="rank of the result would change")
    with check.runtime.session(parse(text)) as session, refused:
        session.run({"x": numbers(2, 1, 1)})


def test_joining_and_repeating(check: Check) -> None:
    check(
        """(float[a,b] x, float[c,b] z) => (float[i,b] y, float[j,k] t, float[l,m,n] e, float[o,p] w) {
            y = Concat<axis = 0>(x, z, x)
            r = Constant<value_ints = [2, 3]>()  t = Tile(x, r)
            s = Shape(x)  two = Constant<value_ints = [2]>()  to = Concat<axis = 0>(two, s)  e = Expand(x, to)
            w = Concat<axis = -1>(x, x) }""",
        {"x": numbers(2, 3), "z": numbers(4, 3)},
        {"x": numbers(1, 1), "z": numbers(1, 1)},
    )


def test_runtime_repeats_and_expansion(check: Check) -> None:
    check(
        """(float[a,1] x, int64[2] n) => (float[i,j] t, float[k,l] e, float[m,o] c) {
            t = Tile(x, n)  e = Expand(x, n)  c = ConstantOfShape<value = float[1] {2.5}>(n) }""",
        {"x": numbers(3, 1), "n": np.array([1, 4])},
        {"x": numbers(1, 1), "n": np.array([5, 2])},
    )


def test_depth_and_space(check: Check) -> None:
    check(
        """(float[n,8,h,w] x, float[n,c,4,6] z)
            => (float[a,b,d,e] y, float[f,g,i,j] crd, float[k,l,m,o] s) {
            y = DepthToSpace<blocksize = 2>(x)  crd = DepthToSpace<blocksize = 2, mode = "CRD">(x)
            s = SpaceToDepth<blocksize = 2>(z) }""",
        {"x": numbers(2, 8, 3, 1), "z": numbers(2, 1, 4, 6)},
        {"x": numbers(1, 8, 1, 4), "z": numbers(1, 3, 4, 6)},
    )


def test_filling(check: Check) -> None:
    check(
        """(float[a,b] x, int64 first, int64 end, int64 step, float f, float g, float h)
            => (int64[i] r, float[j] q, int32[k,l] e, float[m,n] u, float[o,p] lo) {
            r = Range(first, end, step)  q = Range(f, g, h)  e = EyeLike<dtype = 6, k = 1>(x)
            k = Constant<value = int64 {-1}>()  u = Trilu<upper = 1>(x, k)  lo = Trilu<upper = 0>(x, k) }""",
        *(
            {
                "x": numbers(rows, 3),
                **{n: np.array(v, np.int64) for n, v in zip(("first", "end", "step"), ints, strict=True)},
                **{n: np.array(v, np.float32) for n, v in zip("fgh", floats, strict=True)},
            }
            for rows, ints, floats in [
                (2, (1, 9, 3), (0, 1, 0.25)),
                (4, (5, -4, -2), (2, -1, -0.75)),
                (1, (3, 3, 1), (1, 0, 1)),
            ]
        ),
    )


def halved(times: int) -> str:
    """Repeatedly reshapes to half the previous size. According to the bounds, a size may be 0."""
    steps = "".join(
        f"""s{i} = Shape(x{i})  h{i} = Gather(s{i}, zero)  q{i} = Div(h{i}, two)
        c{i} = Constant<value_ints = [{8 << i}]>()  n{i} = Concat<axis = 0>(q{i}, c{i})  x{i + 1} = Reshape(x{i}, n{i})
        """
        for i in range(times)
    )
    return f"""(float[n,4] x0) => (float[i,j] x{times}) {{
        zero = Constant<value_ints = [0]>()  two = Constant<value_ints = [2]>()  {steps} }}"""


def test_sizes_that_may_be_0_do_not_double_with_each_reshape() -> None:
    model = deploykit.load(parse(halved(8)))
    assert len(str(model.outputs[0].shape[0])) < 10_000


def test_many_reshapes_to_sizes_that_may_be_0(check: Check) -> None:
    check(halved(6), {"x0": numbers(64, 4)}, {"x0": numbers(192, 4)})
