"""The polynomial float32 functions against double precision, over all of float32, on CPUs with and without FMA.

Their shorter forms (fast math) are tested where they promise a result.
"""

from __future__ import annotations

import ctypes
import math
import subprocess
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tvm import tirx

from deploykit.compiler.codegen.native.cpus import CPUS
from deploykit.compiler.codegen.native.objects import emit_object
from deploykit.compiler.lowering.lower import lower
from tests.compiler.codegen.harness import Library, elementwise
from tests.compiler.codegen.test_native import require

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LANES = 8
ULPS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], float]] = {
    "exp": (np.exp, 1.5),
    "exp2": (np.exp2, 1.5),
    "sigmoid": (lambda x: np.where(x < 0, np.exp(x), 1) / (1 + np.exp(-np.abs(x))), 2.0),
    "log": (np.log, 1.0),
    "log1p": (np.log1p, 1.5),
    "sin": (np.sin, 1.5),
    "cos": (np.cos, 1.5),
    "tanh": (np.tanh, 2.0),
    "erf": (np.vectorize(math.erf), 2.0),
}


FAST_ULPS = 4.0
SMALLEST = 2.0**-125
"""Shorter forms treat smaller operands and results as 0."""
LARGE = 2.0**20
"""From this magnitude on, shorter sines and cosines are NaN."""


@pytest.fixture(scope="module", params=["x86-64-v2", "x86-64-v3"])
def cpu(request: pytest.FixtureRequest) -> str:
    require(request.param)
    return str(request.param)


@pytest.fixture(scope="module")
def library(cpu: str, tmp_path_factory: pytest.TempPathFactory) -> Library:
    return built(cpu, tmp_path_factory.mktemp("math"), fast=False)


@pytest.fixture(scope="module")
def fast_library(cpu: str, tmp_path_factory: pytest.TempPathFactory) -> Library:
    return built(cpu, tmp_path_factory.mktemp("math"), fast=True)


def built(cpu: str, folder: Path, *, fast: bool) -> Library:
    kernels = [
        lower(elementwise(getattr(tirx, name), ["float32"], lanes=lanes), f"{name}{lanes or 1}").kernel
        for name in ULPS
        for lanes in (None, LANES)
    ]
    kernels.append(lower(elementwise(tirx.power, ["float32"] * 2, lanes=LANES), "pow").kernel)
    source, shared = folder / "kernels.o", folder / "kernels.so"
    source.write_bytes(emit_object(kernels, "test", CPUS[cpu], fast_math=fast))
    subprocess.run(["gcc", "-shared", source, "-o", shared, "-Wl,-z,defs"], check=True)  # fails on calls of libm
    return Library(ctypes.CDLL(str(shared)), {})


def arguments() -> np.ndarray:
    """Bit patterns spread over all of float32, with more of them where the functions are not nearly linear."""
    spread = np.arange(0, 2**32, 77_777, dtype="uint32").view("float32")
    dense = np.linspace(-105, 95, 40_000, dtype="float32")
    bend = np.linspace(-4.5, 4.5, 40_000, dtype="float32")
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan], "float32")
    values = np.concatenate([spread, dense, bend, special])
    return np.resize(values, -(-len(values) // LANES) * LANES)


@pytest.mark.parametrize("name", ULPS)
def test_error_is_bounded(library: Library, name: str) -> None:
    x = arguments()
    function, limit = ULPS[name]
    with np.errstate(all="ignore"):
        exact = function(x.astype("float64"))
        expected = exact.astype("float32")
        ulp = np.spacing(np.abs(expected)).astype("float64")
    scalar, vector = np.empty_like(x), np.empty_like(x)
    library.run(f"{name}1", [x, scalar], [len(x)])
    library.run(f"{name}{LANES}", [x, vector], [len(x) // LANES])
    np.testing.assert_array_equal(scalar, vector)
    np.testing.assert_array_equal(np.isnan(vector), np.isnan(expected))
    np.testing.assert_array_equal(np.isinf(vector), np.isinf(expected))
    finite = np.isfinite(expected)
    error = np.abs(vector[finite].astype("float64") - exact[finite]) / ulp[finite]
    assert error.max() <= limit


@pytest.mark.parametrize("name", ULPS)
def test_error_of_short_forms_is_bounded(fast_library: Library, name: str) -> None:
    x = arguments()
    with np.errstate(all="ignore"):
        exact = ULPS[name][0](x.astype("float64"))
        expected = exact.astype("float32")
        small = (np.abs(exact) < SMALLEST) & (exact != 0) | (np.abs(x) < SMALLEST) & (x != 0)
        large = (np.abs(x) >= LARGE) & (name in ("sin", "cos"))
    scalar, vector = np.empty_like(x), np.empty_like(x)
    fast_library.run(f"{name}1", [x, scalar], [len(x)])
    fast_library.run(f"{name}{LANES}", [x, vector], [len(x) // LANES])
    np.testing.assert_array_equal(scalar, vector)
    assert np.isnan(vector[large]).all()
    plain = ~small & ~large
    rest = plain & (~np.isfinite(expected) | (expected == 0))
    np.testing.assert_array_equal(vector[rest], expected[rest])
    numbers = plain & ~rest
    assert ulps(vector[numbers], exact[numbers]).max() <= FAST_ULPS
    if name in ("tanh", "erf", "sigmoid", "sin", "cos"):
        assert np.abs(vector[~np.isnan(vector)]).max() <= 1


def ulps(found: np.ndarray, exact: np.ndarray) -> np.ndarray:
    return np.abs(found.astype("float64") - exact) / np.spacing(np.abs(exact).astype("float32")).astype("float64")


POWERS = [0.0, -0.0, 0.5, 1.0, 2.0, 3.0, -1.0, -2.5, 0.3, 1e-3, 12.0, np.inf, -np.inf, np.nan, 2**24 + 2, -7.0]


def powers() -> tuple[np.ndarray, np.ndarray]:
    y = np.tile(np.array(POWERS, "float32"), 6000)
    x = np.resize(arguments()[::3], y.size)
    x[: 16 * 10] = np.repeat(np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, -2.0, 2.0, 0.5], "float32"), 16)
    return x, y


@pytest.mark.parametrize("fast", [False, True])
def test_powers(library: Library, fast_library: Library, fast: bool) -> None:
    """Every special operand, with the signs of zeros; shorter forms only where they promise a result."""
    x, y = powers()
    got = np.empty_like(x)
    (fast_library if fast else library).run("pow", [x, y, got], [len(x) // LANES])
    with np.errstate(all="ignore"):
        exact = np.power(x.astype("float64"), y.astype("float64"))
        expected = exact.astype("float32")
        small = (np.abs(x) < SMALLEST) & (x != 0) | (np.abs(exact) < SMALLEST) & (exact != 0)
    if fast:
        exact, expected, got = exact[~small], expected[~small], got[~small]
    plain = np.isfinite(expected) & (expected != 0)
    np.testing.assert_array_equal(got[~plain], expected[~plain])
    np.testing.assert_array_equal(np.signbit(got[expected == 0]), np.signbit(expected[expected == 0]))
    assert ulps(got[plain], exact[plain]).max() <= (FAST_ULPS if fast else 1.0)
