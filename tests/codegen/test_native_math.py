"""The polynomial float32 functions against double precision, over all of float32, on CPUs with and without FMA."""

from __future__ import annotations

import ctypes
import math
import subprocess
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tvm import tirx

from deploykit.compiler.codegen.cpus import CPUS
from deploykit.compiler.codegen.lower import lower
from deploykit.compiler.codegen.native import emit_object
from tests.codegen.harness import Library, elementwise
from tests.codegen.test_native import require

if TYPE_CHECKING:
    from collections.abc import Callable

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


@pytest.fixture(scope="module", params=["x86-64-v2", "x86-64-v3"])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Library:
    require(request.param)
    kernels = [
        lower(elementwise(getattr(tirx, name), ["float32"], lanes=lanes), f"{name}{lanes or 1}").kernel
        for name in ULPS
        for lanes in (None, LANES)
    ]
    kernels.append(lower(elementwise(tirx.power, ["float32"] * 2, lanes=LANES), "pow").kernel)
    folder = tmp_path_factory.mktemp("math")
    source, shared = folder / "kernels.o", folder / "kernels.so"
    source.write_bytes(emit_object(kernels, "test", CPUS[request.param]))
    subprocess.run(["gcc", "-shared", source, "-o", shared, "-Wl,-z,defs"], check=True)  # no library: no calls of it
    return Library(ctypes.CDLL(str(shared)), {})


def arguments() -> np.ndarray:
    """Bit patterns spread over all of float32, and more where the functions bend."""
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


POWERS = [0.0, -0.0, 0.5, 1.0, 2.0, 3.0, -1.0, -2.5, 0.3, 1e-3, 12.0, np.inf, -np.inf, np.nan, 2**24 + 2, -7.0]


def test_powers(library: Library) -> None:
    """Every special operand, signs of zeros included."""
    y = np.tile(np.array(POWERS, "float32"), 6000)
    x = np.resize(arguments()[::3], y.size)
    x[: 16 * 10] = np.repeat(np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, -2.0, 2.0, 0.5], "float32"), 16)
    got = np.empty_like(x)
    library.run("pow", [x, y, got], [len(x) // LANES])
    with np.errstate(all="ignore"):
        exact = np.power(x.astype("float64"), y.astype("float64"))
        expected = exact.astype("float32")
        error = np.abs(got - exact) / np.spacing(np.abs(expected)).astype("float64")
    plain = np.isfinite(expected) & (expected != 0)
    np.testing.assert_array_equal(got[~plain], expected[~plain])
    np.testing.assert_array_equal(np.signbit(got[expected == 0]), np.signbit(expected[expected == 0]))
    assert error[plain].max() <= 1.0
