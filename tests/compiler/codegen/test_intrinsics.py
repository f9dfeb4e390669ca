"""Every intrinsic against NumPy, for both emitters, as serial loops and vectorised, at several sizes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tvm import tirx

from tests.compiler.codegen.harness import Library, build, elementwise

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = (0, 1, 7, 33)
EDGES = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1e-5, -1e-5, math.inf, -math.inf, math.nan]

erf = np.vectorize(math.erf, otypes=[float])
UNARY: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    **{
        name: getattr(np, name)
        for name in (
            *("exp", "exp2", "log", "log2", "log10", "log1p", "tanh", "sin", "cos", "tan", "sinh", "cosh"),
            *("floor", "ceil", "trunc", "sqrt"),
        )
    },
    **{name: getattr(np, f"arc{name[1:]}") for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh")},
    "exp10": lambda x: np.power(10.0, x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "erf": erf,
    "round": np.rint,
    "nearbyint": np.rint,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "abs": np.abs,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
}
BINARY: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "pow": np.power,
    "fmod": np.fmod,
    "copysign": np.copysign,
    "nextafter": np.nextafter,
    "atan2": np.arctan2,
    "hypot": np.hypot,
}
EXACT = ("floor", "ceil", "trunc", "round", "nearbyint", "abs", "isnan", "isinf", "isfinite", "copysign", "nextafter")
PERIODIC = ("sin", "cos", "tan")
DTYPES = ("float16", "float32", "float64")
CASES = [
    (name, dtype)
    for name in [*UNARY, *BINARY]
    for dtype in DTYPES
    if (name, dtype) != ("nextafter", "float16")  # float16 is computed in float32, which has other neighbours
]
LANES = {"serial": None, "vector": 8}


def kernel_name(name: str, dtype: str, form: str) -> str:
    return f"{name}_{dtype}_{form}"


@pytest.fixture(scope="module", params=["c", "native"])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Library:
    functions = {
        kernel_name(name, dtype, form): elementwise(
            getattr(tirx, name), [dtype] * (2 if name in BINARY else 1), lanes=lanes
        )
        for name, dtype in CASES
        for form, lanes in LANES.items()
    }
    return build(functions, request.param, tmp_path_factory.mktemp(request.param))


@pytest.mark.parametrize("form", LANES)
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_intrinsic(library: Library, name: str, dtype: str, form: str) -> None:
    lanes = LANES[form] or 1
    random = np.random.default_rng(0)
    for size in SIZES:
        count = size * lanes
        first = np.append(random.normal(0, 2, count), EDGES)[-count:] if count else np.zeros(0)
        inputs = [x.astype(dtype) for x in ([first, random.permutation(first)] if name in BINARY else [first])]
        with np.errstate(all="ignore"):
            expected = (UNARY | BINARY)[name](*inputs).astype("bool" if name.startswith("is") else dtype)
        actual = np.zeros_like(expected)
        library.run(kernel_name(name, dtype, form), [*inputs, actual], [size])
        tolerance = 0.0 if name in EXACT else 8 * float(np.finfo(dtype).eps)
        np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance if name in PERIODIC else 0)
