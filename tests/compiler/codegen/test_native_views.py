"""Loads through views: where they are used, and that results stay the same, also for memory that is written."""

from __future__ import annotations

import ctypes
import subprocess
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tvm_ffi
from tvm import tirx
from tvm.ir import Call

from deploykit.compiler.codegen.native.cpus import host_cpu
from deploykit.compiler.codegen.native.objects import emit_object
from deploykit.compiler.codegen.native.pointers import viewed
from deploykit.compiler.lowering.lower import lower
from tests.compiler.codegen.harness import PREFIX, Library

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KEPT = 64
"""Elements of the scratch buffer."""


@dataclass(frozen=True)
class Loop:
    """`body(x, y, kept, i)` for every `i < n`, and the `expected` first `n` elements of `y`. `views`: how many a body
    has. `shared`: the function reads through a view what it writes."""

    body: Callable[[Any, Any, Any, Any], Any]
    expected: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
    views: int
    shared: bool = False


def load(buffer: Any, index: Any) -> Any:
    return tirx.BufferLoad(buffer, [index])


def store(buffer: Any, value: Any, index: Any) -> Any:
    return tirx.BufferStore(buffer, value, [index])


def over_itself(_x: Any, y: Any, _kept: Any, i: Any) -> Any:
    """Reads an element that the previous iteration wrote."""
    return store(y, load(y, i) + load(y, i + 1) * 0.5, i + 1)


def through_scratch(x: Any, y: Any, kept: Any, i: Any) -> Any:
    """Writes a scratch buffer and immediately reads it by another name."""
    at = tirx.floormod(i, 8)
    again = tirx.decl_buffer((KEPT,), "float32", "again")
    parts = [store(kept, load(x, i * 4 + 8 * part) + part, at + 8 * part) for part in range(3)]
    result = store(y, load(again, at + 16) - load(again, at) * load(again, at + 8), i)
    return tirx.SeqStmt([tirx.DeclBuffer(again, data=kept.data), *parts, result])


def summed(y: np.ndarray) -> np.ndarray:
    y = y.copy()
    for i in range(y.size - 1):
        y[i + 1] = y[i] + y[i + 1] * np.float32(0.5)
    return y[:-1]


LOOPS = {
    "apart": Loop(
        lambda x, y, _, i: store(y, load(x, i * 4 + 7) * load(x, 3 + i * 4) - load(x, i * 4 + 15), i),
        lambda x, _, i: x[i * 4 + 7] * x[3 + i * 4] - x[i * 4 + 15],
        1,
    ),
    "alone": Loop(
        lambda x, y, _, i: store(y, load(x, i * 4 + 3) + load(x, i * 3), i),
        lambda x, _, i: x[i * 4 + 3] + x[i * 3],
        0,
    ),
    "guarded": Loop(
        lambda x, y, _, i: store(y, tirx.if_then_else(i > 0, load(x, i * 4 - 4) + load(x, i * 4), load(x, i)), i),
        lambda x, _, i: np.where(i > 0, x[i * 4 - 4] + x[i * 4], x[i]),
        0,
    ),
    "by_contents": Loop(
        lambda x, y, _, i: store(y, load(x, load(y, i).astype("int64")) + load(x, load(y, i).astype("int64") + 1), i),
        lambda x, y, i: x[y[i].astype(int)] + x[y[i].astype(int) + 1],
        0,
    ),
    "through_scratch": Loop(
        through_scratch, lambda x, _, i: (x[i * 4 + 16] + 2) - x[i * 4] * (x[i * 4 + 8] + 1), 2, shared=True
    ),
    "over_itself": Loop(over_itself, lambda _, y, _i: summed(y), 1, shared=True),
}


def lowered(name: str) -> Any:
    """The kernel of a loop, with `4 n + 16` elements in `x` and `n + 1` in `y`."""
    n, i = tirx.Var("n", "int64"), tirx.Var("i", "int64")
    x = tirx.decl_buffer((n * 4 + 16,), "float32", "x")
    y = tirx.decl_buffer((n + 1,), "float32", "y")
    kept = tirx.decl_buffer((KEPT,), "float32", "kept", scope="global")
    loop = tirx.For(i, tirx.const(0, "int64"), n, tirx.ForKind.SERIAL, LOOPS[name].body(x, y, kept, i))
    func = tirx.PrimFunc([x, y], tirx.SeqStmt([tirx.AllocBuffer(kept), loop])).with_attr("tirx.noalias", True)
    return lower(func, name)


@pytest.mark.parametrize("name", LOOPS)
def test_loads_that_are_constants_apart_share_a_pointer(name: str) -> None:
    func = viewed(lowered(name).kernel.func)
    hidden: list[Call] = []

    def call(found: Call) -> None:
        if getattr(found.op, "name", "") == "tirx.call_llvm_pure_intrin":
            hidden.append(found)

    tvm_ffi.structural_walk(func.body, (Call, call))
    assert len(hidden) == LOOPS[name].views
    assert bool(func.attrs["tirx.noalias"]) != LOOPS[name].shared


def test_results_are_those_of_the_loads_in_place(tmp_path: Path) -> None:
    kernels = {name: lowered(name) for name in LOOPS}
    source, path = tmp_path / "kernels.o", tmp_path / "kernels.so"
    cpu = replace(host_cpu(), offsets=True)
    source.write_bytes(emit_object([kernel.kernel for kernel in kernels.values()], PREFIX, cpu))
    subprocess.run(["gcc", "-shared", source, "-o", path, "-lm"], check=True)
    library = Library(ctypes.CDLL(str(path)), kernels)
    for n in (1, 2, 37):
        for name, loop in LOOPS.items():
            x = np.random.default_rng(n).standard_normal(4 * n + 16).astype(np.float32)
            y = np.arange(n + 1, dtype=np.float32) % 7
            expected = loop.expected(x, y, np.arange(n))
            library.run(name, [x, y], [n])
            np.testing.assert_allclose(y[:n], expected, rtol=1e-5, atol=1e-5, err_msg=f"{name}, {n}")
