"""Fused kernels with dims that none of their tensors has, with tuples, and with dims of several names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tvm import relax, tirx
from tvm.ir import transform

import deploykit
from deploykit.compiler.graph.merge_kernels import merge_kernels
from deploykit.compiler.schedules import DEVICES
from deploykit.pipeline import graph
from tests.frontends.onnx.harness import by_onnxruntime, numbers, parse

SIZE_OF_KEY = """
    zero = Constant<value_int = 0>()
    one = Constant<value_int = 1>()
    past_shape = Shape(key)
    past = Gather(past_shape, one)
    shape = Shape(ids)
    seq = Gather(shape, one)
"""

MODELS = {
    "positions behind a past": f"""(int64[batch, seq] ids, float[batch, past, 4] key) => (int64[seq] y) {{
        {SIZE_OF_KEY}
        range = Range(zero, seq, one)
        y = Add(range, past)
    }}""",
    "a mask over past and present": f"""(int64[batch, seq] ids, float[batch, past, 4] key) => (float[seq, all] y) {{
        {SIZE_OF_KEY}
        axis = Constant<value_ints = [1]>()
        range = Range(zero, seq, one)
        rows = Add(range, past)
        column = Unsqueeze(rows, axis)
        whole = Add(seq, past)
        keys = Range(zero, whole, one)
        seen = LessOrEqual(keys, column)
        open = Constant<value_float = 0.0>()
        closed = Constant<value_float = -1e4>()
        y = Where(seen, open, closed)
    }}""",
    "a product of sizes": f"""(int64[batch, seq] ids, float[batch, past, 4] key) => (float[batch, past, 4] y) {{
        {SIZE_OF_KEY}
        both = Mul(seq, seq)
        number = Cast<to = 1>(both)
        scaled = Mul(key, number)
        y = Tanh(scaled)
    }}""",
    "as many elements as data say": f"""(int64[batch, seq] ids, float[batch, past, 4] key) =>
        (float[n] y, int64[n] z) {{
        {SIZE_OF_KEY}
        found = NonZero(ids)
        count = Shape<start = 1>(found)
        ones = ConstantOfShape<value = float[1] {{2.0}}>(count)
        number = Cast<to = 1>(past)
        y = Mul(ones, number)
        flat = Squeeze(count)
        range = Range(zero, flat, one)
        z = Add(range, past)
    }}""",
    "both results of a kernel": """(int64[batch, seq] ids, float[batch, past, 4] key) => (float[batch, past, 4] y) {
        four = Constant<value_ints = [4]>()
        values, places = TopK<axis = 2>(key, four)
        numbers = Cast<to = 1>(places)
        y = Add(values, numbers)
    }""",
    "sums of sizes as extents": f"""(int64[batch, seq] ids, float[batch, past, 4] key) => (float[batch, all, 4] y) {{
        {SIZE_OF_KEY}
        numbers = Cast<to = 1>(ids)
        last = Constant<value_ints = [2]>()
        thin = Unsqueeze(numbers, last)
        wide = Concat<axis = 2>(thin, thin, thin, thin)
        joined = Concat<axis = 1>(key, wide)
        whole = Cast<to = 1>(past)
        y = Div(joined, whole)
    }}""",
}
RUNS = [
    {"ids": np.arange(batch * seq).reshape(batch, seq) % 3, "key": numbers(batch, past, 4)}
    for batch, seq, past in ((1, 1, 1), (2, 3, 5), (1, 8, 2), (3, 1, 7))
]


@pytest.mark.parametrize("fuse", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_dims_reach_the_kernels_that_use_them(name: str, fuse: bool, tmp_path: Path) -> None:
    model = parse(MODELS[name])
    deploykit.build(model, output=tmp_path / "model", fuse=fuse)
    with deploykit.open(tmp_path / "model") as session:
        for feeds, wanted in zip(RUNS, by_onnxruntime(model, *RUNS), strict=True):
            for got, want in zip(session.run(feeds).values(), wanted, strict=True):
                assert (got.dtype, got.shape) == (want.dtype, want.shape)
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_a_dim_of_no_tensor_is_a_parameter() -> None:
    module = graph(deploykit.load(parse(MODELS["positions behind a past"])), DEVICES["scalar-c"])
    passes = [relax.transform.AnnotateTIROpPattern(), relax.transform.FuseOps(2)]
    merged = merge_kernels(transform.Sequential(passes)(module))
    (kernel,) = (func for name, func in merged.functions.items() if name.name_hint.startswith("fused_range"))
    assert [param.name for param in kernel.params if not tirx.is_buffer_var(param)] == ["past"]
    (call,) = (b.value for block in merged["main"].body.blocks for b in block.bindings[:1])
    assert call.op.name == "relax.call_tir"
    assert [argument.name for argument in call.args[1].fields] == ["past"]
