"""Channels last between convolutions: which kernels are converted, which stay, and that values are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import relax, te, tirx, topi

from tests.compiler.schedules.harness import VECTORS, Model, module
from tests.compiler.schedules.test_conv import SPATIAL, Case, N, direct, sample

POINTWISE = Case(8, 24, (1, 1), ())
SAME = Case(24, 16, (3, 3), (), padding=(1, 1, 1, 1))


def conv(bb: relax.BlockBuilder, x: Any, case: Case) -> Any:
    weight = sample((case.outputs, case.channels // case.groups, *case.kernel))
    return bb.emit(relax.op.nn.conv2d(x, relax.const(weight), **case.attributes()))


def reference(x: np.ndarray, case: Case) -> np.ndarray:
    return direct(x, sample((case.outputs, case.channels // case.groups, *case.kernel)), case).astype("float32")


def run(body: Any, x: np.ndarray) -> tuple[np.ndarray, set[str]]:
    """The result on a CPU with vectors, and the names of the kernels."""
    params = [("x", (N, x.shape[1], *SPATIAL[:2]), "float32")]
    model = Model(module(params, body), VECTORS)
    return model(x), set(model.kernels)


def conversions(kernels: set[str]) -> int:
    return sum("channels_" in name for name in kernels)


def highest(t: te.Tensor) -> te.Tensor:
    """Maxima over windows of 3 by 3, with padding."""
    ky, kx = te.reduce_axis((0, 3), "ky"), te.reduce_axis((0, 3), "kx")
    height, width = t.shape[2:]

    def element(n: Any, c: Any, y: Any, x: Any) -> Any:
        at = (y + ky - 1, x + kx - 1)
        inside = tirx.all(at[0] >= 0, at[0] < height, at[1] >= 0, at[1] < width)
        return te.max(tirx.if_then_else(inside, t(n, c, *at), te.min_value("float32")), axis=[ky, kx])

    return te.compute(t.shape, element, name="highest")


def shuffled(t: te.Tensor) -> te.Tensor:
    """Exchanges two dims that the channels are split into."""
    n, a, b, *rest = t.shape
    return te.compute((n, b, a, *rest), lambda n, b, a, *at: t(n, a, b, *at), name="shuffled")


@pytest.mark.parametrize("size", [(1, 1), (5, 9), (12, 31)])
def test_conversions_between_convolutions_cancel(size: tuple[int, int]) -> None:
    def body(bb: relax.BlockBuilder, x: Any) -> Any:
        y = conv(bb, x, POINTWISE)
        y = bb.emit_te(topi.nn.relu, bb.emit_te(topi.add, y, relax.const(sample((1, 24, 1, 1)))))
        y = bb.emit_te(highest, y)
        z = conv(bb, y, SAME)
        return conv(bb, bb.emit_te(lambda a, b: topi.concatenate([a, b], 1), y, z), Case(40, 5, (1, 1), ()))

    x = sample((2, 8, *size))
    got, kernels = run(body, x)
    y = np.maximum(reference(x, POINTWISE) + sample((1, 24, 1, 1)), 0)
    padded = np.pad(y, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    y = np.max([padded[:, :, i : i + size[0], j : j + size[1]] for i in range(3) for j in range(3)], axis=0)
    expected = reference(np.concatenate([y, reference(y, SAME)], 1), Case(40, 5, (1, 1), ()))
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-3)
    assert conversions(kernels) == 2


def test_a_shuffle_of_channels_stays_in_place() -> None:
    def body(bb: relax.BlockBuilder, x: Any) -> Any:
        y = conv(bb, x, POINTWISE)
        n, _, h, w = y.ty.shape.values
        y = bb.emit_te(shuffled, bb.emit(relax.op.reshape(y, (n, 3, 8, h, w))))
        return conv(bb, bb.emit(relax.op.reshape(y, (n, 24, h, w))), SAME)

    x = sample((2, 8, 5, 9))
    got, kernels = run(body, x)
    y = reference(x, POINTWISE).reshape(2, 3, 8, 5, 9).swapaxes(1, 2).reshape(2, 24, 5, 9)
    np.testing.assert_allclose(got, reference(y, SAME), rtol=1e-4, atol=1e-4)
    assert conversions(kernels) == 2


def test_kernels_that_exchange_channels_and_space_get_channels_first() -> None:
    def body(bb: relax.BlockBuilder, x: Any) -> Any:
        y = bb.emit_te(lambda t: topi.transpose(t, (0, 2, 1, 3)), conv(bb, x, POINTWISE))
        return bb.emit_te(topi.nn.relu, y)

    x = sample((2, 8, 5, 9))
    got, kernels = run(body, x)
    np.testing.assert_allclose(got, np.maximum(reference(x, POINTWISE).swapaxes(1, 2), 0), rtol=1e-4, atol=1e-4)
    assert conversions(kernels) == 2
