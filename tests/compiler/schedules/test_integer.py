"""Integer matrix products and convolutions against NumPy: exact, at sizes with remainders in every dim."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import relax, te, tirx

from deploykit.compiler.codegen.native.cpus import Cpu, find_cpu
from deploykit.compiler.codegen.native.objects import emit_object
from deploykit.compiler.devices import microcontrollers
from deploykit.compiler.graph.legalize import legalize
from deploykit.compiler.lowering.lower import HOST_STACK_LIMIT, lower
from deploykit.compiler.operators.anchors.integer import Taps
from deploykit.compiler.operators.building import integer_calls
from deploykit.compiler.operators.building.integer_calls import Geometry
from deploykit.compiler.schedules import DEVICES, Device, explain, schedule
from deploykit.compiler.schedules.integer.dot import pairs_fit
from deploykit.compiler.tir.rewriting import collect
from deploykit.compiler.variant import native
from tests.compiler.schedules.harness import BOTH, BY_ELEMENT, LOADS_FIRST, TILES, VECTORS, Model, module

BOARDS = (microcontrollers.SCALAR, microcontrollers.PAIRS, microcontrollers.HELIUM, microcontrollers.RVV)

N, H, W = (tirx.Var(name, "int64") for name in "nhw")

devices = pytest.mark.parametrize("device", [*BOTH, *BOARDS, TILES], ids=lambda device: device.name)
dtypes = pytest.mark.parametrize("dtype", ["uint8", "int8"])


def sample(shape: Sequence[int], dtype: str, limit: int = 128) -> np.ndarray:
    low, high = (0, 256) if dtype == "uint8" else (-limit, min(limit + 1, 128))
    return np.random.default_rng(sum(shape)).integers(low, high, shape).astype(dtype)


def successor(builder: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
    """An epilogue."""
    return builder.emit_te(lambda t: te.compute(t.shape, lambda *i: t(*i) + 1, name="successor"), x)


def product(depth: int, weight: np.ndarray | int, dtype: str, rows: Any = N) -> Any:
    columns = weight if isinstance(weight, int) else weight.shape[1]

    def body(builder: relax.BlockBuilder, x: Any, *others: Any) -> Any:
        right = others[0] if others else relax.const(weight, "int8")
        total = builder.emit(integer_calls.matmul(x, right, relax.TensorType((rows, columns), "int32")))
        return successor(builder, total)

    right = [("w", (depth, weight), "int8")] if isinstance(weight, int) else []
    return module([("x", (rows, depth), dtype), *right], body)


@devices
@dtypes
@pytest.mark.parametrize(
    ("depth", "columns", "limit"), [(1, 1, 128), (7, 24, 64), (130, 100, 128), (2100, 17, 128), (1100, 40, 60)]
)
def test_products_of_any_size(device: Device, dtype: str, depth: int, columns: int, limit: int) -> None:
    weight = sample((depth, columns), "int8", limit)
    model = Model(product(depth, weight, dtype), device)
    assert len(model.kernels) == (2 if device is VECTORS and dtype == "int8" and limit == 0 else 1)
    for rows in (1, 3, 29, 67):
        x = sample((rows, depth), dtype)
        np.testing.assert_array_equal(model(x), x.astype(np.int32) @ weight.astype(np.int32) + 1)


@pytest.mark.parametrize("rows", [1, 16, 17, 33, 49, 63, 100])
@pytest.mark.parametrize("device", [VECTORS, TILES], ids=lambda device: device.name)
def test_products_of_known_rows(device: Device, rows: int) -> None:
    weight = sample((75, 50), "int8")
    model = Model(product(75, weight, "uint8", rows), device)
    x = sample((rows, 75), "uint8")
    np.testing.assert_array_equal(model(x), x.astype(np.int32) @ weight.astype(np.int32) + 1)


@dtypes
@pytest.mark.parametrize(("depth", "columns", "limit"), [(7, 24, 64), (130, 100, 128), (2100, 17, 64), (64, 40, 60)])
@pytest.mark.parametrize("device", [BY_ELEMENT, LOADS_FIRST], ids=["from vectors", "loads first"])
def test_products_with_other_tiles(dtype: str, depth: int, columns: int, limit: int, device: Device) -> None:
    """Depths of whole vectors of groups and of less, and one that is cut into parts."""
    weight = sample((depth, columns), "int8", limit)
    model = Model(product(depth, weight, dtype), device)
    for rows in (1, 3, 29):
        x = sample((rows, depth), dtype)
        np.testing.assert_array_equal(model(x), x.astype(np.int32) @ weight.astype(np.int32) + 1)


@devices
def test_right_factors_computed_at_run_time(device: Device) -> None:
    model = Model(product(65, 50, "uint8"), device)
    x, weight = sample((6, 65), "uint8"), sample((65, 50), "int8")
    np.testing.assert_array_equal(model(x, weight), x.astype(np.int32) @ weight.astype(np.int32) + 1)


def test_sums_of_two_products_that_fit_16_bits() -> None:
    assert pairs_fit(np.array([[64], [64], [-128], [127]], np.int8))
    assert not pairs_fit(np.array([[65], [64]], np.int8))
    assert not pairs_fit(np.array([[-65], [-64], [0]], np.int8))
    assert pairs_fit(np.array([[64], [65], [1]], np.int8).repeat(2, axis=1)[1:])


def convolution(weight: np.ndarray, geometry: Geometry, sizes: Sequence[Any], dtype: str) -> Any:
    padded = [size + b + a for size, b, a in zip(sizes, geometry.before, geometry.after, strict=True)]
    spatial = Taps(weight.shape[1:-1], geometry.strides, geometry.dilation).counts(padded)

    def body(builder: relax.BlockBuilder, x: Any) -> Any:
        type_ = relax.TensorType((N, *spatial, weight.shape[0]), "int32")
        zero = relax.const(np.asarray(3, dtype), dtype)
        return successor(
            builder, builder.emit(integer_calls.conv(x, relax.const(weight, "int8"), zero, geometry, type_))
        )

    channels = weight.shape[-1] * geometry.groups
    return module([("x", (N, *sizes, channels), dtype)], body)


def convolved(x: np.ndarray, weight: np.ndarray, geometry: Geometry) -> np.ndarray:
    edges = list(zip(geometry.before, geometry.after, strict=True))
    x = np.pad(x.astype(np.int32), [(0, 0), *edges, (0, 0)], constant_values=3)
    rows, columns = (
        (size - (k - 1) * d - 1) // s + 1
        for size, k, d, s in zip(x.shape[1:3], weight.shape[1:3], geometry.dilation, geometry.strides, strict=True)
    )
    y = np.zeros((x.shape[0], rows, columns, weight.shape[0]), np.int32)
    for i in range(weight.shape[1]):
        for j in range(weight.shape[2]):
            part = x[:, i * geometry.dilation[0] :, j * geometry.dilation[1] :]
            part = part[:, :: geometry.strides[0], :: geometry.strides[1]][:, :rows, :columns]
            factors = weight[:, i, j].astype(np.int32).reshape(geometry.groups, -1, weight.shape[-1])
            grouped = part.reshape(*part.shape[:-1], geometry.groups, -1)
            y += np.einsum("nyxgc,goc->nyxgo", grouped, factors).reshape(y.shape)
    return y


SAME = Geometry((1, 1), (1, 1), (1, 1), (1, 1), 1)
CASES = {
    "few-channels": ((24, 3, 3, 3), replace(SAME, strides=(2, 2))),
    "one-tap": ((40, 1, 1, 20), Geometry((1, 1), (1, 1), (0, 0), (0, 0), 1)),
    "one-tap-strided": ((17, 1, 1, 20), Geometry((2, 2), (1, 1), (0, 0), (0, 0), 1)),
    "rows-of-taps": ((33, 3, 3, 150), SAME),
    "single-taps": ((16, 3, 3, 404), replace(SAME, dilation=(2, 1))),
    "odd-depth": ((16, 3, 3, 401), SAME),
    "uneven": ((8, 2, 3, 12), Geometry((2, 1), (1, 2), (0, 2), (1, 0), 1)),
    "groups": ((36, 3, 3, 5), replace(SAME, groups=3)),
    "groups-of-one-tap": ((34, 1, 1, 7), Geometry((1, 1), (1, 1), (0, 0), (0, 0), 2)),
    "groups-of-one-output": ((7, 2, 3, 3), Geometry((2, 1), (1, 2), (0, 2), (1, 0), 7)),
    "narrow-groups": ((24, 3, 3, 4), replace(SAME, groups=6)),
    "wide-groups-of-taps": ((100, 3, 3, 136), replace(SAME, groups=2, strides=(1, 2))),
    "outputs-of-a-channel": ((15, 3, 3, 1), replace(SAME, groups=5)),
    "depthwise": ((37, 3, 3, 1), replace(SAME, groups=37)),
    "depthwise-inside": ((9, 2, 3, 1), Geometry((1, 2), (2, 1), (0, 0), (0, 0), 9)),
    "depthwise-wide": ((130, 3, 3, 1), replace(SAME, groups=130)),
    "depthwise-strided": ((16, 5, 5, 1), Geometry((2, 2), (1, 1), (2, 2), (2, 2), 16)),
}


@devices
@pytest.mark.parametrize("case", CASES, ids=str)
def test_convolutions(device: Device, case: str) -> None:
    shape, geometry = CASES[case]
    dtype = "int8" if len(case) % 2 else "uint8"
    weight = sample(shape, "int8", 64 if "taps" in case else 128)
    model = Model(convolution(weight, geometry, (H, W), dtype), device)
    for size in ((1, 5, 9), (2, 14, 13)):
        x = sample((*size, shape[-1] * geometry.groups), dtype)
        np.testing.assert_array_equal(model(x), convolved(x, weight, geometry) + 1, err_msg=str(size))


@pytest.mark.parametrize(
    ("device", "products", "depthwise"),
    [
        (VECTORS, "integer_matmul", "integer_depthwise"),
        *((device, "integer_words", "depthwise_words") for device in BOARDS[:2]),
        *((device, "integer_rows", "depthwise_rows") for device in BOARDS[2:]),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_rules_take_them(device: Device, products: str, depthwise: str) -> None:
    for case, rule in (("rows-of-taps", products), ("one-tap", products), ("depthwise", depthwise)):
        shape, geometry = CASES[case]
        model = Model(convolution(sample(shape, "int8"), geometry, (9, 9), "uint8"), device)
        notes = [explain(f, device) for f in model.mod.functions.values() if isinstance(f, tirx.PrimFunc)]
        assert any(note[0].rule == rule for note in notes), notes


@pytest.mark.parametrize(
    ("device", "name", "instruction"),
    [
        ("x86-64-v4-amx", "x86-64-amx", "tdpbusd"),
        ("x86-64-v2", "x86-64-v2", "pmaddubsw"),
        ("x86-64-v4", "x86-64-v4", "vpmaddubsw"),
        ("x86-64-v4-vnni", "x86-64-v4+avx512vnni", "vpdpbusd"),
        ("arm64-dotprod", "armv8.2-a+dotprod", "sdot"),
        ("arm64-i8mm", "armv8.2-a+dotprod+i8mm", "smmla"),
    ],
)
def test_instructions_of_other_machines(device: str, name: str, instruction: str, tmp_path: Path) -> None:
    cpu = find_cpu(name)
    assert native(cpu).device is DEVICES[device]
    mod = legalize(product(64, sample((64, 64), "int8", 64), "uint8"), DEVICES[device])
    funcs = [f for f in mod.functions.values() if isinstance(f, tirx.PrimFunc)]
    rule = "integer_amx" if DEVICES[device].amx else "integer_matmul"
    func = next(f for f in funcs if explain(f, DEVICES[device])[0].rule == rule)
    kernel = lower(schedule(func, DEVICES[device]), "kernel", stack_limit=HOST_STACK_LIMIT).kernel
    (tmp_path / "k.o").write_bytes(emit_object([kernel], "t", cpu))
    assert instruction in _disassembled(tmp_path / "k.o", cpu)


@pytest.mark.parametrize("depth", [64, 5000])
@pytest.mark.parametrize("rows", [1, 15, 17, 33, 40, 49, 63, 67])
def test_sums_in_tile_registers_have_room_for_rows_that_do_not_exist(rows: int, depth: int) -> None:
    """Layers of one height hold 42 rows if there are 40: instructions write all of them."""
    device = DEVICES["x86-64-v4-amx"]
    mod = legalize(product(depth, sample((depth, 16), "int8", 64), "uint8", rows), device)
    (func,) = [f for f in mod.functions.values() if isinstance(f, tirx.PrimFunc) and _in_tiles(f, device)]
    kernel = lower(schedule(func, device), "kernel", stack_limit=HOST_STACK_LIMIT).kernel
    name = "tile" if depth == 64 else "kept"
    sizes = [
        int(each.buffer.shape[0])
        for each in collect(kernel.func.body, tirx.AllocBuffer)
        if each.buffer.name.startswith(name)
    ]
    one = min(rows, 64 if rows <= 64 else 32)
    layers = -(-one // 16)
    assert max(sizes) >= layers * -(-one // layers) * 16


def _in_tiles(func: tirx.PrimFunc, device: Device) -> bool:
    return any(choice.rule == "integer_amx" for choice in explain(func, device))


def _disassembled(path: Path, cpu: Cpu) -> str:
    if cpu.triple.startswith("x86"):
        return subprocess.run(["objdump", "-d", str(path)], check=True, capture_output=True, text=True).stdout
    words = np.frombuffer(path.read_bytes(), "<u4", len(path.read_bytes()) // 4)
    smmla = (words & 0xFFE0FC00) == 0x4E80A400
    sdot = (words & 0xFFE0FC00) == 0x4E809400
    by_element = (words & 0xFFC0F400) == 0x4F80E000
    return "smmla" if smmla.any() else "sdot" if (sdot | by_element).any() else ""
