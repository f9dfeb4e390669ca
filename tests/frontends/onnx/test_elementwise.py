"""Elementwise operators and activations with symbolic dims: one model per table, run at several sizes."""

import numpy as np
import pytest

from tests.frontends.onnx.harness import Check, numbers, parse

FLOAT = {
    "real": "Abs Neg Sign Exp Floor Ceil Round Erf Sin Cos Tan Atan Sinh Cosh Asinh Tanh Sigmoid IsNaN Relu Elu Selu "
    "Celu HardSigmoid HardSwish Softplus Softsign Mish LeakyRelu ThresholdedRelu Shrink Gelu",
    "unit": "Asin Acos Atanh Sqrt Log Reciprocal",
}


def table(operators: str, dtype: str) -> str:
    names = operators.split()
    outputs = ", ".join(f"{'bool' if n == 'IsNaN' else dtype}[n] y{i}" for i, n in enumerate(names))
    nodes = "\n".join(f"y{i} = {name}(x)" for i, name in enumerate(names))
    return f"({dtype}[n] x) => ({outputs}) {{ {nodes} }}"


@pytest.mark.parametrize("domain", FLOAT)
def test_functions_of_one_operand(check: Check, domain: str) -> None:
    draw = numbers if domain == "real" else lambda n: np.random.default_rng(n).uniform(0.01, 0.99, n)
    runs = [{"x": np.asarray(draw(n), np.float32)} for n in (1, 7, 64)]
    check(table(FLOAT[domain], "float"), *runs, opset=22, rtol=3e-5)


def test_functions_of_half_precision_are_computed_in_single(check: Check) -> None:
    check(table("Exp Sigmoid Tanh Gelu Softplus Round", "float16"), {"x": numbers(9, dtype="float16")}, rtol=2e-3)


def test_special_values(check: Check) -> None:
    model = """(float[n] x) => (bool[n] a, bool[n] b, bool[n] c, bool[n] d, float[n] e) {
        a = IsNaN(x)
        b = IsInf(x)
        c = IsInf <detect_negative = 0> (x)
        d = IsInf <detect_positive = 0> (x)
        e = Sign(x)
    }"""
    check(model, {"x": np.array([0, -0.0, 2, -3, np.inf, -np.inf, np.nan], np.float32)})


def test_integers_and_bits(check: Check) -> None:
    model = """(int32[n] x, int32[n] y, uint8[n] u, uint8[n] s) =>
        (int32[n] a, int32[n] b, int32[n] c, int32[n] d, int32[n] e, uint8[n] f, uint8[n] g, uint8[n] h, int32[n] i) {
        a = Div(x, y)
        b = Mod(x, y)
        c = Mod <fmod = 1> (x, y)
        d = Abs(x)
        e = Sign(x)
        f = BitShift <direction = "LEFT"> (u, s)
        g = BitShift <direction = "RIGHT"> (u, s)
        h = BitwiseNot(u)
        i = BitwiseXor(x, y)
    }"""
    rng = np.random.default_rng(0)
    feeds = {
        "x": rng.integers(-50, 50, 20).astype(np.int32),
        "y": np.where(rng.integers(0, 2, 20), 7, -3).astype(np.int32),
        "u": rng.integers(0, 256, 20).astype(np.uint8),
        "s": rng.integers(0, 8, 20).astype(np.uint8),
    }
    check(model, feeds)


def test_division_by_zero_does_not_trap(check: Check) -> None:
    model = parse("(int32[n] x, int32[n] y) => (int32[n] a, int32[n] b) { a = Div(x, y) b = Mod(x, y) }")
    zeros = np.zeros(2, np.int32)
    check(model, {"x": np.array([5, -7], np.int32), "y": zeros}, expected=[[zeros, zeros]])


def test_shifts_by_all_bits_leave_the_sign(check: Check) -> None:
    model = parse(
        """(int8[n] x, int8[n] y) => (int8[n] a, int8[n] b) {
        a = BitShift <direction = "LEFT"> (x, y)
        b = BitShift <direction = "RIGHT"> (x, y)
    }""",
        opset=28,
    )
    x, y = np.array([-5, 5, -5, 64], np.int8), np.array([8, 9, -1, 1], np.int8)
    check(model, {"x": x, "y": y}, expected=[[np.array([0, 0, 0, -128], np.int8), np.array([-1, 0, -1, 32], np.int8)]])


@pytest.mark.parametrize("fmod", [0, 1])
def test_remainders_of_floats(check: Check, fmod: int) -> None:
    text = f"(double[n] x, double[n] y) => (double[n] z) {{ z = Mod <fmod = {fmod}> (x, y) }}"
    x = np.array([5.3, -5.3, 5.3, -5.3, 6, -6, 0.0])
    y = np.array([2.1, 2.1, -2.1, -2.1, 3, -3, 2.0])
    check(parse(text, opset=28), {"x": x, "y": y}, expected=[[np.fmod(x, y) if fmod else np.mod(x, y)]])


def test_operands_of_any_sizes_broadcast(check: Check) -> None:
    model = """(float[n, 1] x, float[m] y, bool[n, m] c, int64[1] k) =>
        (float[n, m] a, float[n, m] b, bool[n, m] d, float[n, m] e, float[n, m] f, float[n, m] g, float[n, 1] h) {
        a = Add(x, y)
        b = Max(x, y, x)
        d = Less(x, y)
        e = Where(c, x, y)
        f = Mean(b, y)
        g = PRelu(b, y)
        h = Pow(x, k)
    }"""
    rng = np.random.default_rng(1)
    runs = [
        {
            "x": numbers(n, 1, seed=n),
            "y": numbers(m, seed=m),
            "c": rng.integers(0, 2, (n, m)).astype(bool),
            "k": np.array([3]),
        }
        for n, m in ((1, 1), (3, 5), (4, 1))
    ]
    check(model, *runs)


def test_limits_of_clip_are_optional(check: Check) -> None:
    model = """(float[n] x, float hi, int32[n] i, int32 low) => (float[n] a, float[n] b, int32[n] c) {
        a = Clip(x, , hi)
        b = Clip(x)
        c = Clip(i, low)
    }"""
    check(model, {"x": numbers(5), "hi": np.float32(0.5), "i": np.arange(5, dtype=np.int32), "low": np.int32(2)})


@pytest.mark.parametrize(("base", "exponent"), [("float", "int64"), ("int64", "float"), ("int32", "int32")])
def test_powers_of_mixed_dtypes(check: Check, base: str, exponent: str) -> None:
    dtypes = {"float": np.float32, "int64": np.int64, "int32": np.int32}
    feeds = {"x": np.array([1, 2, 3, 5], dtypes[base]), "y": np.array([3, 0, 2, 1], dtypes[exponent])}
    check(f"({base}[n] x, {exponent}[n] y) => ({base}[n] z) {{ z = Pow(x, y) }}", feeds)


@pytest.mark.parametrize("exponent", [-1, 1, 2, 3, 0.5])
def test_powers_of_constant_exponents(check: Check, exponent: float) -> None:
    model = f"(float[n] x) => (float[n] y) {{ e = Constant <value_floats = [{float(exponent)}]> () y = Pow(x, e) }}"
    check(model, {"x": np.array([0.5, 1, 2.5], np.float32)})


def test_nan_is_kept(check: Check) -> None:
    model = """(float[n] x, float[n] y, float low, float high) =>
        (float[n] a, float[n] b, float[n] c, float[n] d, float[n] e) {
        a = Relu(x)
        b = Clip(x, low, high)
        c = Max(x, y)
        d = Min(y, x)
        e = HardSigmoid(x)
    }"""
    nan = np.nan
    feeds = {"x": np.array([nan, 1, -2], np.float32), "y": np.array([0, nan, 3], np.float32)}
    limits = {"low": np.float32(-1), "high": np.float32(0.5)}
    expected = [[nan, 1, 0], [nan, 0.5, -1], [nan, nan, 3], [nan, nan, -2], [nan, 0.7, 0.1]]
    check(model, feeds | limits, expected=[[np.array(e, np.float32) for e in expected]])
