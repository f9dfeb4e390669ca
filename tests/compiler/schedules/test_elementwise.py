"""Elementwise kernels: fused loops, strided and gathered reads, conditions moved out of loops, all remainders."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import tvm_ffi
from tvm import ir, te, tirx, topi
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from deploykit.compiler.schedules import Device, schedule
from deploykit.compiler.tir.rewriting import call_name, collect
from tests.compiler.schedules.harness import BOTH, SCALAR, VECTORS, Compiled, fenced

N, M = (tirx.Var(name, "int64") for name in "nm")
SIZES = [(1, 1), (3, 7), (5, 33), (0, 4), (2, 0), (40, 100)]

devices = pytest.mark.parametrize("device", BOTH, ids=lambda device: device.name)


def kernel(shapes: Sequence[tuple], build: Callable[..., te.Tensor], dtypes: Sequence[str] = ()) -> tirx.PrimFunc:
    dtypes = [*dtypes, *["float32"] * (len(shapes) - len(dtypes))]
    inputs = [te.placeholder(s, d, name=f"x{i}") for i, (s, d) in enumerate(zip(shapes, dtypes, strict=True))]
    return te.create_prim_func([*inputs, build(*inputs)], index_dtype_override="int64")


def sample(shape: Sequence[int], dtype: str = "float32") -> np.ndarray:
    rng = np.random.default_rng(sum(shape))
    return rng.standard_normal(shape).astype(dtype) if dtype == "float32" else rng.integers(0, 2, shape).astype(dtype)


def check(compiled: Compiled, inputs: Sequence[np.ndarray], expected: np.ndarray, rtol: float = 1e-5) -> None:
    out = fenced(np.full(expected.shape, 7).astype(expected.dtype))
    compiled.bind([*(fenced(x) for x in inputs), out])()
    np.testing.assert_allclose(out, expected, rtol=rtol, atol=1e-6)


@devices
def test_operands_of_the_results_shape_are_one_loop(device: Device) -> None:
    func = kernel([(N, M), (N, M)], lambda a, b: topi.nn.relu(topi.add(topi.multiply(a, b), a)))
    compiled = Compiled(func, device)
    for size in SIZES:
        a, b = sample(size), sample(size) * 2
        check(compiled, [a, b], np.maximum(a * b + a, 0))
    loops = collect(schedule(func, SCALAR).body, tirx.For)
    assert len(loops) == 1


@devices
def test_broadcast_operands(device: Device) -> None:
    func = kernel([(N, M), (M,), (N, 1)], lambda a, row, column: topi.add(topi.multiply(a, row), column))
    compiled = Compiled(func, device)
    for n, m in SIZES:
        a, row, column = sample((n, m)), sample((m,)), sample((n, 1))
        check(compiled, [a, row, column], a * row + column)


@devices
def test_reads_in_another_order(device: Device) -> None:
    compiled = Compiled(kernel([(N, 5, M)], lambda a: topi.exp(topi.transpose(a, (2, 0, 1)))), device)
    for n, m in SIZES:
        a = sample((n, 5, m))
        check(compiled, [a], np.exp(a.transpose(2, 0, 1)))


@devices
def test_reads_through_an_index_tensor(device: Device) -> None:
    func = kernel(
        [(5,), (N, M)],
        lambda at, a: te.compute((N, 5), lambda i, j: a(i, at(j)), name="gathered"),
        ["int64"],
    )
    at = np.array([1, 0, 1, 1, 0], "int64")
    a = sample((3, 2))
    check(Compiled(func, device), [at, a], a[:, at])


@devices
def test_values_that_depend_on_the_position(device: Device) -> None:
    func = kernel([(N, M)], lambda a: te.compute((N, M), lambda i, j: a(i, j) + tirx.Cast("float32", i * M + j)))
    compiled = Compiled(func, device)
    for size in SIZES:
        a = sample(size)
        check(compiled, [a], a + np.arange(a.size, dtype="float32").reshape(size))


@devices
def test_bytes_decide_between_floats(device: Device) -> None:
    func = kernel(
        [(N, M), (N, M)],
        lambda c, a: te.compute((N, M), lambda i, j: tirx.Select(c(i, j), a(i, j), -a(i, j)), name="chosen"),
        ["bool"],
    )
    compiled = Compiled(func, device)
    for size in SIZES:
        c, a = sample(size, "bool"), sample(size)
        check(compiled, [c, a], np.where(c, a, -a))


@devices
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_concatenation_is_copies_without_conditions_inside(device: Device, axis: int) -> None:
    func = kernel([(N, 5, M)] * 3, lambda *parts: topi.nn.relu(topi.concatenate(parts, axis=axis)))
    compiled = Compiled(func, device)
    for n, m in SIZES:
        parts = [sample((n, 5, m)) + i for i in range(3)]
        check(compiled, parts, np.maximum(np.concatenate(parts, axis), 0))
    assert not choices(compiled.func)


@devices
def test_padding_is_cut_out_of_the_loops(device: Device) -> None:
    func = kernel([(N, 5, M)], lambda a: topi.nn.pad(a, [0, 1, 2], [1, 0, 3], tirx.const(2, "float32")))
    compiled = Compiled(func, device)
    for n, m in SIZES:
        a = sample((n, 5, m))
        check(compiled, [a], np.pad(a, ((0, 1), (1, 0), (2, 3)), constant_values=2))
    assert not choices(compiled.func)


def choices(func: tirx.PrimFunc) -> list:
    """The conditions that are evaluated for each element."""
    return [call for call in collect(func.body, ir.Call) if call_name(call) == "if_then_else"]


@devices
def test_slices_with_negative_steps(device: Device) -> None:
    compiled = Compiled(kernel([(N, M)], lambda a: te.compute((N, M), lambda i, j: a(i, M - 1 - j) * 2.0)), device)
    for size in SIZES:
        a = sample(size)
        check(compiled, [a], a[:, ::-1] * 2)


@devices
def test_a_single_number(device: Device) -> None:
    a = np.array(1.5, "float32")
    check(Compiled(kernel([()], topi.exp), device), [a], np.exp(a))


@devices
def test_a_result_may_lie_over_an_operand(device: Device) -> None:
    """An elementwise kernel that reads an operand only where it writes may have its result there, also with a
    temporary."""

    def build(a: te.Tensor) -> te.Tensor:
        power = te.compute(a.shape, lambda *i: tirx.exp(a(*i)), name="power")
        return te.compute(a.shape, lambda *i: power(*i) * power(*i) + a(*i), name="sum")

    compiled = Compiled(kernel([(N, M)], build).without_attr("tirx.noalias"), device)
    a = sample((5, 33))
    over = fenced(a)
    compiled.bind([over, over])()
    np.testing.assert_allclose(over, np.exp(a) ** 2 + a, rtol=1e-4, atol=1e-6)


@devices
def test_imperative_blocks_between_others(device: Device) -> None:
    def shifted(source: tirx.Buffer, target: tirx.Buffer) -> tirx.Stmt:
        with IRBuilder() as builder:
            x, y = T.buffer_proxy(source), T.buffer_proxy(target)
            with T.serial(0, source.shape[0]) as i:
                y[i] = x[tirx.floormod(i + 1, source.shape[0])]
        return builder.get()

    def build(a: te.Tensor) -> te.Tensor:
        doubled = te.compute((N,), lambda i: a(i) * 2.0, name="doubled")
        moved = te.extern((N,), [doubled], lambda i, o: shifted(i[0], o[0]), name="moved", dtype="float32")
        return te.compute((N,), lambda i: moved(i) + 1.0, name="more")

    compiled = Compiled(kernel([(N,)], build), device)
    for n in (1, 5, 100):
        a = sample((n,))
        check(compiled, [a], np.roll(a * 2, -1) + 1)


def test_long_loops_are_shared_out_in_blocks() -> None:
    func = schedule(kernel([(N,)], topi.nn.relu), VECTORS)
    kinds = [loop.kind for loop in collect(func.body, tirx.For)]
    assert kinds.count(tirx.ForKind.PARALLEL) == 1
    assert tirx.ForKind.VECTORIZED in kinds


def test_imperative_kernels_are_kept() -> None:
    x = te.placeholder((4,), "float32", name="x")
    out = te.extern(
        (4,), [x], lambda ins, outs: tirx.call_packed("f", ins[0].data, outs[0].data), name="e", dtype="float32"
    )
    func = te.create_prim_func([x, out])
    assert tvm_ffi.structural_equal(schedule(func, VECTORS), func)


@pytest.mark.slow
@devices
def test_conditions_of_many_ways_do_not_multiply(device: Device) -> None:
    """Each condition would cut every part in three."""

    def build(a: te.Tensor) -> te.Tensor:
        def value(i: tirx.Var, j: tirx.Var) -> ir.Expr:
            total = a[i, j]
            for distance in range(8):
                total = total + tirx.Select(tirx.all(j - i > -3 * distance, j - i < 2 * distance), a[i, 0], a[0, j])
            return total

        return te.compute(a.shape, value, name="y")

    func = kernel([(N, M)], build)
    compiled = Compiled(func, device)
    for n, m in SIZES:
        a = sample((n, m))
        apart = np.arange(m)[None] - np.arange(n)[:, None]
        chosen = [np.where((apart > -3 * d) & (apart < 2 * d), a[:, :1], a[:1]) for d in range(8)] if a.size else []
        check(compiled, [a], np.sum([a, *chosen], axis=0, dtype=np.float32))
    assert len(collect(schedule(func, device).body, tirx.For)) < 150
