"""NaN, infinities, zeros of both signs and subnormal numbers at every place of an operand.

In a run, each row holds one special number at one place among ordinary numbers, so that every lane, tail and block of a
kernel meets each of them. Expected results are those of NumPy, in which NaN propagates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from tests.frontends.onnx.harness import Check, parse

SPECIAL = np.float32([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40, -1e-40])
LENGTHS = (1, 3, 8, 19, 70)
"""Around the widths of vectors and of unrolled loops."""

TINY = float(np.finfo(np.float32).tiny)
"""Some devices take subnormal numbers for 0."""

Expected = Callable[..., np.ndarray]


def rows(length: int, seed: int = 0) -> np.ndarray:
    """Rows of `length` numbers: for each place and each special number a row that holds it there, and rows that hold
    two different ones."""
    places = np.repeat(np.arange(length), SPECIAL.size)
    count = places.size
    found = np.random.default_rng(seed).standard_normal((2 * count, length)).astype(np.float32)
    special = np.tile(SPECIAL, length)
    found[np.arange(count), places] = special
    found[count + np.arange(count), places] = special
    found[count + np.arange(count), (places * 5 + 3) % length] = special[::-1]
    return found


@dataclass(frozen=True)
class Case:
    """Nodes that compute `y` from `x` of shape [n, m], and from `z` of the same shape if `binary`. `of` gives the
    expected `y`, `dtype` and `axes` its type. `rtol` is 0 where the result is one of the numbers."""

    nodes: str
    of: Expected
    axes: str = "n, k"
    dtype: str = "float"
    binary: bool = False
    rtol: float = 0

    def text(self) -> str:
        operands = "float[n, m] x, float[n, m] z" if self.binary else "float[n, m] x"
        return f"({operands}) => ({self.dtype}[{self.axes}] y) {{ {self.nodes} }}"


def windows(x: np.ndarray, size: int, before: int, step: int) -> np.ndarray:
    padded = np.pad(x, ((0, 0), (before, before)), constant_values=-np.inf)
    return np.asarray(sliding_window_view(padded, size, axis=1)[:, ::step])


def finite(x: np.ndarray) -> np.ndarray:
    """Numbers of the same order, in which no number is as low as the padding of windows."""
    return np.where(x == -np.inf, -1e300, x.astype(np.float64))


def last_of(find: Expected, x: np.ndarray) -> np.ndarray:
    return np.asarray(x.shape[1] - 1 - find(x[:, ::-1], axis=1))


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def hardmax(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.argmax(x, axis=1)[:, None] == np.arange(x.shape[1]), np.float32)


def descending(x: np.ndarray) -> np.ndarray:
    """With NaN above all numbers."""
    return np.sort(x, axis=1)[:, ::-1]


CASES: Mapping[str, Case] = {
    "rows": Case("y = ReduceMax<axes = [1], keepdims = 0>(x)", lambda x: x.max(axis=1), "n"),
    "least of rows": Case("y = ReduceMin<axes = [1], keepdims = 0>(x)", lambda x: x.min(axis=1), "n"),
    "columns": Case(
        "t = Transpose(x)  a = ReduceMax<axes = [0], keepdims = 0>(t)  b = ReduceMin<axes = [0], keepdims = 0>(t)  "
        "o = Constant<value_ints = [1]>()  c = Unsqueeze(a, o)  d = Unsqueeze(b, o)  y = Concat<axis = 1>(c, d)",
        lambda x: np.stack([x.max(axis=1), x.min(axis=1)], axis=1),
    ),
    "all": Case("y = ReduceMax<keepdims = 0>(x)", lambda x: x.max(), ""),
    "halves": Case(
        "h = Cast<to = 10>(x)  r = ReduceMax<axes = [1], keepdims = 0>(h)  y = Cast<to = 1>(r)",
        lambda x: x.astype(np.float16).max(axis=1).astype(np.float32),
        "n",
    ),
    "doubles": Case(
        "h = Cast<to = 11>(x)  r = ReduceMin<axes = [1], keepdims = 0>(h)  y = Cast<to = 1>(r)",
        lambda x: x.min(axis=1),
        "n",
    ),
    "fused": Case(
        "a = Exp(x)  r = ReduceMax<axes = [1], keepdims = 0>(a)  y = Neg(r)",
        lambda x: -np.exp(x).max(axis=1),
        "n",
        rtol=1e-5,
    ),
    "sums of powers": Case(
        "y = ReduceLogSumExp<axes = [1], keepdims = 0>(x)",
        lambda x: np.log(np.exp(x.astype(np.float64)).sum(axis=1)).astype(np.float32),
        "n",
        rtol=1e-4,
    ),
    "first greatest": Case("y = ArgMax<axis = 1, keepdims = 0>(x)", lambda x: np.argmax(x, axis=1), "n", "int64"),
    "last greatest": Case(
        "y = ArgMax<axis = 1, keepdims = 0, select_last_index = 1>(x)", lambda x: last_of(np.argmax, x), "n", "int64"
    ),
    "first least": Case("y = ArgMin<axis = 1, keepdims = 0>(x)", lambda x: np.argmin(x, axis=1), "n", "int64"),
    "last least": Case(
        "y = ArgMin<axis = 1, keepdims = 0, select_last_index = 1>(x)", lambda x: last_of(np.argmin, x), "n", "int64"
    ),
    "windows": Case(
        "o = Constant<value_ints = [1]>()  a = Unsqueeze(x, o)  b = MaxPool<kernel_shape = [3], pads = [1, 1]>(a)  "
        "y = Squeeze(b, o)",
        lambda x: windows(x, 3, 1, 1).max(axis=2),
    ),
    "strided windows": Case(
        "o = Constant<value_ints = [1]>()  a = Unsqueeze(x, o)  b = MaxPool<kernel_shape = [3], strides = [2], "
        "pads = [1, 1]>(a)  y = Squeeze(b, o)",
        lambda x: windows(x, 3, 1, 2).max(axis=2),
    ),
    "positions in windows": Case(
        "o = Constant<value_ints = [1]>()  a = Unsqueeze(x, o)  b, c = MaxPool<kernel_shape = [3], pads = [1, 1]>(a)  "
        "y = Squeeze(c, o)",
        lambda x: np.argmax(windows(finite(x), 3, 1, 1), axis=2) + np.arange(x.size).reshape(x.shape) - 1,
        dtype="int64",
    ),
    "whole windows": Case(
        "o = Constant<value_ints = [1]>()  a = Unsqueeze(x, o)  b = GlobalMaxPool(a)  y = Squeeze(b, o)",
        lambda x: x.max(axis=1, keepdims=True),
    ),
    "softmax": Case("y = Softmax(x)", softmax, rtol=1e-5),
    "logarithm of softmax": Case(
        "y = LogSoftmax(x)", lambda x: np.log(softmax(x.astype(np.float64))).astype(np.float32), rtol=1e-4
    ),
    "hardmax": Case("y = Hardmax(x)", hardmax),
    "sorted": Case("s = Shape<start = 1>(x)  y, i = TopK(x, s)", descending),
    "greater": Case("y = Max(x, z)", np.maximum, binary=True),
    "lesser": Case("y = Min(x, z)", np.minimum, binary=True),
    "of three": Case(
        "a = Neg(z)  b = Max(x, z, a)  y = Min(b, z)", lambda x, z: np.minimum(np.maximum(x, np.abs(z)), z), binary=True
    ),
    "clipped": Case(
        "a = Constant<value_float = -0.5>()  b = Constant<value_float = 0.5>()  y = Clip(x, a, b)",
        lambda x: np.clip(x, np.float32(-0.5), np.float32(0.5)),
    ),
    "clipped by operands": Case(
        "a = ReduceMax<keepdims = 0>(z)  y = Clip(x, , a)", lambda x, z: np.minimum(x, z.max()), binary=True
    ),
    "relu": Case("y = Relu(x)", lambda x: np.maximum(x, 0)),
    "leaky relu": Case("y = LeakyRelu<alpha = 0.5>(x)", lambda x: np.where(x < 0, x * np.float32(0.5), x)),
    "hard sigmoid": Case(
        "y = HardSigmoid<alpha = 0.25, beta = 0.5>(x)",
        lambda x: np.clip(x * np.float32(0.25) + np.float32(0.5), 0, 1).astype(np.float32),
        rtol=1e-6,
    ),
    "sign": Case("y = Sign(x)", np.sign),
    "less": Case("y = Less(x, z)", np.less, dtype="bool", binary=True),
    "at least": Case("y = GreaterOrEqual(x, z)", np.greater_equal, dtype="bool", binary=True),
    "not less": Case("a = Less(x, z)  y = Not(a)", lambda x, z: ~(x < z), dtype="bool", binary=True),
    "equal": Case("y = Equal(x, z)", np.equal, dtype="bool", binary=True),
    "not a number": Case("y = IsNaN(x)", np.isnan, dtype="bool"),
    "quantized": Case(
        "s = Constant<value_float = 0.1>()  c = Constant<value = int8 {3}>()  y = QuantizeLinear(x, s, c)",
        lambda x: np.where(np.isnan(x), -128, np.clip(np.rint(x / np.float32(0.1)) + 3, -128, 127)).astype(np.int8),
        dtype="int8",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_at_every_place(check: Check, name: str) -> None:
    case = CASES[name]
    runs = [{"x": rows(length)} | ({"z": rows(length, 1)[::-1].copy()} if case.binary else {}) for length in LENGTHS]
    with np.errstate(all="ignore"):
        wanted = [case.of(*run.values()) for run in runs]
    with check.session(parse(case.text(), opset=17), *runs) as session:
        for run, exact in zip(runs, wanted, strict=True):
            got, want = session.run(run)["y"], exact
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            atol = max(case.rtol, TINY)
            if check.runtime.devices or check.runtime.device:  # GPUs may take subnormal numbers for 0
                with np.errstate(all="ignore"):
                    coarse = case.of(*(np.where(np.abs(v) < TINY, v * np.float32(0), v) for v in run.values()))
                if coarse.dtype.kind == "f":
                    near = np.isclose(got, coarse, rtol=case.rtol, atol=atol, equal_nan=True)
                    small = np.abs(run["x"]) < TINY if run["x"].shape == got.shape else True
                    want = np.where(near & small, got, want)
            np.testing.assert_allclose(got, want, rtol=case.rtol, atol=atol, err_msg=f"{run['x'].shape}")


SCATTERED = """(float[n, m] x, int64[n, m] at, float[n, m] u) => (float[n, m] y, float[n, m] z) {
    y = ScatterElements<axis = 1, reduction = "max">(x, at, u)
    z = ScatterElements<axis = 1, reduction = "min">(x, at, u) }"""


def test_scattered(check: Check) -> None:
    runs, wanted = [], []
    for length in LENGTHS:
        x, u = rows(length), rows(length, 1)[::-1].copy()
        at = np.random.default_rng(length).integers(0, length, x.shape)
        runs.append({"x": x, "at": at, "u": u})
        lines = np.arange(len(x))[:, None]
        for function in (np.maximum, np.minimum):
            result = x.copy()
            function.at(result, (lines, at), u)
            wanted.append(result)
    with check.session(parse(SCATTERED), *runs) as session:
        for i, run in enumerate(runs):
            for result, want in zip(session.run(run).values(), wanted[2 * i :], strict=False):
                np.testing.assert_allclose(result, want, rtol=0, atol=TINY)
