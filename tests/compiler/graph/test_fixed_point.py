"""Requantisation in integers against the same steps in float32, bit for bit."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deploykit.compiler.codegen.c.support import definitions
from deploykit.compiler.graph.fixed_point import constants

LOOP = """
void each(const int32_t *total, int32_t *result, int n, int32_t m, int64_t b, int32_t z, int32_t k, uint32_t near) {
    for (int i = 0; i < n; ++i) {
        result[i] = requantize(total[i], m, b, z, k, near);
    }
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("requantize")
    source = f"#include <stdint.h>\n#include <string.h>\n{definitions(LOOP)}{LOOP}"
    (folder / "k.c").write_text(source)
    flags = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, "-o", str(Path(folder) / "k.so"), str(folder / "k.c")], check=True)
    return ctypes.CDLL(str(folder / "k.so"))


BYTES = (-128, 127)
WORDS = (-(2**15), 2**15 - 1)


def in_floats(
    total: np.ndarray, factor: np.float32, bias: np.float32, zero: int, ends: tuple[int, int] = BYTES
) -> np.ndarray:
    value = total.astype(np.float32) * factor + bias
    return np.rint(np.clip(value, ends[0] - zero, ends[1] - zero)).astype(np.int64) + zero


def in_integers(
    library: ctypes.CDLL,
    total: np.ndarray,
    factor: np.float32,
    bias: np.float32,
    zero: int,
    ends: tuple[int, int] = BYTES,
) -> np.ndarray:
    made = constants(np.array([factor]), np.array([bias]), (ends[0] - zero, ends[1] - zero), zero)
    assert made is not None
    result = np.empty_like(total)
    pointers = (array.ctypes.data_as(ctypes.c_void_p) for array in (total, result))
    addend = ctypes.c_int64(int(made.addends[0]))
    library.each(*pointers, total.size, int(made.multipliers[0]), addend, zero, made.bits, ctypes.c_uint32(made.near))
    return np.clip(result, *ends)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    mantissa=st.integers(2**23, 2**24 - 1),
    exponent=st.integers(-42, -26),
    steps=st.integers(-(2**20), 2**20),
    zero=st.integers(-128, 127),
    seed=st.integers(0, 2**31),
)
def test_all_sums(library: ctypes.CDLL, mantissa: int, exponent: int, steps: int, zero: int, seed: int) -> None:
    """Sums around every tie, around zero, at the ends of int32, and any others."""
    factor = np.float32(np.ldexp(mantissa, exponent))
    bias = np.float32(factor * np.float32(steps)) if abs(factor * steps) < 2**10 else np.float32(0)
    ties = (np.arange(-129, 129) - zero + 0.5 - float(bias)) / float(factor)
    near = np.rint(np.clip(ties, -(2**31) + 9, 2**31 - 9)).astype(np.int64)
    others = np.random.default_rng(seed).integers(-(2**31), 2**31, 2000)
    ends = np.array([-(2**31), 2**31 - 1, 0, 1, -1])
    total = np.concatenate([*(near + d for d in range(-4, 5)), others, others >> 12, ends]).astype(np.int32)
    np.testing.assert_array_equal(in_integers(library, total, factor, bias, zero), in_floats(total, factor, bias, zero))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    mantissa=st.integers(2**23, 2**24 - 1),
    exponent=st.integers(-39, -26),
    steps=st.integers(-(2**23), 2**23),
    seed=st.integers(0, 2**31),
)
def test_all_sums_of_words(library: ctypes.CDLL, mantissa: int, exponent: int, steps: int, seed: int) -> None:
    """Sums around ties of 16 bits, and any others."""
    factor = np.float32(np.ldexp(mantissa, exponent))
    bias = np.float32(factor * np.float32(steps)) if abs(factor * steps) < 2**18 else np.float32(0)
    random = np.random.default_rng(seed)
    ties = np.concatenate([random.integers(-(2**15) - 2, 2**15 + 2, 4000), np.arange(-4, 4), 2**15 - np.arange(5)])
    near = np.rint(np.clip((ties + 0.5 - float(bias)) / float(factor), -(2**31) + 9, 2**31 - 9)).astype(np.int64)
    others = random.integers(-(2**31), 2**31, 4000)
    total = np.concatenate([*(near + d for d in range(-4, 5)), others, others >> 8]).astype(np.int32)
    np.testing.assert_array_equal(
        in_integers(library, total, factor, bias, 0, WORDS), in_floats(total, factor, bias, 0, WORDS)
    )


def test_few_results_of_words_are_computed_twice() -> None:
    made = constants(np.float32([0.001]), np.float32([0]), WORDS, 0)
    assert made is not None
    assert 2 * made.near / 2**32 < 0.014


def test_exact_ties(library: ctypes.CDLL) -> None:
    """A power of two as factor: each second sum is a tie, and goes to the even neighbour."""
    total = np.arange(-600, 600, dtype=np.int32)
    factor, bias = np.float32(0.25), np.float32(0.25)
    np.testing.assert_array_equal(in_integers(library, total, factor, bias, 3), in_floats(total, factor, bias, 3))


def test_inexact_constants_stay_in_floats() -> None:
    ends, bias = (-128, 127), np.zeros(2, np.float32)
    assert constants(np.float32([0.01, 0.007]), bias, ends, 0) is not None
    for factor in ([0.01, 0.00001], [0.7, 0.6], [0.01, -0.01], [0.01, np.nan]):
        assert constants(np.float32(factor), bias, ends, 0) is None, factor
    assert constants(np.float32([0.01, 0.01]), np.float32([2**21, 0]), ends, 0) is None
