"""Named values that are stored in memory: compile time stays short, and values are computed only where needed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import tirx
from tvm.ir import Var

from deploykit.compiler.codegen.native.cpus import host_cpu
from deploykit.compiler.codegen.native.objects import emit_object
from deploykit.compiler.codegen.native.parts import named
from deploykit.compiler.lowering.lower import lower
from tests.compiler.codegen.harness import PREFIX, build

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SECONDS = 5.0
"""Limit of CPU time. If each name doubled the time, a dozen names would take minutes."""
FAR = 2**40


def kernel(body: Callable[[Any, Any, Any], Any]) -> tirx.PrimFunc:
    """`body(x, y, i)` for every `i < n`."""
    n, i = Var("n", "int64"), Var("i", "int64")
    x, y = (tirx.decl_buffer((n,), "float32", name) for name in "xy")
    return tirx.PrimFunc([x, y], tirx.For(i, tirx.const(0, "int64"), n, tirx.ForKind.SERIAL, body(x, y, i)))


def load(buffer: Any, index: Any) -> Any:
    return tirx.BufferLoad(buffer, [index])


def store(buffer: Any, value: Any, index: Any) -> Any:
    return tirx.BufferStore(buffer, value, [index])


def half(value: Any) -> Any:
    return named(value, lambda v: tirx.Select(v > tirx.const(0.25, "float32"), v * v, v + v))


def chain(length: int) -> Callable[[Any, Any, Any], Any]:
    def body(x: Any, y: Any, i: Any) -> Any:
        value = load(x, i)
        for _ in range(length):
            value = half(value)
        return store(y, value, i)

    return body


def guarded(x: Any, y: Any, i: Any) -> Any:
    """Has a load far outside of the buffer in a branch that is never taken."""
    far = named(load(x, i + tirx.Select(i < 0, tirx.const(0, "int64"), tirx.const(FAR, "int64"))), lambda v: v * v)
    near = named(load(x, i), lambda v: v * v + v)
    return store(y, tirx.if_then_else(i < 0, far, near), i)


def twice(x: Any, y: Any, i: Any) -> Any:
    """Has one named expression in two statements."""
    value = named(load(x, i) + tirx.const(1, "float32"), lambda v: v * v)
    return tirx.SeqStmt([store(y, value, i), store(x, value + load(y, i), i)])


def test_time_does_not_double_with_each_name() -> None:
    func = lower(kernel(chain(60)), "chain").kernel
    start = time.process_time()
    emit_object([func], PREFIX, host_cpu())
    assert time.process_time() - start < SECONDS


def test_values_are_those_of_the_names(tmp_path: Path) -> None:
    library = build(
        {"chain": kernel(chain(12)), "guarded": kernel(guarded), "twice": kernel(twice)}, "native", tmp_path
    )
    for n in (1, 7, 64):
        x = np.random.default_rng(n).uniform(0, 1, n).astype(np.float32)
        y, expected = np.empty_like(x), x
        for _ in range(12):
            expected = np.where(expected > 0.25, expected * expected, expected + expected)
        library.run("chain", [x, y], [n])
        np.testing.assert_array_equal(y, expected)
        library.run("guarded", [x, y], [n])
        np.testing.assert_allclose(y, x * x + x, rtol=1e-6)
        square = (x + 1) * (x + 1)
        library.run("twice", [x, y], [n])
        np.testing.assert_array_equal(y, square)
        np.testing.assert_allclose(x, square + square, rtol=1e-6)


def test_names_of_places_stay() -> None:
    def body(x: Any, y: Any, i: Any) -> Any:
        place = Var("place", "int64")
        return tirx.SeqStmt([tirx.Bind(place, i * 2), store(y, load(x, place) * load(x, place + 1), i)])

    from deploykit.compiler.codegen.native.local_values import stored

    func = lower(kernel(body), "places").kernel.func
    assert stored(func).script() == func.script()
