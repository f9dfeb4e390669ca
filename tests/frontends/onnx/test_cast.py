"""Casts with symbolic dims: from every dtype to every other, including dtypes that sessions do not take."""

import platform

import numpy as np
import pytest
from onnx import numpy_helper

from tests.frontends.onnx.harness import Check, by_onnxruntime, parse

CODES = {
    "float": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10,
    "double": 11, "uint32": 12, "uint64": 13, "bfloat16": 16, "float8e4m3fn": 17, "float8e4m3fnuz": 18,
    "float8e5m2": 19, "float8e5m2fnuz": 20, "uint4": 21, "int4": 22, "float4e2m1": 23, "uint2": 25, "int2": 26,
}  # fmt: skip
SOURCES = {"float": np.float32, "int32": np.int32, "uint8": np.uint8, "bool": np.bool_, "float16": np.float16}
SOURCES |= {"double": np.float64}


@pytest.mark.sampled(part=8)
@pytest.mark.parametrize("source", SOURCES)
def test_to_every_dtype_and_back(check: Check, source: str) -> None:
    names = [name for name in CODES if name != source]
    outputs = ", ".join(f"double[n, m] y{i}" for i in range(len(names)))
    nodes = "\n".join(
        f"t{i} = Cast <to = {CODES[name]}> (x)\ny{i} = Cast <to = 11> (t{i})" for i, name in enumerate(names)
    )
    model = parse(f"({source}[n, m] x) => ({outputs}) {{ {nodes} }}", opset=25)
    low = -3 if source in ("float", "int32", "float16") else 0
    runs = []
    for n, m in ((1, 1), (3, 7)):
        values = np.random.default_rng(n).integers(low, 4, (n, m)).astype(np.float64)
        runs.append({"x": (values + (0.3 if "float" in source else 0)).astype(SOURCES[source])})
    check(model, *runs)


BEYOND = [np.nan, np.inf, -np.inf, 3e9, -3e9, 300, -300, -1.5, 50.9, 1e19, -1e19, 70000, -70000, 2.0**31, -(2.0**31)]
BEYOND += [2.0**31 - 128, 5e9, 2.0**32, 2.0**63, -(2.0**63), 2.0**64, -0.0, 1e-40, -0.9, 127.5, -128.9, 255.9]
"""Floats, most of which do not fit some integer dtype."""

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def cut_off(x: np.ndarray, dtype: str) -> np.ndarray:
    """What x86-64 converts floats to, one by one."""
    with np.errstate(all="ignore"):
        return x.astype(np.int64).astype(dtype) if dtype == "uint32" else x.astype(dtype)


@pytest.mark.parametrize("source", ["float", "double", "float16"])
def test_floats_that_do_not_fit(check: Check, source: str) -> None:
    nodes = " ".join(f"{name} = Cast <to = {CODES[name]}> (x)" for name in INTEGERS)
    outputs = ", ".join(f"{name}[n] {name}" for name in INTEGERS)
    with np.errstate(over="ignore"):
        x = np.resize(np.array(BEYOND).astype(SOURCES[source]), 70)
    runs = [{"x": x[:count]} for count in (1, len(BEYOND), 70)]
    check(
        f"({source}[n] x) => ({outputs}) {{ {nodes} }}",
        *runs,
        expected=[[cut_off(run["x"], name) for name in INTEGERS] for run in runs],
    )


@pytest.mark.skipif(platform.machine() != "x86_64", reason="other processors convert differently")
@pytest.mark.parametrize("name", [name for name in INTEGERS if name != "uint32"])
def test_floats_that_do_not_fit_as_in_onnxruntime(name: str) -> None:
    """ONNX Runtime gives one of two results for uint32, depending on the place."""
    x = np.array(BEYOND, np.float32)
    model = f"(float[n] x) => ({name}[n] y) {{ y = Cast <to = {CODES[name]}> (x) }}"
    (results,) = by_onnxruntime(model, {"x": x})
    np.testing.assert_array_equal(results[0], cut_off(x, name))


def test_constants_that_do_not_fit(check: Check) -> None:
    """Constants are converted when the model is built."""
    x = np.array(BEYOND, np.float32)
    outputs = ", ".join(f"{name}[n] y_{name}" for name in INTEGERS)
    nodes = " ".join(f"c_{n} = Cast <to = {CODES[n]}> (c) y_{n} = Expand(c_{n}, shape)" for n in INTEGERS)
    model = parse(f"(int64[1] shape) => ({outputs}) {{ {nodes} }}")
    model.graph.initializer.append(numpy_helper.from_array(x, "c"))
    check(model, {"shape": np.array([x.size])}, expected=[[cut_off(x, name) for name in INTEGERS]])


def test_integers_keep_their_low_bits(check: Check) -> None:
    model = """(int64[n] x) => (int8[n] a, uint16[n] b, int32[n] c, uint32[n] d) {
        a = Cast <to = 3> (x)
        b = Cast <to = 4> (x)
        c = Cast <to = 6> (x)
        d = Cast <to = 12> (x)
    }"""
    check(model, {"x": np.array([200, -1, 2**40 + 5, -(2**33) - 7])})


def test_bitcast_keeps_bits(check: Check) -> None:
    model = """(float[n] x, uint8[n] u) => (int32[n] a, float[n] b, int8[n] c) {
        a = BitCast <to = 6> (x)
        b = BitCast <to = 1> (a)
        c = BitCast <to = 3> (u)
    }"""
    feeds = {"x": np.array([1.5, -0.0, np.inf], np.float32), "u": np.array([0, 127, 255], np.uint8)}
    check(model, feeds, opset=26)
