"""Matrix products in blocks for caches: chunks of the depth, copied rows, tiles of every height, all kinds of
epilogues."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm_ffi
from tvm import ir, relax, tirx, topi

from deploykit.compiler.schedules import DEVICES, Device
from deploykit.compiler.schedules.matmul.blocking import Blocking, blocking_for
from deploykit.compiler.schedules.matmul.tile import Tile, panel_width, tile_for
from deploykit.compiler.schedules.matmul.tile_heights import heights_for
from deploykit.compiler.tir.rewriting import call_name, collect
from deploykit.compiler.tir.values import const, static
from deploykit.targets.webgpu.devices import WASM_SIMD128
from tests.compiler.schedules.harness import VECTORS, Model, module

N, K, M = (tirx.Var(name, "int64") for name in "nkm")
WIDE = DEVICES["x86-64-v4"]

devices = pytest.mark.parametrize("device", [VECTORS, WIDE, DEVICES["arm64"]], ids=lambda device: device.name)


def sample(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


def cut(device: Device, depth: object, *, columns: int = 768, resumable: bool = True) -> Blocking:
    tile = tile_for(device, "float32", 2)
    return blocking_for(device, tile, depth, const(columns), resumable=resumable)


@pytest.mark.parametrize(
    ("depth", "chunks", "copied"),
    [(64, 1, False), (768, 1, False), (1024, 3, True), (3072, 8, True), (1000, 2, False)],
)
def test_the_depth_is_cut_for_the_first_level_cache(depth: int, chunks: int, copied: bool) -> None:
    blocking = cut(WIDE, const(depth))
    assert (static(blocking.chunks), blocking.pitch > 0) == (chunks, copied)


@pytest.mark.parametrize(
    ("name", "rows", "vectors"),
    [("x86-64-v2", 6, 2), ("x86-64-v3", 6, 2), ("x86-64-v4", 12, 2), ("arm64", 5, 4), ("scalar-c", 3, 4)],
)
def test_the_register_tile_of_a_device(name: str, rows: int, vectors: int) -> None:
    device = DEVICES[name]
    width = panel_width(device, "float32", const(768))
    tile = tile_for(device, "float32", width // device.lanes(32))
    assert (tile.rows, tile.vectors) == (rows, vectors)


@pytest.mark.parametrize(
    ("columns", "width"), [(1, 1), (2, 2), (3, 3), (4, 4), (6, 3), (7, 4), (9, 3), (10, 5), (12, 4), (30, 4), (768, 4)]
)
def test_panels_of_few_columns_have_little_padding_without_vectors(columns: int, width: int) -> None:
    assert panel_width(DEVICES["scalar-c"], "float32", const(columns)) == width


def test_sums_that_cannot_wait_are_computed_in_one_chunk() -> None:
    for depth in (const(5000), K):
        blocking = cut(WIDE, depth, resumable=False)
        assert (static(blocking.chunks), blocking.pitch) == (1, 0)


@pytest.mark.parametrize("tile", [(12, 2, 16), (6, 2, 8), (6, 4, 4), (8, 1, 16), (3, 4, 1)])
def test_rows_are_cut_into_tiles_of_few_heights(tile: tuple[int, int, int]) -> None:
    heights = heights_for(Tile(*tile, "float32"))
    assert len(heights.menu) <= 6
    for rows in range(1, 100):
        cut = heights.cut(rows)
        beyond = sum(height * count for height, count in cut.items()) - rows
        assert set(cut) <= set(heights.menu)
        assert 0 <= beyond < min(cut)
        assert beyond == 0 or min(cut) in heights.beyond


@devices
@pytest.mark.parametrize(("depth", "width"), [(1100, 70), (1024, 160)])
def test_sums_wait_in_the_result_between_chunks(device: Device, depth: int, width: int) -> None:
    weight = sample(depth, width)
    model = Model(
        module([("a", (N, depth), "float32")], lambda bb, x: bb.emit(relax.op.matmul(x, relax.const(weight)))), device
    )
    for n in (1, 2, 13, 50, 101):
        a = sample(n, depth)
        np.testing.assert_allclose(model(a), a.astype("float64") @ weight, rtol=1e-4, atol=1e-3)


@devices
def test_a_symbolic_depth_may_be_nothing_or_many_chunks(device: Device) -> None:
    params = [("a", (N, K), "float32"), ("b", (K, M), "float32")]
    model = Model(module(params, lambda bb, x, y: bb.emit(relax.op.matmul(x, y))), device)
    for n, k, m in [(5, 0, 40), (30, 1, 100), (25, 1500, 70), (3, 400, 97), (4, 40, 64)]:
        a, b = sample(n, k), sample(k, m)
        np.testing.assert_allclose(model(a, b), a.astype("float64") @ b, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("height", [1, 3, 11, 13])
def test_known_numbers_of_rows(height: int) -> None:
    weight = sample(20, 40)
    model = Model(
        module([("a", (height, 20), "float32")], lambda bb, x: bb.emit(relax.op.matmul(x, relax.const(weight)))), WIDE
    )
    a = sample(height, 20)
    np.testing.assert_allclose(model(a), a @ weight, rtol=1e-4, atol=1e-4)


@devices
@pytest.mark.parametrize("width", [40, 10])
def test_any_number_of_rows(device: Device, width: int) -> None:
    weight = sample(23, width)
    model = Model(
        module([("a", (N, 23), "float32")], lambda bb, x: bb.emit(relax.op.matmul(x, relax.const(weight)))), device
    )
    for rows in range(1, 40):
        a = sample(rows, 23)
        np.testing.assert_allclose(model(a), a @ weight, rtol=1e-4, atol=1e-4)


@devices
def test_epilogues_with_functions_are_applied_with_the_last_chunk(device: Device) -> None:
    weight, bias = sample(1100, 72) / 33, sample(72)

    def body(bb: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        y = bb.emit(relax.op.matmul(x, relax.const(weight)))
        return bb.emit_te(topi.tanh, bb.emit_te(topi.add, y, relax.const(bias)))

    model = Model(module([("x", (N, 1100), "float32")], body), device)
    assert len(model.kernels) == 1
    for n in (1, 30):
        x = sample(n, 1100)
        np.testing.assert_allclose(model(x), np.tanh(x @ weight + bias), rtol=1e-4, atol=1e-4)


def test_erf_is_applied_to_whole_vectors() -> None:
    def body(bb: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        return bb.emit_te(topi.erf, bb.emit(relax.op.matmul(x, relax.const(sample(20, 64)))))

    (kernel,) = Model(module([("x", (5, 20), "float32")], body), WIDE).kernels.values()
    vectors = [loop for loop in collect(kernel.func.body, tirx.For) if loop.kind == tirx.ForKind.VECTORIZED]
    assert any(call_name(call) == "erf" for loop in vectors for call in collect(loop, ir.Call))


@devices
def test_several_panels_are_packed_at_a_time(device: Device) -> None:
    params = [("a", (N, 40), "float32"), ("b", (40, M), "float32")]
    model = Model(module(params, lambda bb, x, y: bb.emit(relax.op.matmul(x, y))), device)
    for n, m in [(1, 300), (2, 64), (30, 333), (13, 5)]:
        a, b = sample(n, 40), sample(40, m)
        np.testing.assert_allclose(model(a, b), a.astype("float64") @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("device", [VECTORS, WASM_SIMD128], ids=lambda device: device.name)
def test_few_rows_read_a_large_operand_in_several_streams(device: Device) -> None:
    def model(weight: np.ndarray, streams: int) -> Model:
        body = module(
            [("a", (N, len(weight)), "float32")], lambda bb, a: bb.emit(relax.op.matmul(a, relax.const(weight)))
        )
        return Model(body, replace(device, streams=streams))

    def same(weight: np.ndarray) -> bool:
        one, several = ([k.func for k in model(weight, streams).kernels.values()] for streams in (1, 4))
        return all(tvm_ffi.structural_equal(a, b) for a, b in zip(one, several, strict=True))

    large, small = sample(521, 267), sample(65, 267)
    assert same(small)
    assert not same(large)
    product = model(large, 4)
    for rows in (1, 2, 3, 4, 5, 7, 16, 17):
        a = sample(rows, 521)
        np.testing.assert_allclose(product(a), a @ large, rtol=1e-4, atol=1e-4)


def test_memory_is_read_in_streams_where_nothing_asks_for_it_ahead() -> None:
    assert all(device.streams == 1 for device in DEVICES.values())
    assert WASM_SIMD128.streams > 1
