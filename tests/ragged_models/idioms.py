"""Small models in ONNX's text form: idioms that padding does not affect, and models whose results depend on it.

Each takes x[batch, seq, 8] and attention_mask[batch, seq], which is 1 for the elements of a sequence and 0 for padding.
`f`[batch, seq] is the mask as floats, `fx`[batch, seq, 1] the same with one more dim, `low` the lowest float. `heads`
are four heads of x, [batch, 4, seq, 2].
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper

WIDTH = 8
ONE_PER_TOKEN, ONE_PER_SEQUENCE = "float[batch,seq,8] y", "float[batch,8] y"
ONE_PER_PAIR = "float[batch,4,seq,seq]"

_PARTS = {
    "f": "f = Cast<to=1>(attention_mask)",
    "fx": "fx = Unsqueeze(f, axis2)",
    "absent": "absent = Sub(onef, f)",
    "absentx": "absentx = Sub(onef, fx)",
    "absent1": "absent1 = Unsqueeze(absent, axis1)",
    "keys": "absent4a = Unsqueeze(absent, axis1)  keys = Unsqueeze(absent4a, axis1)",
    "heads": "split = Reshape(x, apart)  heads = Transpose<perm = [0, 2, 1, 3]>(split)",
    "turned": "turned = Transpose<perm = [0, 2, 3, 1]>(split)",
    "scores": "scores = MatMul(heads, turned)",
    "f4": "f4a = Unsqueeze(f, axis1)  f4 = Unsqueeze(f4a, axis1)",
    "count": "count = ReduceSum<keepdims = 0>(fx, axis1)",
}
"""Values that models use, in the order in which they are computed."""

_NEEDS = {"absent": "f", "fx": "f", "absentx": "fx", "keys": "absent", "turned": "heads", "scores": "turned"}
_NEEDS |= {"count": "fx", "f4": "f", "absent1": "absent"}

_CONSTANTS: Mapping[str, object] = {
    "onef": np.float32(1),
    "zerof": np.float32(0),
    "two": np.array([2], np.float32),
    "low": np.finfo(np.float32).min,
    "weak": np.float32(-3),
    "e4": np.float32(-1e4),
    "e9": np.float32(-1e9),
    "infinite": np.float32(-np.inf),
    "tiny": np.float32(1e-9),
    "axis0": np.array([0]),
    "axis1": np.array([1]),
    "axis2": np.array([2]),
    "zero": np.int64(0),
    "one": np.int64(1),
    "last": np.int64(-1),
    "last1": np.array([-1]),
    "start": np.array([0]),
    "end": np.array([np.iinfo(np.int64).max]),
    "begin": np.array([np.iinfo(np.int64).min]),
    "apart": np.array([0, 0, 4, 2]),
    "width": np.array([1, 1, 8]),
    "flat": np.array([-1, 8]),
    "together": np.array([0, 0, 8]),
    "pads": np.array([0, 0, 0, 0, 1, 0]),
    "three": np.int64(3),
    "five": np.int64(5),
    "between": np.random.default_rng(8).standard_normal((4, 4)).astype(np.float32) / 2,
    "relative": np.random.default_rng(9).standard_normal((4, 2, 6)).astype(np.float32),
    "relative4": np.random.default_rng(10).standard_normal((4, 1, 2, 6)).astype(np.float32),
    "joined": np.array([0, 0, 24]),
    "ones": np.ones(8, np.float32),
    "w": np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32) / 3,
    "w1": np.random.default_rng(1).standard_normal((8, 1)).astype(np.float32),
    "table": np.random.default_rng(8).standard_normal((64, 8)).astype(np.float32),
    "narrow": np.random.default_rng(2).standard_normal((8, 8, 1)).astype(np.float32) / 3,
    "grouped": np.random.default_rng(8).standard_normal((8, 2, 1)).astype(np.float32),
    "perhead": np.random.default_rng(9).standard_normal((4, 2, 2)).astype(np.float32),
    "pair": np.random.default_rng(10).standard_normal((8, 2)).astype(np.float32),
    "wide": np.random.default_rng(3).standard_normal((8, 8, 3)).astype(np.float32) / 5,
    "wi": np.random.default_rng(4).standard_normal((1, 16, 8)).astype(np.float32) / 3,
    "wr": np.random.default_rng(5).standard_normal((1, 16, 4)).astype(np.float32) / 2,
    "wi2": np.random.default_rng(6).standard_normal((2, 16, 8)).astype(np.float32) / 3,
    "wr2": np.random.default_rng(7).standard_normal((2, 16, 4)).astype(np.float32) / 2,
}

_MIXED = "mixed = MatMul(p, heads)  back = Transpose<perm = [0, 2, 1, 3]>(mixed)  y = Reshape(back, together)"
_POSITIONS = (
    "shape = Shape(x)  n = Gather(shape, one)  r = Range(zero, n, one)  column = Unsqueeze(r, axis1)"
    "  row = Unsqueeze(r, axis0)"
)

_SORTED = (
    "l = ReduceSum<keepdims = 0>(attention_mask, axis1)  sizes = Shape(l)  longest, places = TopK(l, sizes)"
    "  sorted = Gather<axis = 0>(x, places)"
)
_BACK = (
    "none = ConstantOfShape<value = int64[1] {0}>(sizes)  size = Squeeze(sizes)  r = Range(zero, size, one)"
    "  back = ScatterElements(none, places, r)"
)
_ROWS = "shape = Shape(x)  n = Gather(shape, one)  b = Gather(shape, zero)  r = Range(zero, b, one)"
_LENGTHS = "l = ReduceSum<keepdims = 0>(attention_mask, axis1)"


def _masked() -> str:
    return _attention("a = Mul(keys, low)  masked = Add(scores, a)")


def _attention(masked: str) -> str:
    return f"{masked}  p = Softmax<axis = -1>(masked)  {_MIXED}"


KEPT: Mapping[str, tuple[str, str]] = {
    "linear": (ONE_PER_TOKEN, "a = MatMul(x, w)  y = Add(a, ones)"),
    "linear-of-each-head": (
        "float[batch,seq,24] y",
        "a = MatMul(heads, relative)  back = Transpose<perm = [0, 2, 1, 3]>(a)  y = Reshape(back, joined)",
    ),
    "linear-of-each-head-with-heads-first": (
        "float[batch,seq,24] y",
        """
        split = Reshape(x, apart)  h = Transpose<perm = [2, 0, 1, 3]>(split)  a = MatMul(h, relative4)
        back = Transpose<perm = [1, 2, 0, 3]>(a)  y = Reshape(back, joined)
        """,
    ),
    "norm": (ONE_PER_TOKEN, "y = LayerNormalization(x, ones)"),
    "mean": (ONE_PER_SEQUENCE, "m = Mul(x, fx)  s = ReduceSum<keepdims = 0>(m, axis1)  y = Div(s, count)"),
    "mean-clipped": (
        ONE_PER_SEQUENCE,
        "m = Mul(x, fx)  s = ReduceSum<keepdims = 0>(m, axis1)  c = Max(count, tiny)  y = Div(s, c)",
    ),
    "mean-where": (
        ONE_PER_SEQUENCE,
        "b = Cast<to = 9>(fx)  m = Where(b, x, zerof)  s = ReduceSum<keepdims = 0>(m, axis1)  y = Div(s, count)",
    ),
    "max-where": (
        ONE_PER_SEQUENCE,
        "b = Cast<to = 9>(fx)  m = Where(b, x, low)  y = ReduceMax<axes = [1], keepdims = 0>(m)",
    ),
    "max-added": (
        ONE_PER_SEQUENCE,
        "a = Mul(absentx, e9)  m = Add(x, a)  y = ReduceMax<axes = [1], keepdims = 0>(m)",
    ),
    "first": (ONE_PER_SEQUENCE, "y = Gather<axis = 1>(x, zero)"),
    "first-slice": (ONE_PER_SEQUENCE, "c = Slice(x, start, axis1, axis1)  y = Squeeze(c, axis1)"),
    "last": (
        ONE_PER_SEQUENCE,
        (
            "n = ReduceSum(attention_mask, axis1)  i = Sub(n, one)  i3 = Unsqueeze(i, axis2)  j = Expand(i3, width)"
            "  e = GatherElements<axis = 1>(x, j)  y = Squeeze(e, axis1)"
        ),
    ),
    "last-of-all-rows": (
        ONE_PER_SEQUENCE,
        (
            f"{_ROWS}  {_LENGTHS}  i = Sub(l, one)  begin0 = Mul(r, n)  j = Add(i, begin0)  rows = Reshape(x, flat)"
            "  y = Gather(rows, j)"
        ),
    ),
    "last-by-tuples": (
        ONE_PER_SEQUENCE,
        (
            f"{_ROWS}  {_LENGTHS}  i = Sub(l, one)  r1 = Unsqueeze(r, axis1)  i1 = Unsqueeze(i, axis1)"
            "  j = Concat<axis = -1>(r1, i1)  y = GatherND(x, j)"
        ),
    ),
    "last-or-first": (
        ONE_PER_SEQUENCE,
        (
            "n = ReduceSum(attention_mask, axis1)  i0 = Sub(n, one)  i = Max(i0, zero)  i3 = Unsqueeze(i, axis2)"
            "  j = Expand(i3, width)  e = GatherElements<axis = 1>(x, j)  y = Squeeze(e, axis1)"
        ),
    ),
    "pooled-attention": (
        ONE_PER_SEQUENCE,
        (
            "e = MatMul(x, w1)  a = Mul(absentx, low)  m = Add(e, a)  p = Softmax<axis = 1>(m)  z = Mul(x, p)"
            "  y = ReduceSum<keepdims = 0>(z, axis1)"
        ),
    ),
    "attention-lowest": (ONE_PER_TOKEN, _attention("a = Mul(keys, low)  masked = Add(scores, a)")),
    "attention-1e9": (ONE_PER_TOKEN, _attention("a = Mul(keys, e9)  masked = Add(scores, a)")),
    "attention-10000": (ONE_PER_TOKEN, _attention("a = Mul(keys, e4)  masked = Add(scores, a)")),
    "attention-where": (ONE_PER_TOKEN, _attention("b = Cast<to = 9>(keys)  masked = Where(b, low, scores)")),
    "attention-infinite": (ONE_PER_TOKEN, _attention("b = Cast<to = 9>(keys)  masked = Where(b, infinite, scores)")),
    "attention-added-infinite": (
        ONE_PER_TOKEN,
        _attention("b = Cast<to = 9>(keys)  a = Where(b, infinite, zerof)  masked = Add(scores, a)"),
    ),
    "attention-of-scaled-keys": (
        ONE_PER_TOKEN,
        (
            "t = Mul(turned, two)  s = MatMul(heads, t)  a = Mul(keys, low)  masked = Add(s, a)"
            f"  p = Softmax<axis = -1>(masked)  {_MIXED}"
        ),
    ),
    "attention-causal": (
        ONE_PER_TOKEN,
        f"{_POSITIONS}  b = Less(column, row)  " + _attention("masked = Where(b, low, scores)"),
    ),
    "attention-causal-and-mask": (
        ONE_PER_TOKEN,
        f"{_POSITIONS}  b = Less(column, row)  k = Cast<to = 9>(keys)  bk = Or(b, k)  "
        + _attention("masked = Where(bk, low, scores)"),
    ),
    "attention-near": (
        ONE_PER_TOKEN,
        f"{_POSITIONS}  d = Sub(column, row)  a = Abs(d)  b = Greater(a, one)  k = Cast<to = 9>(keys)  bk = Or(b, k)  "
        + _attention("masked = Where(bk, low, scores)"),
    ),
    "attention-weights": (f"{ONE_PER_TOKEN}, {ONE_PER_PAIR} p", _masked()),
    "attention-weights-of-one-head": (
        "float[batch,seq,seq] p",
        """
        t = Transpose<perm = [0, 2, 1]>(x)  scores1 = MatMul(x, t)  a = Mul(absent1, low)  masked = Add(scores1, a)
        p = Softmax<axis = -1>(masked)
        """,
    ),
    "scores-used-twice": (
        f"{ONE_PER_TOKEN}, {ONE_PER_PAIR} scores",
        "a = Mul(keys, low)  masked = Add(scores, a)  soft = Softmax<axis = -1>(masked)  p = Mul(soft, scores)  "
        + _MIXED,
    ),
    "weights-used-twice": (
        f"{ONE_PER_TOKEN}, float[batch,seq,4] first, float[batch,seq,4] seen",
        _masked()
        + """
        at = Gather<axis = 3>(p, zero)  first = Transpose<perm = [0, 2, 1]>(at)
        queries = Unsqueeze(f4, last1)  f5 = Squeeze(queries, axis2)  q = Mul(p, f5)
        received = ReduceSum<keepdims = 0>(q, axis2)  seen = Transpose<perm = [0, 2, 1]>(received)
        """,
    ),
    "weights-with-heads-last": (
        ONE_PER_TOKEN + ", float[batch,seq,seq,4] mixed_heads",
        _masked()
        + """
        side = Transpose<perm = [0, 2, 3, 1]>(p)  mixed_heads = MatMul(side, between)
        """,
    ),
    "weights-with-heads-first": (
        f"{ONE_PER_TOKEN}, {ONE_PER_PAIR} p",
        """
        h = Transpose<perm = [1, 0, 2, 3]>(heads)  t = Transpose<perm = [1, 0, 2, 3]>(turned)  s = MatMul(h, t)
        c = Transpose<perm = [1, 0, 2, 3]>(keys)  a = Mul(c, low)  masked = Add(s, a)
        soft = Softmax<axis = -1>(masked)  sq = Mul(soft, soft)
        p = Transpose<perm = [1, 0, 2, 3]>(sq)  """
        + _MIXED,
    ),
    "attention-twice": (
        f"{ONE_PER_TOKEN}, {ONE_PER_PAIR} p",
        "a = Mul(keys, low)  masked = Add(scores, a)  once = Softmax<axis = -1>(masked)  p = MatMul(once, once)  "
        + _MIXED,
    ),
    "attention-to-relative-positions": (
        f"{ONE_PER_TOKEN}, {ONE_PER_PAIR} p",
        f"""{_POSITIONS}  d = Sub(column, row)  up = Add(d, three)  below = Min(up, five)  place = Max(below, zero)
        near = MatMul(heads, relative)
        full = Shape(scores)  places = Expand(place, full)
        bias = GatherElements<axis = 3>(near, places)  biased = Add(scores, bias)
        a = Mul(keys, low)  masked = Add(biased, a)  p = Softmax<axis = -1>(masked)  {_MIXED}""",
    ),
    "convolution-of-one": (
        ONE_PER_TOKEN,
        "t = Transpose<perm = [0, 2, 1]>(x)  c = Conv(t, narrow)  y = Transpose<perm = [0, 2, 1]>(c)",
    ),
    "convolution-of-masked": (
        ONE_PER_TOKEN,
        (
            "m = Mul(x, fx)  t = Transpose<perm = [0, 2, 1]>(m)  c = Conv<pads = [1, 1]>(t, wide)"
            "  y = Transpose<perm = [0, 2, 1]>(c)"
        ),
    ),
    "convolution-of-one-in-groups": (
        ONE_PER_TOKEN,
        "t = Transpose<perm = [0, 2, 1]>(x)  c = Conv<group = 4>(t, grouped)  y = Transpose<perm = [0, 2, 1]>(c)",
    ),
    "weights-for-each-head": (
        ONE_PER_TOKEN,
        "mixed = MatMul(heads, perhead)  back = Transpose<perm = [0, 2, 1, 3]>(mixed)  y = Reshape(back, together)",
    ),
    "weights-on-the-left": (
        ONE_PER_TOKEN,
        "t = Transpose<perm = [0, 2, 1]>(x)  z = MatMul(w, t)  y = Transpose<perm = [0, 2, 1]>(z)",
    ),
    "largest-of-each-token": (
        "float[batch,seq,2] y",
        (
            "rows = Reshape(x, flat)  v, places = TopK(rows, axis2)  h = MatMul(rows, pair)  s = Add(v, h)"
            "  shape = Shape(x)  front = Slice(shape, start, axis2)  sizes = Concat<axis = 0>(front, axis2)"
            "  y = Reshape(s, sizes)"
        ),
    ),
    "product-with-a-vector": ("float[batch,seq] y", "y = MatMul(x, ones)"),
    "product-of-a-vector": ("float[batch,seq] y", "t = Transpose<perm = [0, 2, 1]>(x)  y = MatMul(ones, t)"),
    "attention-of-a-vector": (
        ONE_PER_SEQUENCE,
        (
            "e = MatMul(x, ones)  a = Mul(absent, low)  m = Add(e, a)  p = Softmax<axis = 1>(m)"
            "  row = Unsqueeze(p, axis1)  z = MatMul(row, x)  y = Squeeze(z, axis1)"
        ),
    ),
    "sums-so-far": (ONE_PER_TOKEN, "y = CumSum(x, one)"),
    "lstm-forward": (
        "float[batch,seq,4] y",
        (
            "t = Transpose<perm = [1, 0, 2]>(x)  o, h, c = LSTM<hidden_size = 4>(t, wi, wr)  s = Squeeze(o, axis1)"
            "  y = Transpose<perm = [1, 0, 2]>(s)"
        ),
    ),
    "lstm-lengths": (
        "float[batch,seq,8] y, float[batch,4] last_state",
        (
            "l = ReduceSum<keepdims = 0>(attention_mask, axis1)  li = Cast<to = 6>(l)"
            "  t = Transpose<perm = [1, 0, 2]>(x)"
            '  o, h, c = LSTM<hidden_size = 4, direction = "bidirectional">(t, wi2, wr2, , li)'
            "  b = Transpose<perm = [2, 0, 1, 3]>(o)  y = Reshape(b, together)  last_state = Gather<axis = 0>(h, zero)"
        ),
    ),
    "sorted-and-back": (ONE_PER_TOKEN, f"{_SORTED}  {_BACK}  t = Tanh(sorted)  y = Gather(t, back)"),
    "squared-distances": (
        ONE_PER_SEQUENCE,
        (
            "m = Mul(x, fx)  s = ReduceSum(m, axis1)  c = Unsqueeze(count, axis1)  mu = Div(s, c)  d = Sub(x, mu)"
            "  q = Mul(d, d)  qm = Mul(q, fx)  y = ReduceSum<keepdims = 0>(qm, axis1)"
        ),
    ),
}
"""The outputs and the nodes of models whose results do not depend on padding."""

LEAKING: Mapping[str, tuple[str, str]] = {
    "mean": (ONE_PER_SEQUENCE, "y = ReduceMean<axes = [1], keepdims = 0>(x)"),
    "sum": (ONE_PER_SEQUENCE, "y = ReduceSum<keepdims = 0>(x, axis1)"),
    "max": (ONE_PER_SEQUENCE, "y = ReduceMax<axes = [1], keepdims = 0>(x)"),
    "max-of-product": (ONE_PER_SEQUENCE, "m = Mul(x, fx)  y = ReduceMax<axes = [1], keepdims = 0>(m)"),
    "min-of-lowered": (
        ONE_PER_SEQUENCE,
        "a = Mul(absentx, e9)  m = Add(x, a)  y = ReduceMin<axes = [1], keepdims = 0>(m)",
    ),
    "mean-over-padded-length": (ONE_PER_SEQUENCE, "m = Mul(x, fx)  y = ReduceMean<axes = [1], keepdims = 0>(m)"),
    "mean-of-distances": (
        ONE_PER_SEQUENCE,
        (
            "m = Mul(x, fx)  s = ReduceSum(m, axis1)  c = Unsqueeze(count, axis1)  mu = Div(s, c)  d = Sub(m, mu)"
            "  q = Mul(d, d)  y = ReduceSum<keepdims = 0>(q, axis1)"
        ),
    ),
    "last": (ONE_PER_SEQUENCE, "y = Gather<axis = 1>(x, last)"),
    "last-but-one-of-all-rows": (
        ONE_PER_SEQUENCE,
        (
            f"{_ROWS}  {_LENGTHS}  i0 = Sub(l, one)  i1 = Sub(i0, one)  i = Max(i1, zero)  begin0 = Mul(r, n)"
            "  j = Add(i, begin0)  rows = Reshape(x, flat)  a = Gather(rows, j)  k = Add(r, i)  e = Gather(rows, k)"
            "  y = Add(a, e)"
        ),
    ),
    "last-but-one": (
        ONE_PER_SEQUENCE,
        (
            "n = ReduceSum(attention_mask, axis1)  i = Sub(n, axis2)  i3 = Unsqueeze(i, axis2)  j = Expand(i3, width)"
            "  e = GatherElements<axis = 1>(x, j)  y = Squeeze(e, axis1)"
        ),
    ),
    "convolution": (
        ONE_PER_TOKEN,
        "t = Transpose<perm = [0, 2, 1]>(x)  c = Conv<pads = [1, 1]>(t, wide)  y = Transpose<perm = [0, 2, 1]>(c)",
    ),
    "next": (
        ONE_PER_TOKEN,
        "c = Slice(x, axis1, end, axis1)  y = Pad(c, pads)",
    ),
    "reversed": (ONE_PER_TOKEN, "y = Slice(x, last1, begin, axis1, last1)"),
    "next-of-masked": (
        ONE_PER_TOKEN,
        (
            f"{_POSITIONS}  next = Add(r, one)  end0 = Sub(n, one)  i = Min(next, end0)  m = Mul(x, fx)"
            "  y = Gather<axis = 1>(m, i)"
        ),
    ),
    "last-of-masked": (ONE_PER_SEQUENCE, "m = Mul(x, fx)  y = Gather<axis = 1>(m, last)"),
    "reversed-and-masked": (ONE_PER_TOKEN, "m = Mul(x, fx)  y = Slice(m, last1, begin, axis1, last1)"),
    "sums-from-the-end": (ONE_PER_TOKEN, "y = CumSum<reverse = 1>(x, one)"),
    "attention": (ONE_PER_TOKEN, f"p = Softmax<axis = -1>(scores)  {_MIXED}"),
    "attention-of-masked-queries": (
        ONE_PER_TOKEN,
        "q = Transpose<perm = [0, 1, 3, 2]>(keys)  " + _attention("a = Mul(q, low)  masked = Add(scores, a)"),
    ),
    "attention-to-padding": (
        ONE_PER_TOKEN,
        _attention("a = Mul(f4, low)  masked = Add(scores, a)"),
    ),
    "attention-with-a-weak-mask": (ONE_PER_TOKEN, _attention("a = Mul(keys, weak)  masked = Add(scores, a)")),
    "attention-with-a-product": (
        ONE_PER_TOKEN,
        _attention("masked = Mul(scores, f4)"),
    ),
    "attention-masked-after-softmax": (
        ONE_PER_TOKEN,
        "q = Softmax<axis = -1>(scores)  p = Mul(q, f4)  " + _MIXED,
    ),
    "attention-to-later-ones": (
        ONE_PER_TOKEN,
        f"{_POSITIONS}  b = Greater(column, row)  " + _attention("masked = Where(b, low, scores)"),
    ),
    "lstm-backward": (
        "float[batch,seq,4] y",
        (
            't = Transpose<perm = [1, 0, 2]>(x)  o, h, c = LSTM<hidden_size = 4, direction = "reverse">(t, wi, wr)'
            "  s = Squeeze(o, axis1)  y = Transpose<perm = [1, 0, 2]>(s)"
        ),
    ),
    "lstm-bidirectional": (
        ONE_PER_TOKEN,
        (
            "t = Transpose<perm = [1, 0, 2]>(x)"
            '  o, h, c = LSTM<hidden_size = 4, direction = "bidirectional">(t, wi2, wr2)'
            "  b = Transpose<perm = [2, 0, 1, 3]>(o)  y = Reshape(b, together)"
        ),
    ),
    "lstm-last-state": (
        "float[batch,4] y",
        "t = Transpose<perm = [1, 0, 2]>(x)  o, h, c = LSTM<hidden_size = 4>(t, wi, wr)  y = Squeeze(h, axis0)",
    ),
    "batch-mean": (ONE_PER_TOKEN, "m = Mul(x, fx)  s = ReduceMean<axes = [0, 1]>(m)  y = Sub(x, s)"),
    "batch-statistics": (ONE_PER_TOKEN, "s = ReduceMean<axes = [0, 1]>(x)  y = Sub(x, s)"),
    "across-the-batch": (ONE_PER_TOKEN, "s = ReduceSum(x, axis0)  y = Sub(x, s)"),
    "norm-of-sequences": (
        ONE_PER_TOKEN,
        (
            "s = ReduceMean<axes = [1, 2]>(x)  d = Sub(x, s)  q = Mul(d, d)  v = ReduceMean<axes = [1, 2]>(q)"
            "  r = Sqrt(v)  y = Div(d, r)"
        ),
    ),
    "softmax-over-tokens": (ONE_PER_TOKEN, "y = Softmax<axis = 1>(x)"),
    "positions-from-the-end": (
        ONE_PER_TOKEN,
        f"{_POSITIONS}  e = Sub(n, column)  ef = Cast<to = 1>(e)  y = Mul(x, ef)",
    ),
    "padded-length": (
        ONE_PER_TOKEN,
        "shape = Shape(x)  n = Gather(shape, one)  nf = Cast<to = 1>(n)  y = Mul(x, nf)",
    ),
    "place-of-the-largest": ("int64[batch,8] y", "y = ArgMax<axis = 1, keepdims = 0>(x)"),
    "place-of-the-largest-product": ("int64[batch,8] y", "m = Mul(x, fx)  y = ArgMax<axis = 1, keepdims = 0>(m)"),
    "rows-of-a-table-from-the-end": (
        ONE_PER_TOKEN,
        f"{_POSITIONS}  e = Sub(n, column)  i = Squeeze(e, axis1)  t = Gather(table, i)  y = Add(x, t)",
    ),
    "a-row-of-a-table-for-the-size": (
        ONE_PER_TOKEN,
        "shape = Shape(x)  n = Gather(shape, one)  t = Gather(table, n)  y = Add(x, t)",
    ),
    "the-mask-at-the-end": (
        ONE_PER_TOKEN,
        "m = Gather<axis = 1>(f, last1)  mx = Unsqueeze(m, axis2)  y = Mul(x, mx)",
    ),
    "sorted": (ONE_PER_TOKEN, f"{_SORTED}  y = Tanh(sorted)"),
    "sorted-twice": (ONE_PER_TOKEN, f"{_SORTED}  y = Gather(sorted, places)"),
    "sorted-next-to-unsorted": (ONE_PER_TOKEN, f"{_SORTED}  {_BACK}  t = Add(sorted, x)  y = Gather(t, back)"),
    "back-without-sorting": (ONE_PER_TOKEN, f"{_SORTED}  {_BACK}  y = Gather(x, back)"),
    "largest-ones": ("float[batch,1,8] y", "y, places = TopK<axis = 1>(x, axis1)"),
}
"""The outputs and the nodes of models whose results depend on padding, or on other sequences."""


@cache
def model(outputs: str, nodes: str) -> onnx.ModelProto:
    """The model of these nodes, with the values in `_PARTS` and the constants that they use."""
    needed: set[str] = set()
    pending = set(_words(nodes)) & _PARTS.keys()
    while pending:
        name = pending.pop()
        needed.add(name)
        if name in _NEEDS and _NEEDS[name] not in needed:
            pending.add(_NEEDS[name])
    text = "  ".join([*(text for name, text in _PARTS.items() if name in needed), nodes])
    header = "<ir_version: 8, opset_import: ['': 17]> m".replace("'", '"')
    found = onnx.parser.parse_model(
        f"{header} (float[batch,seq,8] x, int64[batch,seq] attention_mask) => ({outputs}) {{ {text} }}"
    )
    used = {name for node in found.graph.node for name in node.input}
    for name, value in _CONSTANTS.items():
        if name in used:
            found.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    onnx.checker.check_model(found, full_check=True)
    return found


def _words(text: str) -> list[str]:
    return text.replace("(", " ").replace(")", " ").replace(",", " ").split()
