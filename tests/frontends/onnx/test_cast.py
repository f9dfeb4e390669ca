"""Casts with symbolic dims: from every dtype to every other, including dtypes that sessions do not take."""

import numpy as np
import pytest

from tests.frontends.onnx.harness import Check, parse

CODES = {
    "float": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10,
    "double": 11, "uint32": 12, "uint64": 13, "bfloat16": 16, "float8e4m3fn": 17, "float8e4m3fnuz": 18,
    "float8e5m2": 19, "float8e5m2fnuz": 20, "uint4": 21, "int4": 22, "float4e2m1": 23, "uint2": 25, "int2": 26,
}  # fmt: skip
SOURCES = {"float": np.float32, "int32": np.int32, "uint8": np.uint8, "bool": np.bool_, "float16": np.float16}


@pytest.mark.sampled(part=2)
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


def test_floats_outside_the_range_of_an_integer_are_clamped(check: Check) -> None:
    model = parse("(float[n] x) => (int32[n] a, int64[n] b) { a = Cast <to = 6> (x) b = Cast <to = 7> (x) }")
    x = np.array([3e9, -3e9, 1e30, -1e30, np.nan, -1.9], np.float32)
    low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    a = np.array([2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 0, -1], np.int32)
    b = np.array([3_000_000_000, -3_000_000_000, high, low, 0, -1], np.int64)
    check(model, {"x": x}, expected=[[a, b]])


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
