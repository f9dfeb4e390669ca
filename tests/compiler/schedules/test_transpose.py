"""Transposed reads: tiles, remainders, several operands, and kernels that the rule declines."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import te, tirx, topi

from deploykit.compiler.schedules import Device, explain
from tests.compiler.schedules.harness import BOTH, VECTORS, Compiled, fenced
from tests.compiler.schedules.test_elementwise import kernel

N, M, K = (tirx.Var(name, "int64") for name in "nmk")

devices = pytest.mark.parametrize("device", BOTH, ids=lambda device: device.name)


def sample(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return (np.arange(np.prod(shape)) % 251).reshape(shape).astype(dtype)


@devices
@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8", "int64", "bool"])
@pytest.mark.parametrize("axes", [(1, 0), (0, 2, 1), (2, 0, 1), (0, 2, 3, 1), (0, 3, 1, 2)], ids=str)
def test_permutations(device: Device, dtype: str, axes: tuple[int, ...]) -> None:
    symbols = (N, M, K, 9)[: len(axes)]
    func = kernel([symbols], lambda x: topi.transpose(x, axes), [dtype])
    if device is VECTORS and dtype != "bool":
        assert explain(func, device)[0].rule == "transpose"
    compiled = Compiled(func, device)
    for sizes in ((1, 1, 1), (8, 8, 8), (7, 16, 9), (3, 35, 17), (0, 4, 4), (19, 1, 8)):
        x = sample((*sizes, 9)[: len(axes)], dtype)
        out = fenced(np.zeros(x.transpose(axes).shape, dtype))
        compiled.bind([fenced(x), out])()
        np.testing.assert_array_equal(out, x.transpose(axes))


def test_with_other_operands() -> None:
    """Two transposed operands, one of them read twice, an operand that is not transposed, and a broadcast row."""

    def build(a: te.Tensor, b: te.Tensor, c: te.Tensor, row: te.Tensor) -> te.Tensor:
        return te.compute((M, N), lambda i, j: a(j, i) * a(j, i) + b(j, i) * c(i, j) - row(j))

    func = kernel([(N, M), (N, M), (M, N), (N,)], build)
    assert explain(func, VECTORS)[0].rule == "transpose"
    compiled = Compiled(func, VECTORS)
    rng = np.random.default_rng(0)
    for n, m in ((1, 1), (8, 24), (13, 21), (40, 5)):
        a, b = rng.standard_normal((2, n, m), np.float32)
        c, row = rng.standard_normal((m, n), np.float32), rng.standard_normal(n, np.float32)
        out = fenced(np.zeros((m, n), np.float32))
        compiled.bind([fenced(a), fenced(b), fenced(c), fenced(row), out])()
        np.testing.assert_allclose(out, a.T * a.T + b.T * c - row, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "axes", "reason"),
    [
        ((N, 3), (1, 0), "shorter than a tile"),
        ((N, M, 16), (1, 0, 2), "no operand is read transposed"),
        ((N,), (0,), "its result is not contiguous along one of several loops"),
    ],
)
def test_declined(shape: tuple, axes: tuple[int, ...], reason: str) -> None:
    assert reason in explain(kernel([shape], lambda x: topi.transpose(x, axes)), VECTORS)[0].declined["transpose"]
