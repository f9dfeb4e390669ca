"""Results in the memory of an operand: never, where it saves memory, or wherever possible. Models agree with ONNX
Runtime in all three cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

import deploykit
from deploykit.compiler.program.inplace import InPlace
from tests.frontends.onnx.harness import by_onnxruntime, numbers, parse
from tests.placing import placing

MODELS: Mapping[str, str] = {
    "products": """(float[i, b, 8] x, float[8, 4, 2] w, float[4, 2] v, float[j, b, 4, 2] r) => (float[b, 4, i, j] y) {
        q = Einsum<equation="ibh,hnd->ibnd">(x, w)  a = Add(q, v)  y = Einsum<equation="ibnd,jbnd->bnij">(a, r) }""",
    "turned": """(float[a, b] x) => (float[b, a] y, float[a, b] z) { e = Exp(x)  n = Neg(e)  s = Add(n, x)
        y = Transpose(s)  f = Softmax(s)  g = Mul(f, f)  z = Sub(g, s) }""",
    "views": """(float[a, 6] x) => (float[k, 3] y, float[a, 6] z) { one = Constant<value_int = 1>()
        threes = Constant<value_ints = [-1, 3]>()  sixes = Constant<value_ints = [-1, 6]>()
        e = Relu(x)  v = Reshape(e, threes)  s = Softmax(v)  t = Sub(v, s)  y = Abs(t)
        w = Reshape(t, sixes)  c = CumSum(w, one)  z = Add(c, w) }""",
    "parts": """(float[a, 4] x) => (float[a, 4] y) { e = Exp(x)  l, r = Split<axis = 1, num_outputs = 2>(e)
        n = Neg(r)  j = Concat<axis = 1>(n, l)  m = Mul(e, j)  y = Sub(m, e) }""",
    "loop": """(float[a, b] x, int64 count, bool go) => (float[a, b] y, float[c, a, b] rows) { start = Relu(x)
        y, rows = Loop<body = step (int64 i, bool on, float[a, b] old) =>
            (bool still, float[a, b] new, float[a, b] row) {
                h = Constant<value_float = 0.5>()  still = Identity(on)  half = Mul(old, h)  more = Add(half, start)
                soft = Softmax(more)  row = Sigmoid(soft)  new = Sub(row, old) }>(count, go, start) }""",
    "branch": """(float[a, b] x) => (float[a, b] y) { h = Constant<value_float = 1.5>()  e = Relu(x)
        m = ReduceMax<keepdims = 0>(e)  big = Greater(m, h)
        c = If<then_branch = yes () => (float[a, b] p) { n = Softmax(e)  k = Neg(n)  p = Mul(k, n) },
               else_branch = no () => (float[a, b] q) { u = Softmax(e)  v = Exp(u)  q = Add(v, e) }>(big)
        y = Abs(c) }""",
    "found": """(float[a] x) => (float[f] y) { zero = Constant<value_int = 0>()  at = Constant<value_ints = [0]>()
        nz = NonZero(x)  s = Squeeze(nz, at)  g = Gather(x, s)  e = CumSum(g, zero)  n = Neg(e)
        t = CumSum(n, zero)  y = Add(t, n) }""",
}

ONLY_TURNED = ("products", "parts")
"""Models where no result may be in the memory of an operand, because operands are read at other places."""

RUNS: Mapping[str, Sequence[Sequence[tuple[int, ...]]]] = {
    "products": [[(i, b, 8), (8, 4, 2), (4, 2), (j, b, 4, 2)] for i, b, j in ((1, 1, 1), (3, 2, 5), (9, 1, 4))],
    "views": [[(n, 6)] for n in (1, 3, 11)],
    "parts": [[(n, 4)] for n in (1, 3, 11)],
    "found": [[(n,)] for n in (1, 7, 40)],
}
"""Shapes of the inputs that are not scalars, for each run; `PLAIN` for other models."""

PLAIN = [[(1, 1)], [(1, 5)], [(3, 1)], [(7, 9)]]


def feeds_of(name: str) -> list[dict[str, np.ndarray]]:
    inputs = [value.name for value in parse(MODELS[name]).graph.input]
    feeds = []
    for turn, shapes in enumerate(RUNS.get(name, PLAIN)):
        feed = {key: numbers(*shape, seed=turn) for key, shape in zip(inputs, shapes, strict=False)}
        feeds.append(feed | ({"count": np.array(turn + 1), "go": np.array(True)} if name == "loop" else {}))
    return feeds


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_model_has_the_same_results(name: str, tmp_path: Path) -> None:
    feeds = feeds_of(name)
    expected = by_onnxruntime(MODELS[name], *feeds)
    placements: dict[InPlace, list[str]] = {}
    for in_place in InPlace:
        folder = tmp_path / in_place.value
        deploykit.build(parse(MODELS[name]), placing("host", in_place), output=folder, cpu="x86-64-v3")
        placements[in_place] = (folder / "program.txt").read_text().splitlines()
        with deploykit.open(folder) as session:
            for feed, wanted in zip(feeds, expected, strict=True):
                for got, want in zip(session.run(feed).values(), wanted, strict=True):
                    np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-5, err_msg=f"{in_place}: {feed}")
    copied = {in_place: any("_copy" in line for line in lines) for in_place, lines in placements.items()}
    assert copied == {InPlace.NEVER: False, InPlace.WHERE_FREE: False, InPlace.ALWAYS: name not in ONLY_TURNED}
