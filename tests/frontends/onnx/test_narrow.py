"""Narrow numbers compared with ml_dtypes: every code, every float16, and the neighbourhood of each rounding tie."""

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
import tvm
from onnx.numpy_helper import saturate_cast, to_float8e8m0
from tvm import ir, te

from deploykit.compiler.dtypes import numpy_dtype, storage_dtype
from deploykit.compiler.operators.building import float_formats as narrow

FLOATS = [*narrow.FORMATS, "float8_e8m0"]


def compute(function: Callable[[ir.Expr], ir.Expr], values: np.ndarray, dtype: str) -> np.ndarray:
    """`function` applied to every element by compiled code."""
    x = te.placeholder(values.shape, str(values.dtype), name="x")
    y = te.compute(values.shape, lambda i: function(x(i)), name="y")
    assert y.dtype == dtype
    built = tvm.compile(te.create_prim_func([x, y]), target="llvm")
    out = tvm.runtime.tensor(np.zeros(values.shape, dtype))
    built(tvm.runtime.tensor(values), out)
    return out.numpy()


def codes(dtype: str) -> np.ndarray:
    width = {"bfloat16": 16, "float4_e2m1": 4}.get(dtype, 8)
    return np.arange(1 << width).astype(storage_dtype(dtype))


def samples(dtype: str) -> np.ndarray:
    """Every float16. For each pair of neighbouring numbers of `dtype`, also their middle and the numbers beside it."""
    halves = np.arange(1 << 16).astype(np.uint16).view(np.float16).astype(np.float32)
    numbers = codes(dtype).view(numpy_dtype(dtype)).astype(np.float32)
    numbers = np.unique(np.abs(numbers[np.isfinite(numbers)]))
    middle = (numbers[1:] / 2 + numbers[:-1] / 2).astype(np.float32)
    with np.errstate(over="ignore"):
        ends = numbers[-1] * np.array([1.03, 1.06, 1.2, 1.5, 2], np.float32)
        beside = [np.nextafter(middle, np.float32(0)), np.nextafter(middle, np.float32(np.inf))]
        near = np.concatenate([numbers, middle, *beside, ends])
    extremes = np.array([0, 1e-45, 1e-40, 1e-38, 3e38, np.inf, np.nan], np.float32)
    return np.concatenate([halves, near, -near, extremes, -extremes]).astype(np.float32)


@pytest.mark.parametrize("dtype", FLOATS)
def test_decode_gives_the_value_of_every_code(dtype: str) -> None:
    bits = codes(dtype)
    expected = bits.view(numpy_dtype(dtype)).astype(np.float32)
    np.testing.assert_array_equal(compute(lambda x: narrow.decode(x, dtype), bits, "float32"), expected)


def same_numbers(got: np.ndarray, expected: np.ndarray, dtype: str, values: np.ndarray) -> None:
    """Assert that they are equal bit for bit, except that any NaN equals any other."""
    nan = np.isnan(expected.astype(np.float32))
    assert np.isnan(got.view(numpy_dtype(dtype)).astype(np.float32))[nan].all()
    wrong = (got != expected.view(got.dtype)) & ~nan
    assert not wrong.any(), [(values[i], got[i], expected.view(got.dtype)[i]) for i in np.flatnonzero(wrong)[:5]]


@pytest.mark.parametrize("dtype", narrow.FORMATS)
def test_encode_rounds_to_nearest_even(dtype: str) -> None:
    values = samples(dtype)
    with np.errstate(all="ignore"):
        expected = values.astype(numpy_dtype(dtype))
    got = compute(lambda x: narrow.encode(x, dtype, saturate=False), values, storage_dtype(dtype))
    same_numbers(got, expected, dtype, values)


@pytest.mark.parametrize("dtype", [d for d in narrow.FORMATS if d.startswith("float8")])
def test_encode_saturates_by_default(dtype: str) -> None:
    values = samples(dtype)
    with np.errstate(all="ignore"):
        expected = saturate_cast(values, numpy_dtype(dtype))
    got = compute(lambda x: narrow.encode(x, dtype), values, storage_dtype(dtype))
    same_numbers(got, expected, dtype, values)


@pytest.mark.parametrize("round_mode", ["up", "down", "nearest"])
def test_e8m0_follows_the_reference_above_the_subnormals(round_mode: str) -> None:
    values = np.abs(samples("float8_e8m0"))
    values = values[(values >= 2.0**-126) & (values <= 2.0**127)].astype(np.float32)
    expected = to_float8e8m0(values, True, round_mode).view(np.uint8)
    got = compute(lambda x: narrow.encode_e8m0(x, round_mode, saturate=True), values, "uint8")
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    ("saturate", "round_mode", "expected"),
    [(True, "up", [0, 0xFE, 0xFE, 0xFF, 0, 0]), (False, "nearest", [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0])],
)
def test_e8m0_special_values(saturate: bool, round_mode: str, expected: list[int]) -> None:
    values = np.array([0, np.inf, 3.3e38, np.nan, 1e-40, 2.0**-127], np.float32)
    got = compute(lambda x: narrow.encode_e8m0(x, round_mode, saturate=saturate), values, "uint8")
    assert got.tolist() == expected


def test_a_double_is_rounded_once() -> None:
    # 1 + 2**-8 is a tie of bfloat16 that 2**-40 breaks; float32 cannot hold both.
    values = np.array([1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-8, -1 - 2.0**-8 - 2.0**-40, 1e300, np.nan])
    got = compute(lambda x: narrow.encode(x, "bfloat16"), values, "uint16").view(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(got.astype(np.float64), [1.0078125, 1.0, -1.0078125, np.inf, np.nan])


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2", "uint2"])
def test_wrap_keeps_the_low_bits(dtype: str) -> None:
    values = np.arange(-40, 40).astype(np.int32)
    expected = values.astype(numpy_dtype(dtype)).astype(np.int32)
    got = compute(lambda x: narrow.wrap(x, dtype), values, storage_dtype(dtype))
    np.testing.assert_array_equal(got, expected)
