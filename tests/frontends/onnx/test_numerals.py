"""Cast between numbers and strings. Results are those of ONNX Runtime, or of Python where ONNX Runtime fails."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import deploykit
from deploykit.compiler.operators.strings.decimals import exponent, powers
from deploykit.compiler.operators.strings.printing import printed
from tests.frontends.onnx.harness import Check, by_onnxruntime

STRING = TensorProto.STRING
FLOATS = ("float16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")


def model(source: int, target: int) -> onnx.ModelProto:
    node = helper.make_node("Cast", ["x"], ["y"], to=target)
    x, y = (helper.make_tensor_value_info(*port, ["n"]) for port in (("x", source), ("y", target)))
    graph = helper.make_graph([node], "model", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def kind(dtype: str) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def floats(dtype: str, count: int = 2000) -> np.ndarray:
    """Random bits, special numbers, numbers around powers of ten, and ties of the eighth digit."""
    rng = np.random.default_rng(0)
    whole = {"float16": np.uint16, "float32": np.uint32, "float64": np.uint64}[dtype]
    drawn = rng.integers(0, np.iinfo(whole).max, count, dtype=whole, endpoint=True).view(dtype)
    ties = (rng.integers(10**7, 10**8, count) * 2 + 1) / 2.0 ** rng.integers(1, 20, count)
    larger = (rng.integers(10**7, 10**8, count) * 10 + 5) * 10.0 ** rng.integers(0, 5, count)
    tens = 10.0 ** np.arange(-8, 12)
    info = np.finfo(dtype)
    special = [0.0, -0.0, np.nan, np.inf, -np.inf, info.max, -info.max, info.tiny, info.smallest_subnormal, 99999999.5]
    with np.errstate(over="ignore"):
        others = np.concatenate([ties, larger, tens, -tens, tens * 9.99999995, special]).astype(dtype)
    return np.concatenate([drawn, others])


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_are_printed(check: Check, dtype: str) -> None:
    x = {"x": floats(dtype)}
    check(model(kind(dtype), STRING), x, expected=by_onnxruntime(model(kind(dtype), STRING), x))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_are_printed(check: Check, dtype: str) -> None:
    if dtype == "bool":
        numbers = np.array([True, False, True])
    else:
        info = np.iinfo(dtype)
        numbers = np.array([0, 1, 9, 10, 99, 100, info.max, info.min, info.max - 1, info.min + 1], dtype)
    x = {"x": numbers}
    check(model(kind(dtype), STRING), x, expected=by_onnxruntime(model(kind(dtype), STRING), x))


def test_constants_are_printed_in_the_same_way() -> None:
    for dtype in FLOATS:
        x = floats(dtype, 200)
        (want,) = by_onnxruntime(model(kind(dtype), STRING), {"x": x})
        assert [printed(number) for number in x] == want[0].tolist()
    assert [printed(number) for number in (np.True_, np.uint64(2**64 - 1), np.int8(-5))] == ["1", str(2**64 - 1), "-5"]


def numerals(count: int = 2000) -> list[str]:
    """Shortest and long decimals, ties between two floats, and special names."""
    rng = np.random.default_rng(1)
    texts = [repr(number) for number in floats("float64", count)[:count].tolist() if abs(number) > 1e-307]
    for _ in range(count):
        digits = "".join(map(str, rng.integers(0, 10, rng.integers(1, 20))))
        place = rng.integers(0, len(digits) + 1)
        power = f"{rng.choice(['e', 'E'])}{rng.choice(['+', '-', ''])}{rng.integers(0, 250)}"
        texts.append(f"{rng.choice(['', '-', '+'])}{digits[:place]}.{digits[place:]}{rng.choice(['', power])}")
    for odd in range(1, 200, 2):
        tie = 2**53 + odd
        texts += [str(tie), str(4 * tie), f"{5 * tie}e-1", f"{tie}.{'0' * 30}1", f"0.{tie}e17", f"{tie * 2}.0e-4"]
    return [*texts, "nan", "NaN", "INF", "-inf", "+Infinity", " 1.5\n", "1e308", "5.", ".5", "0", "-0", "0e999"]


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_are_read(check: Check, dtype: str) -> None:
    x = np.array(numerals(), object)
    doubles = np.array([float(text) for text in x])
    assert np.array_equal(by_onnxruntime(model(STRING, kind("float64")), {"x": x})[0][0], doubles, equal_nan=True)
    with check.session(model(STRING, kind(dtype)), {"x": x}) as session, np.errstate(over="ignore"):
        got = session(x=x)["y"]
        want = doubles if dtype == "float64" else doubles.astype(np.float32).astype(dtype)
        np.testing.assert_array_equal(got, want)
        numbers = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got)[numbers], np.signbit(want)[numbers])


def test_digits_after_the_19th_change_the_last_bit_at_most(check: Check) -> None:
    rng = np.random.default_rng(2)
    drawn = ["".join(map(str, rng.integers(0, 10, rng.integers(20, 60)))) for _ in range(2000)]
    texts = [f"{digits}e{rng.integers(-300, 240)}" for digits in drawn]
    x, want = np.array(texts, object), np.array([float(text) for text in texts])
    with check.session(model(STRING, kind("float64")), {"x": x}) as session:
        np.testing.assert_array_max_ulp(session(x=x)["y"], want, 1)


def test_numbers_beyond_all_floats(check: Check) -> None:
    texts = ["1e999", "-1e999", "1e-400", "5e-324", "2.5e-324", "2.4e-324", "-1e-320", "2.2250738585072011e-308"]
    texts += ["1" * 400, f"0.{'0' * 330}1", f"1{'0' * 400}e-400", f"0.{'0' * 400}1e401", "1e99999999999999999999"]
    x = np.array(texts, object)
    with check.session(model(STRING, kind("float64")), {"x": x}) as session:
        np.testing.assert_array_equal(session(x=x)["y"], [float(text) for text in texts])


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_are_read(check: Check, dtype: str) -> None:
    texts = ["0", "-1", "+7", "\t12 ", f"{2**63 - 1}", f"-{2**63}", "300", "12.75", "-5.5", "007", "70000", "-0", "5."]
    x = {"x": np.array(texts, object)}
    check(model(STRING, kind(dtype)), x, expected=by_onnxruntime(model(STRING, kind(dtype)), x))
    if dtype == "uint64":
        largest = {"x": np.array([str(2**64 - 1)], object)}
        check(model(STRING, kind(dtype)), largest, expected=[[np.array([2**64 - 1], np.uint64)]])


NO_FLOATS = ["", " ", "abc", "1.5abc", "1e", "1e+", "-", ".", "0x10", "1_0", "1,5", "1 5", "nane", "--1", "é", "\u0661"]
NO_INTEGERS = ["", "-", "1e3", "abc", ".5", "nan", "inf", str(2**63), str(-(2**63) - 1), str(2**64), "9" * 40, "1.2.3"]


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_other_strings_are_refused(check: Check, dtype: str) -> None:
    texts = NO_FLOATS if dtype == "float32" else NO_INTEGERS
    longest = {"x": np.array(["1" * 60, "2" * 60], object)}
    with check.session(model(STRING, kind(dtype)), longest) as session:
        for text in texts:
            with pytest.raises(deploykit.ShapeError, match=r"strings that are no number in 'x' .* at element 1"):
                session(x=np.array(["1", text], object))


def test_casts_in_a_graph(check: Check) -> None:
    """Numbers of a computed shape and of constants become strings and return."""
    text = """(float[n,m] x, string[k] like) => (string[a,b] shown, float[c,d] back, string[e] shape, string[f] fixed) {
        shown = Cast<to=8>(x)
        back = Cast<to=1>(shown)
        size = Shape(x)
        shape = CastLike(size, like)
        numbers = Constant<value_floats=[0.1, -1e10, 3.0]>()
        fixed = Cast<to=8>(numbers)
    }"""
    feeds = [{"x": np.float32([[0.5, -2], [1e-9, 3]][:n]), "like": np.array(["a"], object)} for n in (1, 2)]
    check(text, *feeds, expected=by_onnxruntime(text, *feeds))


def test_powers_of_ten_have_128_bits() -> None:
    for p, (high, low) in zip(range(-342, 309), powers(-342, 308).tolist(), strict=True):
        mantissa = (high << 64) + low
        assert mantissa >> 127 == 1
        scale = exponent(p)
        exact = 10 ** max(p, 0) << max(-scale, 0)
        found = mantissa * 10 ** max(-p, 0) << max(scale, 0)
        assert exact <= found < exact + (10 ** max(-p, 0) << max(scale, 0))
