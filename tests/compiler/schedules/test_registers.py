"""Sums of imperative kernels: divided into as many loops as the registers of a device require, with the same values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tvm import te, tirx

from deploykit.compiler.operators.building.imperative import Array, Code, imperative
from deploykit.compiler.schedules import DEVICES, Device, schedule
from deploykit.compiler.tir.rewriting import collect
from deploykit.targets.webgpu.devices import WASM_SIMD128
from tests.compiler.schedules.harness import VECTORS, Compiled, fenced

N = tirx.Var("n", "int64")
LANES = 16

Body = Callable[[Code, Array, list[Array], tirx.Var], None]


def independent(code: Code, x: Array, sums: list[Array], k: tirx.Var) -> None:
    for number, own in enumerate(sums):
        with code.lanes(LANES) as lane:
            own[lane] = own[lane] + x[number, k] * x[lane, k]


def chained(code: Code, x: Array, sums: list[Array], k: tirx.Var) -> None:
    """Each sum also reads the previous one."""
    for number, own in enumerate(sums):
        with code.lanes(LANES) as lane:
            own[lane] = own[lane] + sums[number - 1][lane] * x[lane, k]


def twice(code: Code, x: Array, sums: list[Array], k: tirx.Var) -> None:
    """Two statements add to one sum; their order decides how it is rounded."""
    independent(code, x, [*sums, sums[0]], k)


def products(count: int, body: Body) -> tirx.PrimFunc:
    """`y[i]` is the `i`-th of `count` vectors of sums over `n` steps."""

    def write(code: Code, x: Array, y: Array) -> None:
        sums = [code.room("sums", LANES, "float32") for _ in range(count)]
        for own in sums:
            with code.lanes(LANES) as lane:
                own[lane] = tirx.const(0.125, "float32")
        with code.loop("k", N) as k:
            body(code, x, sums, k)
        for number, own in enumerate(sums):
            with code.lanes(LANES) as lane:
                y[number, lane] = own[lane]

    x = te.placeholder((LANES, N), "float32", "x")
    (y,) = imperative("products", [x], [((count, LANES), "float32")], write)
    return te.create_prim_func([x, y])


def steps(func: tirx.PrimFunc) -> list[tirx.For]:
    """The loops over `k`."""
    return [loop for loop in collect(func.body, tirx.For) if loop.loop_var.name == "k"]


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        (DEVICES["x86-64-v4"], 1),
        (DEVICES["x86-64-v3"], 2),
        (DEVICES["arm64"], 2),
        (WASM_SIMD128, 4),
        (DEVICES["x86-64-v2"], 4),
        (DEVICES["scalar-c"], 1),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_a_loop_has_as_many_sums_as_there_are_registers_for(device: Device, expected: int) -> None:
    assert len(steps(schedule(products(12, independent), device))) == expected


@pytest.mark.parametrize("body", [chained, twice])
def test_sums_that_depend_on_each_other_stay_together(body: Body) -> None:
    assert len(steps(schedule(products(12, body), VECTORS))) == 1


@pytest.mark.parametrize("body", [independent, chained, twice])
@pytest.mark.parametrize("count", [2, 7, 12])
def test_divided_loops_have_the_same_values(body: Body, count: int) -> None:
    func = products(count, body)
    divided, whole = Compiled(func, VECTORS), Compiled(func, VECTORS, lambda same, _: same)
    for n in (0, 1, 9, 130):
        x = fenced(np.random.default_rng(n).standard_normal((LANES, n), np.float32) / 8)
        results = [fenced(np.zeros((count, LANES), np.float32)) for _ in range(2)]
        divided.bind([x, results[0]])()
        whole.bind([x, results[1]])()
        np.testing.assert_array_equal(results[0], results[1])
