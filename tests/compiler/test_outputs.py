"""Any tensors of a model may be further outputs: a cache needs the keys, a feature extractor the results of layers.

Passes that fuse operators into one kernel must keep such tensors.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import onnx
import pytest

import deploykit
from bench.models import MODELS
from deploykit.checks.sources import RandomSource
from deploykit.checks.verify import verify
from deploykit.compiler.codegen.native.cpus import find_cpu
from deploykit.compiler.observer import Observer
from deploykit.compiler.variant import native
from deploykit.pipeline import compile_program
from tests.seeded import seeded

SHARED = """<ir_version: 10, opset_import: ["" : 21]> shared (float[b, s, 24] x) => (float[b, s, 24] y) {
    parts = Constant<value_ints = [0, 0, 2, -1]>()  whole = Constant<value_ints = [0, 0, -1]>()
    xk = MatMul(x, wk)  xk4 = Reshape(xk, parts)  k = Transpose<perm = [0, 2, 3, 1]>(xk4)
    xv = MatMul(x, wv)  xv4 = Reshape(xv, parts)  v = Transpose<perm = [0, 2, 1, 3]>(xv4)
    xq = MatMul(x, wq)  xq4 = Reshape(xq, parts)  q = Transpose<perm = [0, 2, 1, 3]>(xq4)
    s1 = MatMul(q, k)  p1 = Softmax<axis = -1>(s1)  o1 = MatMul(p1, v)  t1 = Transpose<perm = [0, 2, 1, 3]>(o1)
    q2 = Transpose<perm = [0, 2, 1, 3]>(t1)
    s2 = MatMul(q2, k)  p2 = Softmax<axis = -1>(s2)  o2 = MatMul(p2, v)  t2 = Transpose<perm = [0, 2, 1, 3]>(o2)
    sum = Add(t1, t2)  y = Reshape(sum, whole)
}"""
"""Two attentions over the same keys and values. The result of the first one is the query of the second."""

BRANCHES = """<ir_version: 10, opset_import: ["" : 21]> branches (float[b, 8, h, w] x) => (float[b, 16] y) {
    low = Constant<value_float = -0.5>()  spatial = Constant<value_ints = [2, 3]>()
    c1 = Conv<pads = [1, 1, 1, 1]>(x, k1)  r1 = Relu(c1)  c2 = Conv(r1, k2)  a = Add(c2, x)  r2 = Relu(a)
    d = Conv<group = 8, pads = [1, 1, 1, 1]>(r2, k3)  e = Sigmoid(d)  m = Mul(d, e)  j = Concat<axis = 1>(m, r2)
    u = ConvTranspose<strides = [2, 2]>(j, k4)  n = Clip(u, low)
    p = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(n)
    left, right = Split<axis = 1, num_outputs = 2>(p)  t = Transpose<perm = [0, 1, 3, 2]>(right)
    f = ReduceMean(t, spatial)  g = ReduceMax(left, spatial)  i = Concat<axis = 1>(f, g)  y = Flatten(i)
}"""

WEIGHTS: Mapping[str, dict[str, tuple[int, ...]]] = {
    SHARED: dict.fromkeys(("wk", "wv", "wq"), (24, 24)),
    BRANCHES: {"k1": (16, 8, 3, 3), "k2": (8, 16, 1, 1), "k3": (8, 1, 3, 3), "k4": (16, 16, 2, 2)},
}

TESTED: Mapping[str, Callable[[], onnx.ModelProto]] = {
    "encoder": MODELS["encoder"],
    "cnn": MODELS["cnn"],
    "shared": lambda: seeded(SHARED, WEIGHTS[SHARED]),
    "branches": lambda: seeded(BRANCHES, WEIGHTS[BRANCHES]),
}

AT = {
    "encoder": {"batch": (1, 3), "seq": (1, 7, 16)},
    "cnn": {"batch": (1, 3)},
    "shared": {"b": (1, 2), "s": (1, 5, 33)},
    "branches": {"b": (1, 2), "h": (1, 5), "w": (1, 9)},
}

HALF = 0.5

SHARES = 6
"""In so many tests the intermediate results of a model are outputs one by one."""

SUBSETS = 4
"""Number of random choices of intermediate results for each model, in addition to all of them together."""


def intermediates(model: onnx.ModelProto) -> dict[str, onnx.ValueInfoProto]:
    """The tensors between the inputs and the outputs that are computed at run time."""
    inferred = onnx.shape_inference.infer_shapes(model)
    constants = {name for node in model.graph.node if node.op_type == "Constant" for name in node.output}
    return {info.name: info for info in inferred.graph.value_info if info.name not in constants}


def with_outputs(model: onnx.ModelProto, names: Collection[str], *, own: bool) -> onnx.ModelProto:
    """The model with these further outputs; unless `own`, without its own outputs."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    if not own:
        del copy.graph.output[:]
    infos = intermediates(model)
    copy.graph.output.extend(infos[name] for name in names)
    return copy


@pytest.mark.slow
def test_the_keys_of_an_attention(tmp_path: Path) -> None:
    compare("shared", ["k"], tmp_path)


@pytest.mark.sampled(part=16)
@pytest.mark.slow
@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("name", TESTED)
def test_every_intermediate_alone(name: str, share: int) -> None:
    model = TESTED[name]()
    variant = native(find_cpu("x86-64-v3"))
    for intermediate in list(intermediates(model))[share::SHARES]:
        imported = deploykit.load(with_outputs(model, [intermediate], own=True))
        program = compile_program(imported, variant, Observer(), {})
        assert program is not None
        assert len(program.functions[0].outputs) == len(model.graph.output) + 1


@pytest.mark.sampled(part=12)
@pytest.mark.slow
@pytest.mark.parametrize("choice", range(SUBSETS + 1))
@pytest.mark.parametrize("name", TESTED)
def test_random_intermediates(name: str, choice: int, tmp_path: Path) -> None:
    draw = random.Random(f"{name} {choice}")
    found = list(intermediates(TESTED[name]()))
    names = draw.sample(found, draw.randint(1, len(found))) if choice else found
    compare(name, names, tmp_path, own=not choice or draw.random() < HALF)


def compare(name: str, names: Collection[str], folder: Path, *, own: bool = True) -> None:
    """Compare the model with these further outputs with ONNX Runtime."""
    path = folder / "model.onnx"
    onnx.save(with_outputs(TESTED[name](), names, own=own), path)
    deploykit.build(path, output=folder / "dist")
    inputs = {"ids": RandomSource(0, 0, 999)} if name == "encoder" else {}
    report = verify(folder / "dist", path, at=AT[name], inputs=inputs)
    assert report.within, report
