"""Matrix products in all forms that models have, against NumPy, at sizes with remainders in every dim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tvm import relax, te, tirx, topi

from deploykit.compiler.devices import microcontrollers
from deploykit.compiler.graph.quantize_weights import quantize_weights
from deploykit.compiler.operators.anchors.annotation import ANCHOR
from deploykit.compiler.schedules import Device, explain
from tests.compiler.schedules.harness import BOTH, BY_ELEMENT, LOADS_FIRST, VECTORS, Model, module

B, N, K, M = (tirx.Var(name, "int64") for name in "bnkm")
SIZES = [(1, 1, 1), (3, 5, 7), (25, 33, 40), (0, 3, 2), (3, 0, 2)]

devices = pytest.mark.parametrize(
    "device", [*BOTH, microcontrollers.HELIUM, microcontrollers.RVV], ids=lambda device: device.name
)


def sample(shape: Sequence[int], dtype: str = "float32") -> np.ndarray:
    rng = np.random.default_rng(sum(shape))
    if dtype.startswith("float"):
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(0 if dtype.startswith("u") else -5, 6, shape).astype(dtype)


def product(a: Sequence[Any], b: Sequence[Any] | np.ndarray, dtype: str = "float32") -> Any:
    if isinstance(b, np.ndarray):
        return module([("a", a, dtype)], lambda bb, x: bb.emit(relax.op.matmul(x, relax.const(b))))
    return module([("a", a, dtype), ("b", b, dtype)], lambda bb, x, y: bb.emit(relax.op.matmul(x, y)))


def check(got: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    if got.dtype.kind != "f":
        np.testing.assert_array_equal(got, np.matmul(a, b))
        return
    tolerance = 2e-3 if got.dtype == np.float16 else 1e-5
    np.testing.assert_allclose(
        got, np.matmul(a.astype("float64"), b.astype("float64")), rtol=tolerance, atol=tolerance * 10
    )


@pytest.mark.sampled(part=6)
@devices
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int32", "uint8", "int64"])
def test_two_matrices_of_any_size(device: Device, dtype: str) -> None:
    model = Model(product((N, K), (K, M), dtype), device)
    for n, k, m in SIZES:
        a, b = sample((n, k), dtype), sample((k, m), dtype)
        check(model(a, b), a, b)


@devices
@pytest.mark.parametrize("columns", [1, 2, 3, 5, 6, 7, 10, 13])
def test_few_columns_of_a_constant(device: Device, columns: int) -> None:
    weight = sample((9, columns))
    model = Model(product((N, 9), weight), device)
    for n in (0, 1, 2, 7):
        a = sample((n, 9))
        check(model(a), a, weight)


@pytest.mark.sampled(part=6)
@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("other", [BY_ELEMENT, LOADS_FIRST], ids=["from vectors", "loads first"])
def test_other_tiles_give_the_same_bits(dtype: str, constant: bool, other: Device) -> None:
    """Depths with every remainder, one that is cut into chunks, and one that is not known. A single row has its sums in
    another order, unless the device is to be exact."""
    devices = [replace(device, exact=True) for device in (VECTORS, other)]
    for depth in (8, 23, 2100, K):
        for rows in (1, 13, 61):
            k = 77 if depth is K else depth
            a, b = sample((rows, k), dtype), sample((k, 40), dtype)
            right = b if constant and depth is not K else (depth, 40)
            given = (a,) if isinstance(right, np.ndarray) else (a, b)
            found = [Model(product((N, depth), right, dtype), device)(*given) for device in devices]
            np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.parametrize("columns", [40, 3])
def test_halves_are_widened_once_where_that_takes_long(columns: int) -> None:
    """Without instructions for float16, a unit of work packs panels of float32."""
    devices = [VECTORS, replace(VECTORS, name="without halves", halves=False)]
    for depth in (23, 2100):
        weight = sample((depth, columns)).astype(np.float16).astype(np.float32)
        halves, _ = quantize_weights(product((N, depth), weight), "fp16", least=1)
        models = [Model(halves, device) for device in devices]
        packs = ["packed" in str(kernel.func) for model in models for kernel in model.kernels.values()]
        assert packs == [False, True]
        for rows in (1, 13, 300):
            a = sample((rows, depth))
            found = [model(a) for model in models]
            exact = a.astype("float64") @ weight.astype("float64")
            for each in found:
                np.testing.assert_allclose(each, exact, rtol=1e-5, atol=1e-3)


@devices
@pytest.mark.parametrize(("rows", "tiled"), [(N, True), (40, True), (3, False)])
def test_the_rows_of_the_right_operand_may_be_its_columns(device: Device, rows: Any, tiled: bool) -> None:
    def compute(x: te.Tensor, y: te.Tensor) -> te.Tensor:
        depth = te.reduce_axis((0, x.shape[2]), "k")
        shape = (x.shape[0], x.shape[1], y.shape[1])
        attrs = {ANCHOR: "matmul"}
        return te.compute(shape, lambda b, i, j: te.sum(x[b, i, depth] * y[b, j, depth], depth), attrs=attrs)

    inputs = [("a", (B, rows, K), "float32"), ("b", (B, M, K), "float32")]
    mod = module(inputs, lambda bb, x, y: bb.emit_te(compute, x, y))
    model = Model(mod, device)
    for n, k, m in SIZES:
        a, b = sample((2, n if rows is N else rows, k)), sample((2, m, k))
        check(model(a, b), a, b.swapaxes(1, 2))
    (func,) = (func for func in mod.functions.values() if isinstance(func, tirx.PrimFunc))
    (choice,) = explain(func, device)
    assert (choice.rule == "matmul") == (tiled and device is VECTORS), choice.declined


@devices
@pytest.mark.parametrize("constant", [True, False])
def test_bits_of_bfloat16_are_summed_in_float32(device: Device, constant: bool) -> None:
    weight = (sample((33, 40)).view(np.uint32) >> 16).astype(np.uint16)

    def wide(bits: np.ndarray) -> np.ndarray:
        return (bits.astype(np.uint32) << 16).view(np.float32)

    def build(bb: relax.BlockBuilder, x: relax.Expr, y: relax.Expr = None) -> relax.Expr:
        right = relax.const(weight, "uint16") if constant else y
        return bb.emit(relax.op.matmul(x, right, out_dtype="float32"))

    inputs = [("a", (N, 33), "uint16"), *([] if constant else [("b", (33, M), "uint16")])]
    mod = module(inputs, build)
    model = Model(mod, device)
    for n in (1, 7, 40):
        a = (sample((n, 33)).view(np.uint32) >> 16).astype(np.uint16)
        check(model(a, *([] if constant else [weight])), wide(a), wide(weight))


@devices
@pytest.mark.parametrize("width", [1, 10, 33, 64])
def test_a_constant_right_operand_is_packed(device: Device, width: int) -> None:
    weight = sample((33, width))
    model = Model(product((N, 33), weight), device)
    for n in (0, 1, 7, 40):
        a = sample((n, 33))
        check(model(a), a, weight)


@devices
@pytest.mark.parametrize(
    ("a", "b", "shapes"),
    [
        ((K,), (K, M), [((5,), (5, 7)), ((64,), (64, 33))]),
        ((N, K), (K,), [((5, 7), (7,)), ((40, 33), (33,))]),
        ((K,), (K,), [((1,), (1,)), ((65,), (65,))]),
        ((B, 1, N, K), (4, K, M), [((2, 1, 5, 7), (4, 7, 9))]),
        ((B, 4, N, K), (B, 4, K, M), [((2, 4, 5, 7), (2, 4, 7, 9)), ((1, 4, 13, 20), (1, 4, 20, 33))]),
        ((1, K), (K, M), [((1, 5), (5, 40))]),
    ],
    ids=["vector-matrix", "matrix-vector", "vectors", "broadcast", "batched", "one-row"],
)
def test_ranks_and_batch_dims(device: Device, a: Any, b: Any, shapes: Any) -> None:
    model = Model(product(a, b), device)
    for left, right in shapes:
        x, y = sample(left), sample(right)
        check(model(x, y), x, y)


@devices
def test_rows_of_all_batches_meet_a_shared_weight(device: Device) -> None:
    weight = sample((20, 17))
    model = Model(product((B, N, 20), weight), device)
    for shape in [(1, 1, 20), (3, 9, 20), (2, 50, 20)]:
        a = sample(shape)
        check(model(a), a, weight)


@devices
def test_bias_activation_and_residual_are_one_kernel(device: Device) -> None:
    weight, bias = sample((33, 40)), sample((40,))

    def body(bb: relax.BlockBuilder, x: Any, residual: Any) -> Any:
        y = bb.emit(relax.op.matmul(x, relax.const(weight)))
        y = bb.emit_te(topi.add, y, relax.const(bias))
        y = bb.emit_te(topi.nn.relu, y)
        return bb.emit_te(topi.add, y, residual)

    model = Model(module([("x", (N, 33), "float32"), ("r", (N, 40), "float32")], body), device)
    assert len(model.kernels) == 1
    for n in (1, 30):
        x, residual = sample((n, 33)), sample((n, 40))
        expected = np.maximum(x @ weight + bias, 0) + residual
        np.testing.assert_allclose(model(x, residual), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("right", [sample((64, 64)), (64, 64), (64, M)], ids=["constant", "static", "symbolic"])
def test_products_are_computed_by_tiles(right: Any) -> None:
    model = Model(product((N, 64), right), VECTORS)
    (kernel,) = [func for func in model.mod.functions.values() if isinstance(func, tirx.PrimFunc)]
    assert list(map(str, explain(kernel, VECTORS))) == ["matmul: matmul"]
