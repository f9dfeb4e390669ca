from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploykit.checks.comparison import Tolerance, compare, compare_values
from deploykit.sessions.structure import Structure

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_equal_arrays_have_no_error() -> None:
    result = compare("y", f32(1, np.nan, np.inf, -np.inf, 0), f32(1, np.nan, np.inf, -np.inf, -0.0))
    assert (result.absolute, result.relative, result.ulp, result.within) == (0, 0, 0, True)


def test_errors_are_those_of_the_worst_element() -> None:
    result = compare("y", f32(1.0, 2.5, -4.0), f32(1.0, 2.0, -4.0), Tolerance(rtol=0, atol=0.1))
    assert result.absolute == 0.5
    assert result.relative == 0.25
    assert (result.outside, result.worst, result.within) == (1, (1,), False)


@given(FLOATS.filter(lambda x: abs(x) > 1e-3 and abs(x) < 1e30), st.integers(0, 100))
def test_ulp_counts_neighbours(start: float, steps: int) -> None:
    expected = f32(start)
    actual = expected.copy()
    for _ in range(steps):
        actual = np.nextafter(actual, np.float32(np.inf))
    assert compare("y", actual, expected).ulp == steps


def test_ulp_crosses_zero() -> None:
    tiny = np.nextafter(np.float32(0), np.float32(1))
    result = compare("y", f32(-tiny), f32(tiny), Tolerance(0, 0))
    assert result.ulp == 2


@pytest.mark.parametrize("dtype", [np.float16, np.float64, ml_dtypes.bfloat16])
def test_ulp_of_other_floats(dtype: type) -> None:
    expected = np.array([1.0], dtype)
    actual = (expected + np.array(ml_dtypes.finfo(dtype).eps, dtype)).astype(dtype)
    assert compare("y", actual, expected).ulp == 1


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_unexpected_special_values_are_never_within(value: float) -> None:
    assert not compare("y", f32(value), f32(1.0), Tolerance(1e9, 1e9)).within
    assert not compare("y", f32(1.0), f32(value), Tolerance(1e9, 1e9)).within


def test_integers_are_exact_beyond_what_floats_hold() -> None:
    expected = np.array([2**62, -(2**63)], np.int64)
    assert compare("y", expected, expected).within
    result = compare("y", expected + np.array([1, 0]), expected)
    assert (result.absolute, result.within, result.ulp) == (1.0, False, None)


def test_narrow_integers() -> None:
    expected = np.array([-8, 7], ml_dtypes.int4)
    assert compare("y", np.array([-8, 5], ml_dtypes.int4), expected).absolute == 2


def test_shape_and_dtype_must_agree() -> None:
    assert "shape" in (compare("y", f32(1), f32(1, 2)).problem or "")
    assert "dtype" in (compare("y", f32(1), np.array([1.0])).problem or "")


def test_empty_outputs_agree() -> None:
    assert compare("y", np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32)).within


def test_strings_are_the_same_or_not() -> None:
    expected = np.array([["a", "b"], ["", "日"]], object)
    assert compare("y", expected.astype(str), expected).within
    result = compare("y", np.array([["a", "c"], ["", "x"]], object), expected)
    assert (result.within, result.dtype, result.outside, result.worst) == (False, "string", 2, (0, 1))


def test_sequences_and_absent_values_are_compared_item_by_item() -> None:
    items = (Structure("y_0", "tensor"), Structure("y_1", "string"))
    sequence = Structure("y", "sequence", items)
    words = np.array(["a"], object)
    results = list(compare_values(sequence, [f32(1), words], [f32(2), words]))
    assert [(result.name, result.within) for result in results] == [("y_0", False), ("y_1", True)]
    (result,) = compare_values(sequence, [f32(1), words], [f32(1)])
    assert result.problem == "it has 2 items, expected 1"
    optional = Structure("y", "optional", items[:1])
    (result,) = compare_values(optional, None, None)
    assert (result.dtype, result.within) == ("absent", True)
    (result,) = compare_values(optional, None, f32(1))
    assert result.problem == "it is absent, expected present"
    (result,) = compare_values(optional, f32(1), f32(2))
    assert (result.name, result.outside) == ("y_0", 1)


def test_errors_are_counted_in_tolerances() -> None:
    result = compare("y", f32(1, 7, 0, 5), f32(1, 4, 0, 1), Tolerance(rtol=0.5, atol=1))
    assert result.tolerances == pytest.approx(4 / 1.5)
    assert result.mean_tolerances == pytest.approx(np.sqrt((1 + (4 / 1.5) ** 2) / 4))
    result = compare("y", np.array([1, 5]), np.array([1, 2]))
    assert (result.tolerances, result.mean_tolerances) == (3, pytest.approx(np.sqrt(4.5)))
    largest = np.array([np.finfo(np.float64).max])
    assert compare("y", -largest, np.zeros(1)).mean_tolerances == np.inf
