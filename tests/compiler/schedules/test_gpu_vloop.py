"""Kernels for each instance of a ragged batch, as shaders. They run on the CPU, one iteration per invocation."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import tvm_ffi
from tvm import ir, te, tirx, topi

from deploykit.compiler.codegen.shaders.lowering import shaders
from deploykit.compiler.decisions import Declined
from deploykit.compiler.lowering.lower import LoweredParts
from deploykit.compiler.ragged.model import ragged_model
from deploykit.compiler.schedules.gpu import Divided, Part, divide
from deploykit.compiler.schedules.gpu.team import SAME
from deploykit.compiler.schedules.vloop import View, new_instance, vloop
from deploykit.compiler.tir.loaded_values import STORED_SIZE
from deploykit.compiler.tir.values import const
from deploykit.pipeline import graph, kernels
from deploykit.targets.webgpu.devices import WEBGPU
from deploykit.targets.webgpu.variants import SHADERS
from tests.compiler.schedules.harness import VECTORS, Compiled, evaluate, fenced
from tests.compiler.schedules.test_gpu import alone, texts

NAMES = ("batch", "tokens", "squares", "longest")
BATCH, TOKENS, SQUARES, LONGEST = (tirx.Var(name, "int64") for name in NAMES)
LENGTHS = [[3, 1, 20, 0, 7], [1], [], [0, 0], [5, 5], [2, 17, 16]]

Build = Callable[[te.Tensor], te.Tensor]


def kernel(width: int, build: Build) -> tirx.PrimFunc:
    """A kernel from tokens of `width` elements to tokens, where `build` computes one instance."""
    instance = new_instance(BATCH)
    x = te.placeholder((instance.length, width), "float32", name="x")
    y = build(x)
    one = te.create_prim_func([x, y], index_dtype_override="int64")
    packed = [tirx.decl_buffer([TOKENS, *each.shape[1:]], "float32", name) for each, name in ((x, "x"), (y, "y"))]
    first = [instance.start, const(0)]
    views = {whole: View(part, first) for whole, part in zip(packed, one.params[:2], strict=True)}
    body = vloop(one.body, instance, BATCH, LONGEST, views)
    given = [packed[0], instance.offsets, instance.order, LONGEST, packed[1]]
    return tirx.PrimFunc(given, body).with_attr("s_tir", True)


def divided(func: tirx.PrimFunc) -> Divided:
    found = divide(func, WEBGPU)
    assert isinstance(found, Divided), found
    return found


def compiled(part: Part) -> Compiled:
    """A part for the CPU, with teams of one invocation. Its sizes are parameters."""

    def meaning(call: ir.Call) -> object:
        name = getattr(call.op, "name", "")
        return call.args[0] if name in (STORED_SIZE, SAME) else alone(call)

    body = tvm_ffi.structural_map(part.func.body, (ir.Call, meaning))
    return Compiled(part.func.with_body(body), VECTORS, lambda func, _: func)


def run(func: tirx.PrimFunc, lengths: Sequence[int], x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The result of all parts, an array of this shape. They must not write behind it."""
    offsets = np.cumsum([0, *lengths], dtype=np.int64)
    squares = np.cumsum([0, *(length**2 for length in lengths)], dtype=np.int64)
    order = np.argsort([-length for length in lengths], kind="stable").astype(np.int64)
    sizes = {BATCH: len(lengths), TOKENS: len(x), SQUARES: int(squares[-1]), LONGEST: max(lengths, default=0)}
    y = fenced(np.full(shape, 7, np.float32))
    found = divided(func)
    arrays = {"x": fenced(x), "offsets": offsets, "squares": squares, "order": order, "y": y}
    buffers = [arrays[param.name] for param in func.params if tirx.is_buffer_var(param)]
    for temporary in found.temporaries:
        count, dtype = evaluate(temporary.shape[0], sizes), str(temporary.ty.dtype)
        buffers.append(fenced(np.full(count, np.nan if dtype == "float32" else -1, dtype)))
    for part in found.parts:
        scalars = [sizes[param] for param in part.func.params if not tirx.is_buffer_var(param)]
        compiled(part).bind([*(buffers[i] for i in part.operands), *scalars])()
    return y


def instances(lengths: Sequence[int], width: int) -> list[np.ndarray]:
    rng = np.random.default_rng(len(lengths))
    return [rng.standard_normal((length, width), dtype=np.float32) for length in lengths]


def check(width: int, build: Build, expected: Callable[[np.ndarray], np.ndarray], lengths: Sequence[int]) -> None:
    given = instances(lengths, width)
    results = [expected(x) for x in given]
    empty = np.zeros((0, width), np.float32)
    columns = expected(instances([1], width)[0]).shape[1]
    found = run(kernel(width, build), lengths, np.concatenate([empty, *given]), (sum(lengths), columns))
    np.testing.assert_allclose(found, np.concatenate([np.zeros((0, columns)), *results]), rtol=1e-4, atol=1e-5)


def mixed(x: te.Tensor) -> te.Tensor:
    """Tokens weighted by their products with a token: a temporary of `length` by `length` elements."""
    return topi.nn.matmul(topi.nn.matmul(x, x, transpose_b=True), x)


def sums_of_columns(x: te.Tensor) -> te.Tensor:
    total = topi.sum(x, 0, keepdims=True)
    return topi.multiply(x, total)


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("width", [6, 8, 33])
def test_products_within_an_instance(lengths: list[int], width: int) -> None:
    check(width, mixed, lambda x: (x @ x.T) @ x, lengths)


@pytest.mark.parametrize("lengths", LENGTHS)
def test_results_with_the_length_twice(lengths: list[int]) -> None:
    """Both products of the tokens of an instance with each other, one instance after the other."""
    instance = new_instance(BATCH)
    x = te.placeholder((instance.length, 5), "float32", name="x")
    scores = topi.nn.matmul(x, x, transpose_b=True)
    shape = (2, instance.length, instance.length)
    y = te.compute(shape, lambda h, i, j: scores[i, j] * (h + 1), name="y")
    one = te.create_prim_func([x, y], index_dtype_override="int64")
    packed = [
        tirx.decl_buffer([TOKENS, 5], "float32", "x"),
        tirx.decl_buffer([2 * SQUARES], "float32", "y"),
    ]
    firsts = [[instance.start, const(0)], [instance.square * 2]]
    parts = zip(one.params[:2], firsts, strict=True)
    views = {whole: View(part, first) for whole, (part, first) in zip(packed, parts, strict=True)}
    body = vloop(one.body, instance, BATCH, LONGEST, views)
    given = [packed[0], instance.offsets, instance.squares, instance.order, TOKENS, SQUARES, LONGEST, packed[1]]
    func = tirx.PrimFunc(given, body).with_attr("s_tir", True)
    sequences = instances(lengths, 5)
    expected = [np.zeros(0), *(((h + 1) * (x @ x.T)).ravel() for x in sequences for h in range(2))]
    tokens = np.concatenate([np.zeros((0, 5), np.float32), *sequences])
    found = run(func, lengths, tokens, (2 * sum(length**2 for length in lengths),))
    np.testing.assert_allclose(found, np.concatenate(expected), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("width", [3, 8])
def test_sums_over_an_instance(lengths: list[int], width: int) -> None:
    check(width, sums_of_columns, lambda x: x * x.sum(0, keepdims=True), lengths)


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("width", [3, 8])
def test_elements_of_the_next_instance_are_left_alone(lengths: list[int], width: int) -> None:
    """An instance may end within a vector; what follows it belongs to another one."""
    check(width, topi.nn.relu, lambda x: np.maximum(x, 0), lengths)


@pytest.mark.parametrize("lengths", LENGTHS)
def test_rows_of_a_team(lengths: list[int]) -> None:
    check(40, topi.nn.softmax, lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True), lengths)


def test_a_team_knows_that_it_runs_the_same_iterations() -> None:
    """Otherwise a barrier inside of them is an error."""
    (text,) = texts(kernel(40, topi.nn.softmax))
    assert "= team_same_i32(narrow(order[" in text
    assert "workgroupUniformLoad(" in text


def test_sizes_from_memory_are_numbers_of_32_bits() -> None:
    first, *_ = texts(kernel(8, sums_of_columns))
    assert "narrow(offsets[" in first
    assert "_wide(" not in first


def test_index_arrays_count_as_tensors() -> None:
    """A shader has no more bindings than the device, with those of the offsets and the order."""
    found = shaders(kernel(8, sums_of_columns), "k", WEBGPU)
    assert isinstance(found, LoweredParts)
    assert all(len(part.operands) <= WEBGPU.bindings for part in found.parts)


def test_values_from_many_index_arrays_are_put_into_one() -> None:
    """The product of two batches of matrices has seven arrays: with its tensors, more than there are bindings."""
    operators = runpy.run_path(str(Path(__file__).parents[3] / "apps" / "ragged" / "ops.py"))
    assert SHADERS.gpu is not None
    module = graph(ragged_model(operators["vgemm"]), SHADERS.device, calls=False)
    found = kernels(module, SHADERS.device, SHADERS.gpu).shaders["ragged_c"]
    assert [(len(part.operands), part.outputs) for part in found.parts] == [(8, 1), (4, 1)]
    assert [temporary.dtype for temporary in found.temporaries] == ["int64"]


def test_imperative_blocks_stay_on_the_cpu() -> None:
    func = kernel(8, lambda x: topi.cumsum(x, 0))
    assert isinstance(divide(func, WEBGPU), Declined)
