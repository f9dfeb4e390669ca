"""Operators and casts on every dtype against NumPy, for both emitters, with values at the ends of each range."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tvm import tirx

from tests.compiler.codegen.harness import SANITIZERS, Call, Library, build, elementwise, run_program

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tvm import ir

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = (*SIGNED, *UNSIGNED)
FLOATS = ("float16", "float32", "float64")
ALL = (*INTEGERS, *FLOATS)
SIZE = 97


def truncated(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    quotient = np.floor_divide(a, b)
    inexact = (quotient * b != a) & (b != 0)
    return (quotient + (inexact & ((a < 0) != (b < 0)))).astype(a.dtype)


def floor_modulo(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where((b == 0) | ((b == -1) if a.dtype.kind == "i" else False), 0, np.mod(a, b)).astype(a.dtype)


def shifted(
    direction: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    return lambda a, b: direction(a, b % (8 * a.itemsize))


def in_range(distance: ir.Expr) -> ir.Expr:
    """A legal shift distance."""
    dtype = str(distance.ty.dtype)
    return tirx.floormod(distance, tirx.const(np.dtype(dtype).itemsize * 8, dtype))


OPERATORS: dict[str, tuple[tuple[str, ...], Callable, Callable]] = {
    "add": (ALL, lambda a, b: a + b, np.add),
    "sub": (ALL, lambda a, b: a - b, np.subtract),
    "mul": (ALL, lambda a, b: a * b, np.multiply),
    "div": (FLOATS, lambda a, b: a / b, np.divide),
    "min": (ALL, tirx.min, lambda a, b: np.where(a < b, a, b)),
    "max": (ALL, tirx.max, lambda a, b: np.where(a > b, a, b)),
    "truncdiv": (INTEGERS, tirx.truncdiv, truncated),
    "truncmod": (INTEGERS, tirx.truncmod, lambda a, b: (a - truncated(a, b) * b) * (b != 0)),
    "floordiv": (INTEGERS, tirx.floordiv, np.floor_divide),
    "floormod": (INTEGERS, tirx.floormod, floor_modulo),
    "and": (INTEGERS, tirx.bitwise_and, np.bitwise_and),
    "or": (INTEGERS, tirx.bitwise_or, np.bitwise_or),
    "xor": (INTEGERS, tirx.bitwise_xor, np.bitwise_xor),
    "shl": (INTEGERS, lambda a, b: tirx.shift_left(a, in_range(b)), shifted(np.left_shift)),
    "shr": (INTEGERS, lambda a, b: tirx.shift_right(a, in_range(b)), shifted(np.right_shift)),
    "lt": (ALL, lambda a, b: a < b, np.less),
    "le": (ALL, lambda a, b: a <= b, np.less_equal),
    "gt": (ALL, lambda a, b: a > b, np.greater),
    "ge": (ALL, lambda a, b: a >= b, np.greater_equal),
    "eq": (ALL, tirx.EQ, np.equal),
    "ne": (ALL, tirx.NE, np.not_equal),
    "select": (ALL, lambda a, b: tirx.Select(a < b, a, b + a), lambda a, b: np.where(a < b, a, b + a)),
    "if_then_else": (ALL, lambda a, b: tirx.if_then_else(a < b, b, a), lambda a, b: np.where(a < b, b, a)),
    "invert": (INTEGERS, lambda a, _: tirx.bitwise_not(a), lambda a, _: np.invert(a)),
    "abs": (SIGNED, lambda a, _: tirx.abs(a), lambda a, _: np.abs(a)),
    "popcount": (INTEGERS, lambda a, _: tirx.popcount(a), lambda a, _: np.array([bits(x).count("1") for x in a])),
    "clz": (
        UNSIGNED[2:],
        lambda a, _: tirx.clz(a),
        lambda a, _: np.array([len(bits(x)) - len(bits(x).lstrip("0")) for x in a]),
    ),
}
CASES = [(name, dtype) for name, (dtypes, _, _) in OPERATORS.items() for dtype in dtypes]
CASTS = [(a, b) for a in (*ALL, "bool") for b in (*ALL, "bool") if a != b]
VIEWS = [("float32", "int32"), ("uint32", "float32"), ("float64", "int64"), ("int64", "float64"), ("float16", "uint16"),
         ("uint16", "float16"), ("int8", "uint8"), ("int16", "float16")]  # fmt: skip


def bits(x: np.generic) -> str:
    width = 8 * x.itemsize
    return f"{int(x) % 2**width:0{width}b}"


def samples(dtype: str, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    if dtype == "bool":
        return random.integers(0, 2, SIZE).astype("bool")
    if dtype.startswith("float"):
        edges = [
            0.0,
            -0.0,
            0.5,
            -1.0,
            1e-7,
            65504.0,
            1e9,
            -1e9,
            4e9,
            1e19,
            -1e19,
            127.9,
            -128.9,
            255.5,
            np.inf,
            -np.inf,
            np.nan,
        ]
        with np.errstate(over="ignore"):
            return np.append(random.normal(0, 50, SIZE - len(edges)), edges).astype(dtype)
    info = np.iinfo(dtype)
    edges = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 0, info.max, 2, 3]
    edges += [-1, info.min, -2, -3] if info.min else []
    spread = random.integers(-9 if info.min else 0, 9, SIZE - len(edges)).astype(dtype)
    return random.permutation(np.append(spread, np.array(edges, dtype)))


def nearest(low: int, high: int) -> Callable[[ir.Expr], ir.Expr]:
    """The nearest integer of a number that is clamped to bounds."""

    def body(x: ir.Expr) -> ir.Expr:
        clamped = tirx.min(tirx.max(x, tirx.const(float(low), "float32")), tirx.const(float(high), "float32"))
        return tirx.Cast("int32", tirx.nearbyint(clamped))

    return body


BOUNDS = ((-128, 127), (0, 255), (-32768, 32767), (-(2**22), 2**22), (-(2**23), 2**23))
FUNCTIONS = {
    **{f"nearest_{index}": elementwise(nearest(*bounds), ["float32"]) for index, bounds in enumerate(BOUNDS)},
    **{f"{name}_{dtype}": elementwise(OPERATORS[name][1], [dtype, dtype]) for name, dtype in CASES},
    **{f"{a}_to_{b}": elementwise(lambda x, b=b: tirx.Cast(b, x), [a]) for a, b in CASTS},
    **{f"{a}_as_{b}": elementwise(lambda x, b=b: tirx.reinterpret(b, x), [a]) for a, b in VIEWS},
}


@pytest.fixture(scope="module", params=["c", "native"])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Library:
    return build(FUNCTIONS, request.param, tmp_path_factory.mktemp(request.param))


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_operator(library: Library, name: str, dtype: str) -> None:
    a, b = samples(dtype, 1), samples(dtype, 2)
    with np.errstate(all="ignore"):
        expected = OPERATORS[name][2](a, b)
    expected = expected.astype(result(name, dtype))
    actual = np.empty_like(expected)
    library.run(f"{name}_{dtype}", [a, b, actual], [SIZE])
    np.testing.assert_array_equal(actual, expected)


def result(name: str, dtype: str) -> str:
    """The dtype of an operator's result."""
    return "int32" if name == "clz" else "bool" if name in ("lt", "le", "gt", "ge", "eq", "ne") else dtype


def saturated(values: np.ndarray, target: str) -> np.ndarray:
    info = np.iinfo(target)
    limited = [0.0 if np.isnan(v) else min(max(float(v), info.min), info.max) for v in values]
    return np.array([int(v) for v in limited], target)


@pytest.mark.parametrize(("source", "target"), CASTS)
def test_cast(library: Library, source: str, target: str) -> None:
    values = samples(source, 3)
    with np.errstate(all="ignore"):
        to_integer = source in FLOATS and target in INTEGERS
        expected = saturated(values, target) if to_integer else values.astype(target)
    actual = np.empty_like(expected)
    library.run(f"{source}_to_{target}", [values, actual], [SIZE])
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("index", range(len(BOUNDS)))
def test_numbers_that_are_rounded_within_bounds(library: Library, index: int) -> None:
    """Ties are to even; NaN becomes the lower bound, as it does in `max`."""
    low, high = BOUNDS[index]
    random = np.random.default_rng(index)
    near = (random.integers(low, high + 1, 2000) + random.choice([0, 0.25, 0.5, -0.5, 0.75], 2000)).astype(np.float32)
    ties = np.arange(-9, 10, dtype=np.float32) / 2
    ends = np.float32([low, high, low - 0.5, high + 0.5, low + 0.5, high - 0.5])
    values = np.concatenate([near, ties, ends, np.nextafter(ends, np.float32(0)), samples("float32", 5)])
    expected = np.rint(np.clip(np.where(np.isnan(values), low, values), low, high)).astype(np.int32)
    actual = np.empty_like(expected)
    library.run(f"nearest_{index}", [values, actual], [len(values)])
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(("source", "target"), VIEWS)
def test_reinterpret(library: Library, source: str, target: str) -> None:
    values = samples(source, 4)
    actual = np.empty(SIZE, target)
    library.run(f"{source}_as_{target}", [values, actual], [SIZE])
    np.testing.assert_array_equal(actual, values.view(target))


@pytest.mark.slow
def test_no_undefined_behaviour(tmp_path: Path) -> None:
    calls = [
        Call(f"{name}_{d}", (samples(d, 1), samples(d, 2), np.zeros(SIZE, result(name, d))), (SIZE,))
        for name, d in CASES
    ]
    calls += [Call(f"{a}_to_{b}", (samples(a, 3), np.zeros(SIZE, b)), (SIZE,)) for a, b in CASTS]
    calls += [Call(f"{a}_as_{b}", (samples(a, 4), np.zeros(SIZE, b)), (SIZE,)) for a, b in VIEWS]
    run_program(FUNCTIONS, calls, tmp_path, *SANITIZERS)
