"""Reductions over any axes, over windows, and in chains over the same rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import te, tirx, topi

from deploykit.compiler.schedules import Device, explain
from deploykit.compiler.tir.rewriting import collect
from tests.compiler.schedules.harness import VECTORS, Compiled
from tests.compiler.schedules.test_elementwise import check, devices, kernel, sample

N, M = (tirx.Var(name, "int64") for name in "nm")
SIZES = [(1, 1), (3, 7), (2, 33), (4, 150)]


@devices
@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 2), (1, 2), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("operation", ["sum", "max"])
def test_reduction_over(axes: tuple[int, ...], operation: str, device: Device) -> None:
    compiled = Compiled(kernel([(N, 5, M)], lambda a: getattr(topi, operation)(a, axis=axes)), device)
    for n, m in SIZES:
        a = sample((n, 5, m))
        check(compiled, [a], getattr(np, operation)(a.astype("float64"), axis=axes).astype("float32"))


@devices
@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 2), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("finish", [lambda total: total, topi.nn.relu], ids=["sum", "relu"])
def test_long_sums_are_exact(axes: tuple[int, ...], finish: Callable[[te.Tensor], te.Tensor], device: Device) -> None:
    """Every rounding of a sum of equal numbers goes the same way: one accumulator would be off by up to 1 %."""
    compiled = Compiled(kernel([(N, 3, M)], lambda a: finish(topi.sum(a, axis=axes))), device)
    for n, m in [(1, 1_000_000), (1_000_000, 1), (2, 511), (513, 2), (4097, 65), (2, 16_385)]:
        a = np.full((n, 3, m), 0.1, "float32")
        check(compiled, [a], a.sum(axes, dtype="float64").astype("float32"), rtol=5e-5)


@devices
def test_a_sum_of_nothing_is_zero(device: Device) -> None:
    compiled = Compiled(kernel([(N, M)], lambda a: topi.sum(a, axis=1)), device)
    check(compiled, [np.zeros((3, 0), "float32")], np.zeros(3, "float32"))
    check(compiled, [np.zeros((0, 3), "float32")], np.zeros(0, "float32"))


@devices
def test_stages_that_no_rule_takes_become_plain_loops(device: Device) -> None:
    distance = te.comm_reducer(lambda a, b: tirx.abs(a) + tirx.abs(b), lambda dtype: tirx.const(0, dtype))

    def distances(a: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, M), name="k")
        return te.compute((N,), lambda i: distance(a[i, k], axis=k), name="distances")

    (choice,) = explain(kernel([(N, M)], distances), device)
    assert (choice.rule, choice.fallback) == ("plain", True)
    assert choice.declined["reduction"] == "it is no reduction with a known operator"
    a = sample((3, 7))
    check(Compiled(kernel([(N, M)], distances), device), [a], np.abs(a).sum(axis=1))


@devices
def test_mean_is_one_pass(device: Device) -> None:
    def mean(a: te.Tensor) -> te.Tensor:
        return topi.nn.relu(topi.divide(topi.sum(a, axis=(1, 2)), tirx.Cast("float32", M * 5)))

    compiled = Compiled(kernel([(N, 5, M)], mean), device)
    for n, m in SIZES:
        a = sample((n, 5, m))
        check(compiled, [a], np.maximum(a.mean((1, 2)), 0))
    assert len(explain(kernel([(N, 5, M)], mean), device)) == 1


@devices
@pytest.mark.parametrize("dtype", ["int32", "int64", "float64"])
def test_other_element_types(dtype: str, device: Device) -> None:
    compiled = Compiled(kernel([(N, M)], lambda a: topi.sum(a, axis=1), [dtype]), device)
    a = np.arange(4 * 150, dtype=dtype).reshape(4, 150)
    check(compiled, [a], a.sum(1).astype(dtype))


def window(a: te.Tensor, size: int, stride: int, pad: int, reduce: Callable[..., Any], nothing: float) -> te.Tensor:
    """A pooling. Taps outside of the data have the value `nothing`."""
    taps = [te.reduce_axis((0, size), name=f"k{i}") for i in range(2)]
    extents = [(extent + 2 * pad - size) // stride + 1 for extent in a.shape[2:]]

    def element(n: Any, c: Any, *at: Any) -> Any:
        where = [p * stride + tap - pad for p, tap in zip(at, taps, strict=True)]
        inside = [test for i, extent in zip(where, a.shape[2:], strict=True) for test in (i >= 0, i < extent)]
        value = tirx.if_then_else(tirx.all(*inside), a(n, c, *where), tirx.const(nothing, a.dtype))
        return reduce(value, axis=taps)

    return te.compute((*a.shape[:2], *extents), element, name="pool")


@devices
@pytest.mark.parametrize(("size", "stride", "pad"), [(3, 2, 1), (3, 1, 1), (2, 2, 0), (5, 3, 2)])
def test_windows_leave_out_what_is_outside(size: int, stride: int, pad: int, device: Device) -> None:
    compiled = {
        name: Compiled(kernel([(N, 2, M, M)], lambda a, r=r, v=v: window(a, size, stride, pad, r, v)), device)
        for name, r, v in (("max", te.max, float("-inf")), ("sum", te.sum, 0.0))
    }
    for n, m in [(1, 5), (2, 6), (1, 40)]:
        a = sample((n, 2, m, m))
        for name, nothing in (("max", -np.inf), ("sum", 0)):
            padded = np.pad(a, ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=nothing)
            views = np.lib.stride_tricks.sliding_window_view(padded, (size, size), (2, 3))[:, :, ::stride, ::stride]
            check(compiled[name], [a], getattr(np, name)(views, axis=(4, 5)))


def softmax(a: te.Tensor, axis: int) -> te.Tensor:
    return topi.nn.softmax(a, axis=axis)


def expected_softmax(a: np.ndarray, axis: int) -> np.ndarray:
    powers = np.exp(a - a.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


@devices
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax(axis: int, device: Device) -> None:
    compiled = Compiled(kernel([(N, 5, M)], lambda a: softmax(a, axis)), device)
    for n, m in SIZES:
        a = sample((n, 5, m))
        check(compiled, [a], expected_softmax(a, axis))


def test_softmax_runs_row_by_row_without_a_temporary_of_the_datas_size() -> None:
    compiled = Compiled(kernel([(N, M)], lambda a: softmax(a, 1)), VECTORS)
    assert compiled.workspaces == ()
    outermost = compiled.func.body.seq[-1]
    assert outermost.kind == tirx.ForKind.PARALLEL
    assert sum(loop.kind == tirx.ForKind.PARALLEL for loop in collect(compiled.func.body, tirx.For)) == 1


@devices
def test_normalisation_over_rows(device: Device) -> None:
    def normalised(a: te.Tensor, scale: te.Tensor) -> te.Tensor:
        count = tirx.Cast("float32", M)
        mean = topi.divide(topi.sum(a, axis=1, keepdims=True), count)
        centred = topi.subtract(a, mean)
        variance = topi.divide(topi.sum(topi.multiply(centred, centred), axis=1, keepdims=True), count)
        return topi.multiply(topi.divide(centred, topi.sqrt(topi.add(variance, tirx.const(1e-5, "float32")))), scale)

    compiled = Compiled(kernel([(N, M), (M,)], normalised), device)
    for n, m in SIZES[1:]:
        a, scale = sample((n, m)), sample((m,))
        centred = a - a.mean(1, keepdims=True)
        check(compiled, [a, scale], centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) * scale)


@devices
def test_a_result_that_two_rows_of_another_stage_need_is_complete(device: Device) -> None:
    """The second stage reads rows that the first stage writes later, so the stages must not share a loop."""

    def mirrored(a: te.Tensor) -> te.Tensor:
        total = topi.sum(a, axis=1)
        return te.compute((N, M), lambda i, j: a(i, j) + total(N - 1 - i), name="mirrored")

    compiled = Compiled(kernel([(N, M)], mirrored), device)
    for n, m in SIZES:
        a = sample((n, m))
        check(compiled, [a], a + a.sum(1)[::-1, None])


@devices
def test_index_of_the_greatest(device: Device) -> None:
    compiled = Compiled(kernel([(N, M)], lambda a: topi.argmax(a, axis=1)), device)
    for n, m in SIZES:
        a = sample((n, m))
        check(compiled, [a], a.argmax(1))
