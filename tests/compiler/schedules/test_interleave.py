"""Interleaved results: repeated elements, depth to space, pairs from two operands, and all remainders."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tvm import te, tirx

from deploykit.compiler.schedules import Device, explain
from tests.compiler.schedules.harness import BOTH, VECTORS, Compiled, fenced
from tests.compiler.schedules.test_elementwise import kernel

N, M = (tirx.Var(name, "int64") for name in "nm")

devices = pytest.mark.parametrize("device", BOTH, ids=lambda device: device.name)


def repeated(turns: int) -> Callable[..., te.Tensor]:
    return lambda x: te.compute((N, M, turns), lambda i, j, _: x(i, j))


def from_depth(turns: int) -> Callable[..., te.Tensor]:
    return lambda x: te.compute((N, M, turns), lambda i, j, k: x(i, k, j) + tirx.Cast(x.dtype, k))


@devices
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool"])
@pytest.mark.parametrize("turns", [2, 3, 4, 5])
def test_repeats_and_depth(device: Device, dtype: str, turns: int) -> None:
    for shape, build in (((N, M), repeated(turns)), ((N, turns, M), from_depth(turns))):
        if dtype == "bool" and len(shape) == 3:
            continue
        func = kernel([shape], build, [dtype])
        if device is VECTORS and dtype != "bool" and turns <= 4:
            assert explain(func, device)[0].rule == "interleave"
        compiled = Compiled(func, device)
        for n, m in ((1, 1), (3, 8), (2, 37), (0, 4), (1, 2100)):
            size = (n, m) if len(shape) == 2 else (n, turns, m)
            x = np.random.default_rng(m).integers(0, 2 if dtype == "bool" else 99, size).astype(dtype)
            last = np.arange(turns).astype(dtype)
            expected = np.repeat(x[..., None], turns, -1) if x.ndim == 2 else x.swapaxes(1, 2) + last
            out = fenced(np.zeros((n, m, turns), dtype))
            compiled.bind([fenced(x), out])()
            np.testing.assert_array_equal(out, expected)


def test_pairs_of_two_operands() -> None:
    def build(x: te.Tensor, y: te.Tensor) -> te.Tensor:
        return te.compute((N, 2), lambda i, k: tirx.Select(k == 0, x(i), y(i)))

    func = kernel([(N,), (N,)], build)
    assert explain(func, VECTORS)[0].rule == "interleave"
    compiled = Compiled(func, VECTORS)
    for n in (1, 16, 45):
        x, y = np.random.default_rng(n).standard_normal((2, n), np.float32)
        out = fenced(np.zeros((n, 2), np.float32))
        compiled.bind([fenced(x), fenced(y), out])()
        np.testing.assert_array_equal(out, np.stack([x, y], 1))
