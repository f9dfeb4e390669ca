"""Arithmetic on shapes stays symbolic: no kernel computes it, and shapes are the expected formulas."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import deploykit
from deploykit.compiler.dims import to_text
from tests.frontends.onnx.harness import Check, by_onnxruntime, numbers, parse

CHAINS = {
    "merge heads": (
        """(float[batch,seq,12,64] x) => (float[a,b,c] y) {
            s = Shape(x)  zero = Constant<value = int64 {0}>()  one = Constant<value = int64 {1}>()
            axis = Constant<value_ints = [0]>()  rest = Constant<value_ints = [768]>()
            b = Gather(s, zero)  q = Gather(s, one)
            b1 = Unsqueeze(b, axis)  q1 = Unsqueeze(q, axis)
            to = Concat<axis = 0>(b1, q1, rest)
            y = Reshape(x, to) }""",
        "batch, seq, 768",
    ),
    "minus one": (
        """(float[batch,seq,768] x) => (float[a,b,c,d] y) {
            s = Shape(x)  zero = Constant<value_ints = [0]>()  two = Constant<value_ints = [2]>()
            head = Slice(s, zero, two)  rest = Constant<value_ints = [12, -1]>()
            to = Concat<axis = 0>(head, rest)
            y = Reshape(x, to) }""",
        "batch, seq, 12, 64",
    ),
    "merged and split": (
        """(float[batch,seq,8] x) => (float[a,b,c] y) {
            two = Constant<value_ints = [-1, 8]>()  flat = Reshape(x, two)
            s = Shape<start = 0, end = 1>(x)  rest = Constant<value_ints = [-1, 8]>()
            to = Concat<axis = 0>(s, rest)
            y = Reshape(flat, to) }""",
        "batch, seq, 8",
    ),
    "split shape": (
        """(float[h,w] x) => (float[a] y) {
            s = Shape(x)  parts = Constant<value_ints = [1, 1]>()
            h, w = Split<axis = 0>(s, parts)  n = Mul(h, w)
            y = Reshape(x, n) }""",
        "h*w",
    ),
}


@pytest.mark.parametrize("name", CHAINS)
def test_chains_are_views(name: str) -> None:
    text, shape = CHAINS[name]
    model = deploykit.load(parse(text))
    assert ", ".join(to_text(n) for n in model.outputs[0].shape) == shape
    assert [g.name_hint for g in model.module.functions] == ["main"]


def test_expand_as_exported_by_pytorch(check: Check) -> None:
    """The sizes go through ConstantOfShape, Mul, Equal and Where, which replace each -1 by 1."""
    text = """(float[batch,1,4] x, float[n,seq] like) => (float[a,b,c] y) {
        s = Shape<start = 1>(like)  minus = Constant<value_ints = [-1]>()  four = Constant<value_ints = [4]>()
        size = Concat<axis = 0>(minus, s, four)
        k = Shape(size)  ones = ConstantOfShape<value = int64[1] {1}>(k)  none = Mul(ones, minus)
        keep = Equal(size, none)  target = Where(keep, ones, size)
        y = Expand(x, target) }"""
    model = deploykit.load(parse(text))
    assert [to_text(n) for n in model.outputs[0].shape] == ["batch", "seq", "4"]
    check(
        text,
        {"x": numbers(2, 1, 4), "like": numbers(3, 5)},
        {"x": numbers(1, 1, 4), "like": numbers(1, 1)},
    )


def test_range_over_a_size(check: Check) -> None:
    text = """(float[batch,seq] x) => (int64[a,b] y) {
        s = Shape(x)  one = Constant<value = int64 {1}>()  zero = Constant<value = int64 {0}>()
        n = Gather(s, one)  r = Range(zero, n, one)  y = Expand(r, s) }"""
    model = deploykit.load(parse(text))
    assert [to_text(n) for n in model.outputs[0].shape] == ["batch", "seq"]
    assert not model.data_dims
    check(text, {"x": numbers(2, 5)}, {"x": numbers(1, 1)})


def test_elements_as_a_tensor(check: Check) -> None:
    text = """(float[batch,seq] x) => (int64[4] y, bool[2] z) {
        s = Shape(x)  two = Constant<value_ints = [2]>()  d = Mul(s, two)  e = Div(d, two)
        y = Concat<axis = 0>(d, e)  z = Greater(s, two) }"""
    check(text, {"x": numbers(2, 5)}, {"x": numbers(3, 1)})


OPERATORS = {
    "Add": "y = Add(s, c)",
    "Sub": "y = Sub(s, c)",
    "Div": "y = Div(s, c)",
    "Mod": "y = Mod(s, c)",
    "Neg": "y = Neg(s)",
    "Abs": "t = Sub(s, c)  y = Abs(t)",
    "Min": "y = Min(s, c)",
    "Max": "y = Max(s, c)",
    "Tile": "k = Constant<value_ints = [2]>()  y = Tile(s, k)",
    "Expand": "k = Constant<value_ints = [2, 3]>()  y = Expand(s, k)",
    "Pad": "k = Constant<value_ints = [1, 2]>()  y = Pad(s, k)",
    "ReduceSum": "y = ReduceSum(s)",
    "ReduceProd": "y = ReduceProd<keepdims = 0>(s)",
    "ReduceMax": "y = ReduceMax(s)",
    "ReduceMin": "y = ReduceMin(s)",
    "ScatterND": "k = Constant<value = int64[1,1] {1}>()  u = Constant<value_ints = [9]>()  y = ScatterND(s, k, u)",
    "ScatterElements": """k = Constant<value_ints = [1]>()  u = Constant<value_ints = [9]>()
        y = ScatterElements(s, k, u)""",
    "Cast": "t = Cast<to = 9>(s)  y = Cast<to = 7>(t)",
    "Where": "t = Less(s, c)  y = Where(t, s, c)",
    "And": "t = Less(s, c)  u = Equal(s, c)  v = Not(u)  w = And(t, v)  y = Cast<to = 7>(w)",
    "Or": "t = Greater(s, c)  u = Equal(s, c)  w = Or(t, u)  y = Cast<to = 7>(w)",
    "Reverse": """a = Constant<value_ints = [-1]>()  b = Constant<value_ints = [-9]>()  k = Constant<value_ints = [0]>()
        y = Slice(s, a, b, k, a)""",
    "Transpose": "k = Constant<value_ints = [1, 3]>()  t = Reshape(s, k)  u = Transpose(t)  y = Flatten<axis = 0>(u)",
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_on_sizes(check: Check, name: str) -> None:
    """Every operator of the tables, with its result used as a tensor."""
    rank = {"Expand": "[2,3]", "Transpose": "[1,3]", "ReduceProd": ""}.get(name, "[k]")
    body = f"s = Shape(x)  c = Constant<value_ints = [4, 3, 2]>()  {OPERATORS[name]}"
    text = f"(float[a,b,3] x) => (int64{rank} y) {{ {body} }}"
    model = deploykit.load(parse(text, 18))
    assert not model.data_dims
    assert len(model.module.functions) <= 2, "at most one kernel, which stores the elements"
    check(text, {"x": np.zeros((2, 5, 3), np.float32)}, {"x": np.zeros((7, 1, 3), np.float32)}, opset=18)


def test_sizes_as_floats(check: Check) -> None:
    """Half the size by float arithmetic, and scales that are quotients of sizes. No dim is read at run time."""
    text = """(float[n,c,h,w] x, float[p,q] like) => (float[a,b,d,e] y, float[f,g,i,j] z) {
        two = Constant<value_ints = [2]>()  s = Shape<start = 2>(x)  f = Cast<to = 1>(s)
        half = Constant<value_floats = [0.5]>()  m = Mul(f, half)  low = Floor(m)  n = Cast<to = 7>(low)
        one = Constant<value_ints = [1]>()  up = Max(n, one)
        head = Shape<end = 2>(x)  size = Concat<axis = 0>(head, up)  y = Resize(x, , , size)
        t = Shape(like)  g = Cast<to = 1>(t)  r = Div(g, f)  ones = Constant<value_floats = [1.0, 1.0]>()
        scales = Concat<axis = 0>(ones, r)  z = Resize<mode = "linear">(x, , scales) }"""
    model = deploykit.load(parse(text))
    assert not model.data_dims
    assert [to_text(n) for n in model.outputs[1].shape] == ["n", "c", "p", "q"]
    assert to_text(model.outputs[0].shape[2]) == "max(1, floor(h/2))"
    check(
        text,
        {"x": numbers(1, 2, 4, 8), "like": numbers(2, 12)},
        {"x": numbers(2, 1, 1, 4), "like": numbers(3, 2)},
        rtol=1e-4,
    )


def test_padding_to_whole_strides(check: Check) -> None:
    """Audio codecs compute this padding before a convolution of stride 2. A ceiling of floats is a size as well."""
    text = """(float[batch,4,samples] x) => (float[a,b,c] y) {
        s = Shape<start = 2>(x)  f = Cast<to = 1>(s)  two = Constant<value_floats = [2.0]>()
        ratio = Div(f, two)  steps = Ceil(ratio)  n = Cast<to = 7>(steps)
        stride = Constant<value_ints = [2]>()  full = Mul(n, stride)  extra = Sub(full, s)
        none = Constant<value_ints = [0]>()  pads = Concat<axis = 0>(none, none, none, none, none, extra)
        y = Pad<mode = "reflect">(x, pads) }"""
    model = deploykit.load(parse(text))
    assert not model.data_dims
    assert to_text(model.outputs[0].shape[2]) == "samples - ((samples + 1) % 2) + 1"
    check(text, {"x": numbers(2, 4, 7)}, {"x": numbers(1, 4, 12)})


def test_a_table_of_sizes_is_a_tensor(check: Check) -> None:
    """Relative positions, for instance. A kernel that chooses among hundreds of formulas would take minutes to
    compile."""
    text = """(float[seq,3] x) => (int64[18,a] y) {
        s = Shape<end = 1>(x)  first = Constant<value = int64 {-9}>()  last = Constant<value = int64 {9}>()
        one = Constant<value = int64 {1}>()  steps = Range(first, last, one)  places = Add(steps, s)
        axis = Constant<value_ints = [1]>()  column = Unsqueeze(places, axis)
        shape = Constant<value_ints = [18, 32]>()  y = Expand(column, shape) }"""
    functions = deploykit.load(parse(text)).module.functions
    assert max(len(str(function)) for function in functions.values()) < 4000
    check(text, {"x": numbers(7, 3)}, {"x": numbers(1, 3)})


def test_a_folded_slice_of_a_constant_is_a_constant(check: Check) -> None:
    """Its elements are not contiguous in the constant."""
    text = """(float[n,2] x) => (float[n,2] y) {
        table = Constant<value = float[2,3] {1, 2, 3, 4, 5, 6}>()  turned = Transpose(table)
        zero = Constant<value_ints = [0]>()  two = Constant<value_ints = [2]>()
        row = Slice(turned, zero, two, zero)  y = MatMul(x, row) }"""
    check(text, {"x": numbers(3, 2)})
    scaled = text.replace("MatMul(x, row)", "Expand(row, size)").replace("row =", "size = Shape(x)  row =")
    check(scaled, {"x": numbers(2, 2)})


def test_a_slice_of_a_table_keeps_the_sequence_length(check: Check) -> None:
    """Position embeddings: `min(seq, 512)` rows are added to `seq` rows repeatedly. The result has `seq` rows."""
    text = """(float[batch,seq,4] x, float[512,4] table) => (float[a,b,c] y, float[d,e,f] z) {
        s = Shape<start = 1, end = 2>(x)  zero = Constant<value_ints = [0]>()
        rows = Slice(table, zero, s, zero)  y = Add(x, rows)  more = Slice(table, zero, s, zero)  z = Add(more, y) }"""
    model = deploykit.load(parse(text))
    assert [[to_text(n) for n in port.shape] for port in model.outputs] == [["batch", "seq", "4"]] * 2
    assert len(model.requirements) == 1
    table = numbers(512, 4, seed=1)
    check(text, {"x": numbers(2, 5, 4), "table": table}, {"x": numbers(1, 1, 4), "table": table})
    assert not deploykit.load(parse(text), {"seq": (1, 512)}).requirements


def test_outputs_without_shapes(check: Check) -> None:
    model = parse("(float[n, 3] x) => (float[3, n] y) { y = Transpose(x) }")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    check(model, *({"x": numbers(n, 3)} for n in (1, 5)))
    with pytest.raises(onnx.checker.ValidationError):
        onnx.checker.check_model(model)


FRAMES = """(float[batch, 1, samples] wave) => (float[batch, frames, parts, 2] y, float[batch, frames, 4] z) {
    one = Constant <value_ints = [1]> ()
    pooled = AveragePool <kernel_shape = [10], strides = [5]> (wave)
    four = Concat <axis = 1> (pooled, pooled, pooled, pooled)
    rows = Transpose <perm = [0, 2, 1]> (four)
    batch = Shape <start = 0, end = 1> (wave)
    samples = Shape <start = 2> (wave)
    five = Constant <value_ints = [5]> ()
    ten = Constant <value_ints = [10]> ()
    over = Sub(samples, ten)
    steps = Div(over, five)
    frames = Add(steps, one)
    rest = Constant <value_ints = [-1, 2]> ()
    shape = Concat <axis = 0> (batch, frames, rest)
    y = Reshape(rows, shape)
    minus = Constant <value_ints = [-1]> ()
    flat = Concat <axis = 0> (batch, frames, minus)
    again = Reshape(y, flat)
    z = Add(again, rows)
}"""


def test_unnamed_sizes_may_differ(check: Check) -> None:
    """Paddle gives all unknown sizes the same name."""
    model = parse("(float[n,m] x) => (float[k,l] y) { y = Transpose(x) }")
    for dim in model.graph.input[0].type.tensor_type.shape.dim:
        dim.dim_param = "?"
    check(model, {"x": numbers(2, 5)}, {"x": numbers(3, 3)})


def test_a_length_computed_twice_is_one_length(check: Check) -> None:
    """The operator that makes frames of samples and the exporter both compute it. The exporter rounds towards 0."""
    loaded = deploykit.load(parse(FRAMES), {"samples": (10, None)})
    assert [str(size) for size in loaded.outputs[0].shape[2:]] == ["2", "2"]
    runs = [{"wave": numbers(batch, 1, samples)} for batch, samples in ((1, 10), (2, 14), (1, 15), (3, 101))]
    check(FRAMES, *runs, expected=by_onnxruntime(FRAMES, *runs))
