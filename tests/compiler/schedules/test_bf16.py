"""Products and convolutions of bfloat16 against NumPy, which multiplies rounded factors in float64."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import erf
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tvm import relax, te, tirx

from deploykit.basics.caches import compiled_files
from deploykit.compiler.codegen.native import functions
from deploykit.compiler.codegen.native.cpus import find_cpu, host_cpu
from deploykit.compiler.codegen.native.objects import emit_object
from deploykit.compiler.graph.legalize import legalize
from deploykit.compiler.lowering.kernel import Kernel
from deploykit.compiler.lowering.lower import HOST_STACK_LIMIT, lower
from deploykit.compiler.schedules import DEVICES, Device, explain, schedule
from deploykit.compiler.variant import native
from tests.compiler.schedules.harness import BY_ELEMENT, LOADS_FIRST, TILES, VECTORS, Compiled, Model, module
from tests.compiler.schedules.test_integer import _disassembled

PAIRS = DEVICES["x86-64-v4-bf16"]
N, H, W = (tirx.Var(name, "int64") for name in "nhw")

has_pairs = "avx512bf16" in host_cpu().requires
devices = pytest.mark.parametrize(
    "device",
    [
        VECTORS,
        BY_ELEMENT,
        LOADS_FIRST,
        replace(VECTORS, name="exact", exact=True),
        pytest.param(PAIRS, marks=pytest.mark.skipif(not has_pairs, reason="this CPU has no AVX512_BF16")),
        TILES,
    ],
    ids=lambda device: device.name,
)


def sample(shape: Sequence[int]) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def rounded(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return x.astype(ml_dtypes.bfloat16).astype(np.float64)


def product(weight: np.ndarray, lead: Sequence[Any] = (N,)) -> Any:
    def body(builder: relax.BlockBuilder, x: Any) -> Any:
        total = builder.emit(relax.op.matmul(x, relax.const(weight, "float32")))
        return builder.emit_te(lambda t: te.compute(t.shape, lambda *i: t(*i) + 1, name="successor"), total)

    return module([("x", (*lead, weight.shape[0]), "float32")], body)


def near(found: np.ndarray, expected: np.ndarray, depth: int, error: float = 4e-7) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=error * max(depth, 1))


@devices
@pytest.mark.parametrize(("depth", "columns"), [(1, 1), (7, 24), (130, 100), (2101, 17), (1100, 40), (64, 48)])
def test_products_of_any_size(device: Device, depth: int, columns: int) -> None:
    weight = sample((depth, columns))
    model = Model(product(weight), device, precision="bf16")
    for rows in (1, 3, 29, 67):
        x = sample((rows, depth))
        near(model(x), rounded(x) @ rounded(weight) + 1, depth)


@devices
def test_batches(device: Device) -> None:
    weight = sample((33, 20))
    model = Model(product(weight, (N, H)), device, precision="bf16")
    for batch, rows in ((1, 1), (2, 15), (3, 4)):
        x = sample((batch, rows, 33))
        near(model(x), rounded(x) @ rounded(weight) + 1, 33)


CASES = {
    "few-channels": ((24, 3, 3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
    "one-tap": ((40, 20, 1, 1), (1, 1), (0, 0, 0, 0), (1, 1)),
    "one-tap-strided": ((17, 20, 1, 1), (2, 2), (0, 0, 0, 0), (1, 1)),
    "rows-of-taps": ((33, 150, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    "dilated": ((16, 404, 3, 3), (1, 1), (1, 1, 1, 1), (2, 1)),
    "odd-depth": ((16, 401, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    "uneven": ((8, 12, 2, 3), (2, 1), (0, 2, 1, 0), (1, 2)),
    "winograd": ((64, 64, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),  # in float32, without AMX
}


def convolution(weight: np.ndarray, strides: Any, padding: Any, dilation: Any, sizes: Sequence[Any]) -> Any:
    def body(builder: relax.BlockBuilder, x: Any) -> Any:
        kernel = relax.const(weight, "float32")
        given = {"strides": strides, "padding": padding, "dilation": dilation}
        return builder.emit(relax.op.nn.conv2d(x, kernel, **given))

    return module([("x", (N, weight.shape[1], *sizes), "float32")], body)


def convolved(x: np.ndarray, weight: np.ndarray, strides: Any, padding: Any, dilation: Any) -> np.ndarray:
    x = np.pad(x, [(0, 0), (0, 0), (padding[0], padding[2]), (padding[1], padding[3])])
    rows, columns = (
        (size - (k - 1) * d - 1) // s + 1
        for size, k, d, s in zip(x.shape[2:], weight.shape[2:], dilation, strides, strict=True)
    )
    y = np.zeros((x.shape[0], weight.shape[0], rows, columns))
    for i in range(weight.shape[2]):
        for j in range(weight.shape[3]):
            part = x[:, :, i * dilation[0] :, j * dilation[1] :][:, :, :: strides[0], :: strides[1]]
            y += np.einsum("nchw,oc->nohw", part[:, :, :rows, :columns], weight[:, :, i, j])
    return y


@devices
@pytest.mark.parametrize("case", CASES, ids=str)
def test_convolutions(device: Device, case: str) -> None:
    shape, strides, padding, dilation = CASES[case]
    weight = sample(shape)
    model = Model(convolution(weight, strides, padding, dilation, (H, W)), device, precision="bf16")
    for size in ((1, 5, 9), (2, 14, 13)):
        x = sample((size[0], shape[1], *size[1:]))
        in_float32 = case == "winograd" and not device.amx
        factors = (x, weight) if in_float32 else (rounded(x), rounded(weight))
        expected = convolved(*factors, strides, padding, dilation)
        near(model(x), expected, int(np.prod(shape[1:])), 2e-6 if in_float32 else 4e-7)


@devices
def test_special_values_stay(device: Device) -> None:
    """A NaN or an infinity is in the results of its row only, also where rows end within a pair of factors."""
    weight = np.abs(sample((7, 5))) + 1
    model = Model(product(weight), device, precision="bf16")
    x = np.abs(sample((6, 7)))
    x[1, 6], x[2, 0], x[3, 3], x[4, 2] = np.nan, np.inf, 3.4e38, -0.0
    with np.errstate(invalid="ignore"):
        expected = rounded(x) @ rounded(weight) + 1
    found = model(x)
    assert np.isnan(found[1]).all()
    assert np.isposinf(found[2:4]).all()
    near(found[[0, 4, 5]], expected[[0, 4, 5]], 7)


@devices
def test_weights_that_are_no_numbers(device: Device) -> None:
    weight = sample((6, 3))
    weight[2, 1], weight[3, 2] = np.nan, np.inf
    found = Model(product(weight), device, precision="bf16")(np.abs(sample((2, 6))))
    assert np.isnan(found[:, 1]).all()
    assert np.isposinf(found[:, 2]).all()
    assert np.isfinite(found[:, 0]).all()


def test_products_of_computed_operands_stay_in_float32() -> None:
    decisions: list[Any] = []

    def body(_: relax.BlockBuilder, x: Any, y: Any) -> Any:
        return relax.op.matmul(x, y)

    mod = module([("x", (N, 8), "float32"), ("y", (8, 4), "float32")], body)
    model = Model(mod, VECTORS, note=decisions.append, precision="bf16")
    x, y = sample((3, 8)), sample((8, 4))
    np.testing.assert_allclose(model(x, y), x @ y, rtol=1e-5)
    assert any("bf16: " in str(each) and "both operands are computed" in str(each) for each in decisions)


def product_kernel(device: Device) -> Kernel:
    mod = legalize(product(sample((64, 64))), device, precision="bf16")
    funcs = [f for f in mod.functions.values() if isinstance(f, tirx.PrimFunc)]
    rule = "integer_amx" if device.amx else "integer_matmul"
    func = next(f for f in funcs if explain(f, device)[0].rule == rule)
    return lower(schedule(func, device), "kernel", stack_limit=HOST_STACK_LIMIT).kernel


def test_objects_are_kept_for_the_functions_that_they_contain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function in LLVM's language that was changed is compiled again."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kernel, cpu = product_kernel(PAIRS), find_cpu("x86-64-v4+avx512vnni+avx512bf16")
    for number in (1, 1, 2):
        if number == 2:
            changed = {name: f"; changed\n{text}" for name, text in functions.FUNCTIONS.items()}
            monkeypatch.setattr(functions, "FUNCTIONS", changed)
        emit_object([kernel], "t", cpu)
        assert len(compiled_files()) == number


@pytest.mark.parametrize(
    ("device", "name", "instruction"),
    [
        ("x86-64-v4-amx", "x86-64-amx", "tdpbf16ps"),
        ("x86-64-v4-bf16", "x86-64-v4+avx512vnni+avx512bf16", "vdpbf16ps"),
        ("x86-64-v3", "x86-64-v3", "vfmadd"),
    ],
)
def test_instructions(device: str, name: str, instruction: str, tmp_path: Path) -> None:
    cpu = find_cpu(name)
    assert native(cpu).device is DEVICES[device]
    (tmp_path / "k.o").write_bytes(emit_object([product_kernel(DEVICES[device])], "t", cpu))
    assert instruction in _disassembled(tmp_path / "k.o", cpu)
    symbols = subprocess.run(["nm", str(tmp_path / "k.o")], check=True, capture_output=True, text=True).stdout
    assert "vdpbf16ps" not in symbols
    assert "amx" not in symbols


ROUNDED: dict[str, tuple[Callable[[Any], Any], Callable[[np.ndarray], np.ndarray]]] = {
    "x": (lambda x: x, lambda x: x),
    "erf": (tirx.erf, np.vectorize(erf)),
    "exp": (tirx.exp, np.exp),
    "tanh": (tirx.tanh, np.tanh),
    "sigmoid": (tirx.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
    "sin": (tirx.sin, np.sin),
    "quotient": (lambda x: x / tirx.const(1.4142135, "float32"), lambda x: x / np.float64(np.float32(1.4142135))),
}
"""Functions of values that are rounded at once, and in float64."""


@pytest.mark.skipif(not has_pairs, reason="this CPU has no AVX512_BF16")
@pytest.mark.parametrize("name", ROUNDED)
def test_values_that_are_rounded_at_once(name: str) -> None:
    """Shorter forms of functions have errors below those of the rounding, or 2.5e-5. Subnormal results may be 0."""
    function, reference = ROUNDED[name]
    x = te.placeholder((N,), "float32", name="x")
    y = te.compute((N,), lambda i: tirx.reinterpret("uint16", tirx.Cast("bfloat16", function(x[i]))), name="y")
    kernel = Compiled(te.create_prim_func([x, y]), PAIRS)
    bits = np.arange(0, 2**32, 77_777, dtype=np.uint32).view(np.float32)
    values = np.concatenate([np.linspace(-6, 6, 10_001, dtype=np.float32), bits, np.float32([-0.0, np.inf, -np.inf])])
    found = np.zeros(len(values), np.uint16)
    kernel.bind([values, found])()
    with np.errstate(all="ignore"):
        expected = reference(values.astype(np.float64))
        once = expected.astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float64)
    got = found.view(ml_dtypes.bfloat16).astype(np.float64)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(once))
    ends = ~np.isfinite(once) | ~np.isfinite(got)
    assert (np.abs(np.float64(values[ends & (got != once) & ~np.isnan(got)])) > 88).all()  # exp overflows a bit sooner
    error = np.abs(got[~ends] - expected[~ends])
    assert (error <= np.maximum(2.0**-8 * np.abs(expected[~ends]), 2.5e-5 if name == "erf" else 2.0**-126)).all()
