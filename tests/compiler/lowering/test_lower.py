"""Scheduled functions become kernels over pointers and integers, and give right results with both emitters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tvm import ir, s_tir, te, tirx
from tvm.ir import PointerType
from tvm.s_tir import renew_defs

from deploykit.compiler.codegen.c.kernels import emit_c
from deploykit.compiler.dims import evaluate, free_vars
from deploykit.compiler.lowering.lower import Lowering, lower
from deploykit.compiler.schedules.kernel.stages import scalars_of
from deploykit.compiler.tir.rewriting import call_name, collect
from tests.compiler.codegen.harness import EMITTERS, PREFIX, SANITIZERS, Call, Library, build, elementwise, run_program

if TYPE_CHECKING:
    from pathlib import Path

SIZES = (0, 1, 7, 33)
N, M = tirx.Var("n", "int64"), tirx.Var("m", "int64")


def matrix(name: str = "x", dtype: str = "float32") -> te.Tensor:
    return te.placeholder((N, M), dtype, name=name)


def row_sums() -> tirx.PrimFunc:
    x = matrix()
    k = te.reduce_axis((0, M), "k")
    return te.create_prim_func([x, te.compute((N,), lambda i: te.sum(x[i, k], axis=k), name="y")])


def row_maxima() -> tirx.PrimFunc:
    x = matrix()
    k = te.reduce_axis((0, M), "k")
    return te.create_prim_func([x, te.compute((N,), lambda i: te.max(x[i, k], axis=k), name="y")])


def row_argmax() -> tirx.PrimFunc:
    """Index and value of the first largest element of each row."""
    x = matrix()
    k = te.reduce_axis((0, M), "k")

    def better(a: tuple[ir.Expr, ir.Expr], b: tuple[ir.Expr, ir.Expr]) -> tuple[ir.Expr, ir.Expr]:
        keep = tirx.any(a[1] > b[1], tirx.all(a[1] == b[1], a[0] < b[0]))
        return tirx.Select(keep, a[0], b[0]), tirx.Select(keep, a[1], b[1])

    largest = te.comm_reducer(better, lambda t0, t1: (tirx.const(-1, t0), tirx.min_value(t1)), name="argmax")
    index, value = te.compute((N,), lambda i: largest((k, x[i, k]), axis=k), name="y")
    return te.create_prim_func([x, index, value])


def normalised(*, parallel: bool) -> tirx.PrimFunc:
    """exp(x) divided by its row sums, with an intermediate result of symbolic size."""
    x = matrix()
    k = te.reduce_axis((0, M), "k")
    e = te.compute((N, M), lambda i, j: tirx.exp(x[i, j]), name="e")
    s = te.compute((N,), lambda i: te.sum(e[i, k], axis=k), name="s")
    y = te.compute((N, M), lambda i, j: e[i, j] / s[i], name="y")
    schedule = s_tir.Schedule(te.create_prim_func([x, y]))
    rows, _ = schedule.get_loops(schedule.get_sblock("y"))
    schedule.compute_at(schedule.get_sblock("s"), rows)
    schedule.compute_at(schedule.get_sblock("e"), rows)
    if parallel:
        schedule.parallel(rows)
    return schedule.mod["main"]


def flattened_transpose() -> tirx.PrimFunc:
    """A transpose with divisions by a symbolic extent in its index arithmetic."""
    x = matrix(dtype="int32")
    return te.create_prim_func([x, te.compute((N * M,), lambda i: x[i % N, i // N], name="y")])


def gather() -> tirx.PrimFunc:
    x, rows = matrix(), te.placeholder((tirx.Var("r", "int64"),), "int64", name="rows")
    shape = (rows.shape[0], M)
    return te.create_prim_func([x, rows, te.compute(shape, lambda i, j: x[rows[i], j], name="y")])


def positions() -> tirx.PrimFunc:
    """The positions at which x is positive, and their number: statements with their own control flow."""
    x = te.placeholder((N,), "float32", name="x")

    def body(source: tirx.Buffer, found: tirx.Buffer, count: tirx.Buffer) -> tirx.Stmt:
        i, k = tirx.Var("i", "int64"), tirx.Var("k", "int64")
        here = tirx.SeqStmt(
            [
                tirx.Bind(k, count[0]),
                tirx.BufferStore(found, i, [k]),
                tirx.BufferStore(count, k + 1, [0]),
            ]
        )
        loop = tirx.For(
            i, tirx.const(0, "int64"), N, tirx.ForKind.SERIAL, tirx.stmt.IfThenElse(source[i] > 0, here, None)
        )
        return tirx.SeqStmt([tirx.BufferStore(count, tirx.const(0, "int64"), [0]), loop])

    found, count = te.extern(
        [(N,), (1,)], [x], lambda ins, outs: body(*ins, *outs), dtype=["int64", "int64"], name="positions"
    )
    return te.create_prim_func([x, found, count])


def halving() -> tirx.PrimFunc:
    """How often x[i] can be halved: a `while` loop over a cell on the stack."""
    x = te.placeholder((N,), "int64", name="x")

    def body(source: tirx.Buffer, target: tirx.Buffer) -> tirx.Stmt:
        i, cell = tirx.Var("i", "int64"), tirx.decl_buffer((1,), "int64", "cell")
        step = tirx.SeqStmt(
            [
                tirx.BufferStore(cell, tirx.truncdiv(cell[0], 2), [0]),
                tirx.BufferStore(target, target[i] + 1, [i]),
                tirx.stmt.IfThenElse(target[i] == 5, tirx.Evaluate(tirx.break_loop()), None),
            ]
        )
        row = [
            tirx.AllocBuffer(cell),
            tirx.BufferStore(cell, source[i], [0]),
            tirx.BufferStore(target, tirx.const(0, "int64"), [i]),
            tirx.While(cell[0] != 0, step),
        ]
        return tirx.For(i, tirx.const(0, "int64"), N, tirx.ForKind.SERIAL, tirx.SeqStmt(row))

    y = te.extern([(N,)], [x], lambda ins, outs: body(*ins, *outs), dtype=["int64"], name="halving")
    return te.create_prim_func([x, y])


def shifted() -> tirx.PrimFunc:
    """A kernel with integer params of two widths, besides the shape variables."""
    x = te.placeholder((N,), "float32", name="x")
    start, scale = tirx.Var("start", "int64"), tirx.Var("scale", "int32")
    y = te.compute((N,), lambda i: x[(i + start) % N] * scale.astype("float32"), name="y")
    return te.create_prim_func([x, start, scale, y])


FUNCTIONS = {
    "row_sums": row_sums(),
    "row_maxima": row_maxima(),
    "row_argmax": row_argmax(),
    "normalised": normalised(parallel=False),
    "normalised_parallel": normalised(parallel=True),
    "flattened_transpose": flattened_transpose(),
    "gather": gather(),
    "positions": positions(),
    "halving": halving(),
    "shifted": shifted(),
}


@pytest.fixture(scope="module", params=list(EMITTERS))
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Library:
    return build(FUNCTIONS, request.param, tmp_path_factory.mktemp(request.param))


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype("float32")


@pytest.mark.parametrize("columns", SIZES)
@pytest.mark.parametrize("rows", SIZES)
def test_reductions(library: Library, rows: int, columns: int) -> None:
    x, y = random(rows, columns), np.empty(rows, "float32")
    library.run("row_sums", [x, y], [rows, columns])
    np.testing.assert_allclose(y, x.sum(1), rtol=1e-5, atol=1e-5)
    library.run("row_maxima", [x, y], [rows, columns])
    np.testing.assert_array_equal(y, x.max(1, initial=np.finfo("float32").min))
    index = np.empty(rows, "int64")
    library.run("row_argmax", [x, index, y], [rows, columns])
    np.testing.assert_array_equal(index, x.argmax(1) if columns else np.full(rows, -1))


@pytest.mark.parametrize("size", SIZES)
def test_workspaces(library: Library, size: int) -> None:
    rows, columns = size, 5
    x, y = random(rows, columns), np.empty((rows, columns), "float32")
    expected = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    (workspace,) = library.lowered["normalised"].workspaces
    assert (workspace.dtype, str(workspace.shape)) == ("float32", str((M,)))
    library.run("normalised", [x, y, np.empty(columns, "float32")], [rows, columns])
    np.testing.assert_allclose(y, expected, rtol=1e-5)


@pytest.mark.parametrize("size", SIZES)
def test_parallel_parts(library: Library, size: int) -> None:
    """Each part computes its rows in its own part of the workspace. Parts may run in any order."""
    lowered = library.lowered["normalised_parallel"]
    assert lowered.kernel.parallel_extent is not None
    assert lowered.kernel.parallel_extent.same_as(N)
    assert [p.name for p in lowered.kernel.func.params[-2:]] == ["begin", "end"]
    (workspace,) = lowered.workspaces
    assert str(workspace.shape) == str((N * M,))
    x, y, w = random(size, 4), np.zeros((size, 4), "float32"), np.full(size * 4, np.nan, "float32")
    cut = size // 3
    library.run("normalised_parallel", [x, y, w], [size, 4, cut, size])
    assert np.all(y[:cut] == 0)
    assert np.all(np.isnan(w[: cut * 4]))
    library.run("normalised_parallel", [x, y, w], [size, 4, 0, cut])
    np.testing.assert_allclose(y, np.exp(x) / np.exp(x).sum(1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("size", SIZES)
def test_index_arithmetic(library: Library, size: int) -> None:
    x = np.arange(size * 3, dtype="int32").reshape(size, 3)
    y = np.empty(size * 3, "int32")
    library.run("flattened_transpose", [x, y], [size, 3])
    np.testing.assert_array_equal(y, x.T.ravel())
    rows, z = np.arange(size)[::-1].copy(), np.empty((size, 3), "float32")
    library.run("gather", [x.astype("float32"), rows, z], [size, 3, size])
    np.testing.assert_array_equal(z, x[::-1])


@pytest.mark.parametrize("size", SIZES)
def test_imperative_kernels(library: Library, size: int) -> None:
    x = random(size)
    found, count = np.full(size, -1), np.empty(1, "int64")
    library.run("positions", [x, found, count], [size])
    (expected,) = np.nonzero(x > 0)
    assert count[0] == len(expected)
    np.testing.assert_array_equal(found[: len(expected)], expected)
    halved, numbers = np.empty(size, "int64"), np.arange(size)
    library.run("halving", [numbers, halved], [size])
    np.testing.assert_array_equal(halved, [min(int(v).bit_length(), 5) for v in numbers])


@pytest.mark.parametrize("size", SIZES)
def test_integer_params_come_before_shape_variables(library: Library, size: int) -> None:
    assert [v.name for v in library.lowered["shifted"].scalars] == ["start", "scale", "n"]
    x, y = random(size), np.empty(size, "float32")
    library.run("shifted", [x, y], [2, 3, size])
    np.testing.assert_array_equal(y, np.roll(x, -2) * 3)


SETTING = {"vectorize": True, "stack_limit": 1024, "name_values": True}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_equal_functions_are_lowered_once(name: str) -> None:
    """The second result is that of lowering it alone."""
    lowering, func = Lowering(), FUNCTIONS[name]
    first = lowering.lower(func, "first", effort=0, **SETTING)
    equal = renew_defs(func)
    effort = scalars_of(equal)[0] * 3
    again = lowering.lower(equal, "again", effort=effort, **SETTING)
    alone = lower(equal, "again", effort=effort, **SETTING)
    assert again.kernel.func.body.same_as(first.kernel.func.body)
    assert again.scalars == alone.scalars == tuple(scalars_of(equal))
    sizes = dict(zip(again.scalars, (7, 5, 3), strict=False))
    assert [[evaluate(extent, sizes) for extent in each.shape] for each in again.workspaces] == [
        [evaluate(extent, sizes) for extent in each.shape] for each in alone.workspaces
    ]
    assert emit_c([again.kernel], PREFIX) == emit_c([alone.kernel], PREFIX)
    assert {*free_vars(again.kernel.effort)} <= {*first.scalars}
    assert str(again.kernel.effort) == str(alone.kernel.effort)
    assert str(again.kernel.parallel_extent) == str(alone.kernel.parallel_extent)


@pytest.mark.parametrize(("one", "another"), [(0.0, -0.0), (1.0, 1.0 + 2.0**-23), (1e-30, 2e-30)])
def test_almost_equal_functions_are_not(one: float, another: float) -> None:
    lowering = Lowering()
    functions = [
        elementwise(lambda x, value=value: tirx.Select(x < 1.0, x, tirx.const(value, "float32")), ["float32"])
        for value in (one, another)
    ]
    kernels = [lowering.lower(function, "k", effort=0, **SETTING).kernel for function in functions]
    assert emit_c(kernels[:1], PREFIX) != emit_c(kernels[1:], PREFIX)


def test_raw_abi_has_pointers_then_int64() -> None:
    params = lower(FUNCTIONS["shifted"], "k").kernel.func.params
    assert [isinstance(p.ty, PointerType) for p in params] == [True, True, False, False, False]
    assert {str(p.ty.dtype) for p in params[2:]} == {"int64"}


def test_small_constant_allocations_stay_on_the_stack() -> None:
    def through_tile(elements: int) -> tirx.PrimFunc:
        x = te.placeholder((N, elements), "float32", name="x")
        tile = te.compute((N, elements), lambda i, j: x[i, j] * 2.0, name="tile")
        y = te.compute((N, elements), lambda i, j: tile[i, elements - 1 - j], name="y")
        schedule = s_tir.Schedule(te.create_prim_func([x, y]))
        schedule.compute_at(schedule.get_sblock("tile"), schedule.get_loops(schedule.get_sblock("y"))[0])
        return schedule.mod["main"]

    assert lower(through_tile(256), "k").workspaces == ()
    assert len(lower(through_tile(257), "k").workspaces) == 1
    assert lower(through_tile(257), "k", stack_limit=2048).workspaces == ()


def test_sizes_of_workspaces_divide_by_one_at_least() -> None:
    """Also where the divisor is a param of 32 bits."""
    x = te.placeholder((N,), "float32", name="x")
    whole, divisor = tirx.Var("whole", "int32"), tirx.Var("divisor", "int32")

    def body(source: tirx.Buffer, target: tirx.Buffer) -> tirx.Stmt:
        room = tirx.decl_buffer((whole // divisor,), "float32", "room")

        def copy(read: tirx.Buffer, written: tirx.Buffer) -> tirx.For:
            i = tirx.Var("i", "int32")
            store = tirx.BufferStore(written, read[i], [i])
            return tirx.For(i, tirx.const(0, "int32"), whole // divisor, tirx.ForKind.SERIAL, store)

        return tirx.SeqStmt([tirx.AllocBuffer(room), copy(source, room), copy(room, target)])

    y = te.extern([(N,)], [x], lambda ins, outs: body(*ins, *outs), dtype=["float32"], name="copy")
    (workspace,) = lower(te.create_prim_func([x, whole, divisor, y]), "k").workspaces
    (elements,) = workspace.shape
    assert [evaluate(elements, {whole: 7, divisor: part}) for part in (0, 1, 2)] == [7, 7, 3]


def test_a_parallel_loop_beside_other_work_is_serial() -> None:
    x = te.placeholder((N,), "float32", name="x")
    doubled = te.compute((N,), lambda i: x[i] * 2.0, name="doubled")
    y = te.compute((N,), lambda i: doubled[N - 1 - i], name="y")
    schedule = s_tir.Schedule(te.create_prim_func([x, y]))
    schedule.parallel(schedule.get_loops(schedule.get_sblock("y"))[0])
    lowered = lower(schedule.mod["main"], "k")
    assert lowered.kernel.parallel_extent is None
    assert [p.name for p in lowered.kernel.func.params] == ["x", "y", "doubled", "n"]


def test_sizes_chosen_by_a_condition_are_computed_once() -> None:
    """The result has as many elements of the first row of `x` as a condition on an integer param selects."""
    x, axis = matrix(), tirx.Var("axis", "int64")
    chosen = tirx.Select(axis < 1, M, N)
    y = te.compute((chosen,), lambda i: x[0, i], name="y")
    lowered = lower(te.create_prim_func([x, axis, y]), "k", vectorize=False)
    text = emit_c([lowered.kernel], "p")
    assert text.count("(axis < 1) ? m : n") == 1
    assert "i < extent" in text


def test_buffers_that_nothing_reads_are_dropped() -> None:
    x = te.placeholder((N,), "float32", name="x")

    def body(source: tirx.Buffer, target: tirx.Buffer) -> tirx.Stmt:
        i, unread = tirx.Var("i", "int64"), tirx.decl_buffer((4,), "float32", "unread")
        work = [
            tirx.AllocBuffer(unread),
            tirx.BufferStore(unread, source[i], [0]),
            tirx.BufferStore(target, source[i], [i]),
        ]
        return tirx.For(i, tirx.const(0, "int64"), N, tirx.ForKind.SERIAL, tirx.SeqStmt(work))

    y = te.extern([(N,)], [x], lambda ins, outs: body(*ins, *outs), dtype=["float32"], name="copy")
    assert "unread" not in emit_c([lower(te.create_prim_func([x, y]), "k").kernel], "p")


def test_pointers_may_alias_unless_the_function_says_otherwise() -> None:
    func = elementwise(lambda x: x + 1.0, ["float32"])
    assert "const float *restrict x0, float *restrict y" in emit_c([lower(func, "k").kernel], "p")
    shared = lower(func.without_attr("tirx.noalias"), "k").kernel
    assert "const float *x0, float *y" in emit_c([shared], "p")


def test_unknown_variables_are_refused() -> None:
    loose = tirx.Var("loose", "int64")
    with pytest.raises(ValueError, match="loose"):
        lower(elementwise(lambda x: x + loose.astype("float32"), ["float32"]), "k")


def test_no_access_outside_any_buffer(tmp_path: Path) -> None:
    """At every size, with buffers that have exactly the sizes of the shapes and workspaces."""
    calls = []
    for size in SIZES:
        x, row, y = random(size, 3), random(size), np.zeros((size, 3), "float32")
        index, one = np.zeros(size, "int64"), np.zeros(1, "int64")
        calls += [
            Call("row_sums", (x, row), (size, 3)),
            Call("row_argmax", (x, index, row), (size, 3)),
            Call("normalised", (x, y, np.zeros(3, "float32")), (size, 3)),
            Call("normalised_parallel", (x, y, y), (size, 3, 0, size)),
            Call("flattened_transpose", (x.astype("int32"), x.astype("int32").ravel()), (size, 3)),
            Call("gather", (x, np.arange(size), y), (size, 3, size)),
            Call("positions", (row, index, one), (size,)),
            Call("halving", (np.arange(size), index), (size,)),
            Call("shifted", (row, row), (2, 3, size)),
        ]
    run_program(FUNCTIONS, calls, tmp_path, *SANITIZERS)


@pytest.mark.parametrize("name", ["exp", "erf", "log1p"])
def test_functions_of_whole_vectors_stay_whole(name: str) -> None:
    """TVM splits a vector for a call that it does not know for vectors."""
    lowered = lower(elementwise(getattr(tirx, name), ["float32"], lanes=8), "k")
    calls = collect(lowered.kernel.func.body, ir.Call)
    assert {str(call.ty.dtype) for call in calls if call_name(call) == name} == {"float32x8"}
