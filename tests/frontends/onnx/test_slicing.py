"""Slice, Split, Pad and relatives: constant, symbolic and runtime operands."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import tirx

from deploykit.compiler.dims import evaluate
from deploykit.compiler.operators.building.context import Context, Shared
from deploykit.compiler.operators.slicing import even_parts, piece_of
from tests.frontends.onnx.harness import Check, numbers


@settings(max_examples=60, deadline=None)
@given(st.integers(-9, 9), st.integers(-9, 9), st.sampled_from([-3, -2, -1, 1, 2, 3]))
def test_pieces_equal_those_of_numpy(start: int, end: int, step: int) -> None:
    """The first element and the size, as plain numbers and as expressions over the size of the axis."""
    ctx = Context(Shared(), None)
    n = tirx.Var("n", "int64")
    ctx.shared.facts.bind(n, 1, 99)
    symbolic = piece_of(ctx, start, end, step, n)
    for size in (1, 2, 5, 8):
        wanted = list(range(size))[start:end:step]
        plain = piece_of(ctx, start, end, step, size)
        assert plain.size == len(wanted) == evaluate(symbolic.size, {n: size})
        if wanted:
            assert plain.start == wanted[0] == evaluate(symbolic.start, {n: size})


@given(st.integers(1, 40), st.integers(1, 9))
def test_even_parts_add_up(size: int, count: int) -> None:
    parts = even_parts(Context(Shared(), None), size, count)
    assert sum(parts) == size
    assert len(parts) == count
    assert max(parts) == parts[0]


def test_constant_slices(check: Check) -> None:
    check(
        """(float[a,b,5] x) => (float[i,j,k] y, float[l,m,n] r, float[o,p,q] d) {
            s = Constant<value_ints = [1, -2]>()  e = Constant<value_ints = [9223372036854775807, 5]>()
            ax = Constant<value_ints = [0, 2]>()  y = Slice(x, s, e, ax)
            rs = Constant<value_ints = [-1, -1]>()  re = Constant<value_ints = [-9223372036854775807, 0]>()
            st = Constant<value_ints = [-1, -2]>()  ra = Constant<value_ints = [-2, 2]>()  r = Slice(x, rs, re, ra, st)
            zero = Constant<value_ints = [0, 0]>()  two = Constant<value_ints = [2, 2]>()  d = Slice(x, zero, two) }""",
        {"x": numbers(3, 4, 5)},
        {"x": numbers(2, 1, 5)},
    )


def test_slices_of_several_axes_to_a_far_end(check: Check) -> None:
    """Their memory is known, although the end is far beyond it."""
    text = """(float[n,m,8] x) => (float[a,b,8] y) {
        s = Constant<value_ints = [-1, -1]>()  e = Constant<value_ints = [2147483648, 2147483648]>()
        ax = Constant<value_ints = [0, 1]>()  st = Constant<value_ints = [3, 1]>()
        z = Slice(x, s, e, ax, st)  r = Relu(z)  y = CumSum(r, one) }"""
    text = text.replace("{", "<int64 one = {1}> {", 1)
    check(text, *({"x": numbers(n, m, 8)} for n, m in ((1, 1), (3, 5), (6, 2))))


def test_slices_to_the_lowest_number(check: Check) -> None:
    text = """(float[n,m] x) => (float[a,b] y, float[c,d] r) {
        s = Constant<value_ints = [1, -1]>()  e = Constant<value_ints = [-9223372036854775808, -9223372036854775808]>()
        ax = Constant<value_ints = [0, 1]>()  st = Constant<value_ints = [-3, -1]>()  y = Slice(x, s, e, ax, st)
        r = Slice(x, e, s, ax) }"""
    check(text, *({"x": numbers(n, m)} for n, m in ((1, 1), (3, 5), (6, 2))))


def test_slice_attributes(check: Check) -> None:
    check(
        "(float[a,b] x) => (float[i,j] y) { y = Slice<starts = [1], ends = [-1], axes = [1]>(x) }",
        {"x": numbers(2, 5)},
        opset=9,
    )


def test_runtime_slices(check: Check) -> None:
    text = """(float[a,b] x, int64[2] s, int64[2] e, int64[2] axes, int64[2] steps)
        => (float[i,j] y, float[k,l] z) {
        y = Slice(x, s, e, axes, steps)
        ax = Constant<value_ints = [1]>()  zero = Constant<value_ints = [0]>()
        s0 = Gather(s, zero)  e0 = Gather(e, zero)  z = Slice(x, s0, e0, ax) }"""
    runs = [
        ((4, 6), (1, 0), (3, 100), (0, 1), (1, 2)),
        ((4, 6), (-1, 5), (-100, 1), (1, 0), (-2, -1)),
        ((1, 1), (0, 0), (1, 1), (-2, -1), (1, 1)),
        ((5, 2), (-3, 1), (-1, 0), (0, 1), (1, 1)),
    ]
    check(
        text,
        *(
            {"x": numbers(*shape), **dict(zip(("s", "e", "axes", "steps"), map(np.array, rest), strict=True))}
            for shape, *rest in runs
        ),
    )


def test_splits(check: Check) -> None:
    check(
        """(float[a,7] x, int64[2] parts) => (float[i,3] p, float[j,4] q, float[k,7] r, float[l,7] s, float[m,n] t,
            float[o,p2] u, float[w,v] v) {
            n = Constant<value_ints = [3, 4]>()  p, q = Split<axis = 1>(x, n)
            t, u, v = Split<axis = -1, num_outputs = 3>(x)
            r, s = Split<axis = 0>(x, parts) }""",
        {"x": numbers(5, 7), "parts": np.array([2, 3])},
        {"x": numbers(1, 7), "parts": np.array([0, 1])},
    )


def test_pads(check: Check) -> None:
    body = "".join(f'{mode} = Pad<mode = "{mode}">(x, amounts) ' for mode in ("reflect", "edge", "wrap"))
    outputs = ", ".join(f"float[{m}0,{m}1,{m}2] {m}" for m in ("constant", "reflect", "edge", "wrap", "crop"))
    check(
        f"""(float[a,b,4] x, float v) => ({outputs}) {{
            amounts = Constant<value_ints = [0, 1, 2, 0, 0, 1]>()  {body}
            constant = Pad(x, amounts, v)
            cut = Constant<value_ints = [-1, 2, 1, -2]>()  axes = Constant<value_ints = [2, 0]>()
            crop = Pad(x, cut, , axes) }}""",
        *(_padded(*shape) for shape in ((2, 3, 4), (1, 2, 4), (5, 4, 4))),
        expected=[_padded_result(*shape) for shape in ((2, 3, 4), (1, 2, 4), (5, 4, 4))],
    )


def _padded(*shape: int) -> dict[str, np.ndarray]:
    return {"x": numbers(*shape), "v": np.array(1.5, np.float32)}


def _padded_result(*shape: int) -> list[np.ndarray]:
    x, widths = numbers(*shape), [(0, 0), (1, 0), (2, 1)]
    crop = np.pad(x[:, :, 1:], [(2, 0), (0, 0), (0, 1)])[: 2 + shape[0] - 2]
    return [
        np.pad(x, widths, constant_values=1.5),
        *(np.pad(x, widths, mode) for mode in ("reflect", "edge", "wrap")),
        crop,
    ]


def test_runtime_pads(check: Check) -> None:
    """Reflections may turn around more than once."""
    text = """(float[a,b] x, int64[4] p) => (float[i,j] c, float[k,l] r, float[m,n] w) {
        c = Pad(x, p)  r = Pad<mode = "reflect">(x, p)  w = Pad<mode = "wrap">(x, p) }"""
    runs = [((2, 3), (1, 0, 2, 5)), ((3, 1), (0, 2, 1, 0)), ((1, 4), (3, 3, 0, 1))]
    check(text, *({"x": numbers(*shape), "p": np.array(pads)} for shape, pads in runs))


def test_center_crop_pad(check: Check) -> None:
    text = "(float[a,b] x, int64[1] n) => (float[i,j] y) { y = CenterCropPad<axes = [1]>(x, n) }"
    check(text, *({"x": numbers(2, size), "n": np.array([to])} for size, to in itertools.product((4, 5), (1, 2, 7, 8))))


def test_reverse_sequence(check: Check) -> None:
    text = (
        "(float[t,b,2] x, int64[b] n) => (float[t,b,2] y) { y = ReverseSequence<time_axis = 0, batch_axis = 1>(x, n) }"
    )
    check(text, {"x": numbers(4, 3, 2), "n": np.array([4, 1, 2])}, {"x": numbers(1, 1, 2), "n": np.array([1])})
