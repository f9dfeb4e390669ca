"""Schedules for GPUs at sizes with remainders. They run on the CPU, with one loop iteration per invocation."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
import tvm_ffi
from tvm import ir, te, tirx, topi

from deploykit.compiler.codegen.shaders.language import Sharing
from deploykit.compiler.codegen.shaders.languages import language_of
from deploykit.compiler.codegen.shaders.lowering import lower_shaders, shaders
from deploykit.compiler.codegen.shaders.sections import SUBGROUPS, Shader
from deploykit.compiler.codegen.shaders.wgsl import teams
from deploykit.compiler.decisions import Declined
from deploykit.compiler.lowering.lower import LoweredParts
from deploykit.compiler.operators.anchors.channels_last import conv_last, depthwise_last, pack_panels_array
from deploykit.compiler.operators.anchors.conv import ConvShape
from deploykit.compiler.operators.anchors.matmul import matmul, pack_array, packed_matmul
from deploykit.compiler.schedules.gpu import Divided, divide
from deploykit.compiler.schedules.gpu.team import AGREED, LANE, SIZE
from deploykit.targets.webgpu.devices import WEBGPU
from tests.compiler.schedules.harness import VECTORS, Compiled, fenced

N, M = (tirx.Var(name, "int64") for name in "nm")
ROWS = [1, 3, 4, 9]
"""Numbers of rows around those of a tile, which has four."""


def kernel(
    shapes: Sequence[Sequence[object]], build: Callable[..., te.Tensor], dtype: str = "float32"
) -> tirx.PrimFunc:
    inputs = [te.placeholder(shape, dtype, name=f"x{i}") for i, shape in enumerate(shapes)]
    return te.create_prim_func([*inputs, build(*inputs)], index_dtype_override="int64")


def divided(func: tirx.PrimFunc) -> Divided:
    found = divide(func, WEBGPU)
    assert isinstance(found, Divided), found
    return found


def single(func: tirx.PrimFunc, _device: object = None) -> tirx.PrimFunc:
    """The only part of a kernel, without its size parameters: they follow from its tensors."""
    (part,) = divided(func).parts
    body = tvm_ffi.structural_map(part.func.body, (ir.Call, alone)) if part.team else part.func.body
    return tirx.PrimFunc([param for param in part.func.params if tirx.is_buffer_var(param)], body)


def alone(call: ir.Call) -> object:
    """The meaning of an operator of teams in a team of one invocation."""
    name = str(getattr(call.op, "name", ""))
    if name in (LANE, SIZE):
        return tirx.const(int(name == SIZE), "int64")
    return call.args[0] if name in AGREED.values() else call


def texts(func: tirx.PrimFunc) -> list[str]:
    """The texts of the shaders of a kernel."""
    return [shader.text() for shader in emitted(func)]


def emitted(func: tirx.PrimFunc) -> list[Shader]:
    """The shaders of a kernel."""
    return [
        language_of(WEBGPU).emit(part.kernel.kernel, Sharing.apart(len(part.operands)), WEBGPU)
        for part in lower_shaders(divided(func), "k", WEBGPU).parts
    ]


def sample(shape: Sequence[int]) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def run(func: tirx.PrimFunc, inputs: Sequence[np.ndarray], expected: np.ndarray, rtol: float = 1e-4) -> None:
    out = fenced(np.full(expected.shape, 7, expected.dtype))
    Compiled(func, VECTORS, single).bind([*map(fenced, inputs), out])()
    np.testing.assert_allclose(out, expected, rtol=rtol, atol=1e-5)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize(("depth", "columns"), [(7, 40), (8, 12), (33, 10)])
def test_products_with_packed_panels(rows: int, depth: int, columns: int) -> None:
    a, b = sample((rows, depth)), sample((depth, columns))
    panels = pack_array(b, 8)
    func = kernel([(N, depth), panels.shape], lambda x, p: topi.nn.relu(packed_matmul(x, p, columns, "float32")))
    run(func, [a, panels], np.maximum(a @ b, 0))
    assert ("var sums_7: vec4<f32>;" in texts(func)[0]) == (columns == 40)


@pytest.mark.parametrize("width", [16, 32])
def test_panels_may_be_wider_than_tiles(width: int) -> None:
    """CPUs with wide vectors have such panels, and a GPU beside one has the same weights."""
    a, b = sample((9, 7)), sample((7, 64))
    panels = pack_array(b, width)
    func = kernel([(N, 7), panels.shape], lambda x, p: packed_matmul(x, p, 64, "float32"))
    run(func, [a, panels], a @ b)
    assert "var sums_7: vec4<f32>;" in texts(func)[0]


@pytest.mark.parametrize("rows", ROWS)
def test_few_tiles_of_long_sums_are_done_by_teams(rows: int) -> None:
    a, b = sample((rows, 300)), sample((300, 40))
    panels = pack_array(b, 8)

    def product(x: te.Tensor, p: te.Tensor) -> te.Tensor:
        return packed_matmul(x, p, 40, "float32")

    run(kernel([(rows, 300), panels.shape], product), [a, panels], a @ b)
    assert [part.team for part in divided(kernel([(rows, 300), panels.shape], product)).parts] == [True]
    assert [part.team for part in divided(kernel([(N, 300), panels.shape], product)).parts] == [False, True]


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("stride", [1, 2])
def test_convolutions_with_the_channels_last(rows: int, stride: int) -> None:
    data, weight = sample((2, rows, 11, 3)), sample((16, 3, 3, 3))
    panels = pack_panels_array(weight, 1, 8)
    shape = ConvShape((stride, stride), (1, 1, 1, 1), (1, 1), 1)
    out = [(rows - 1) // stride + 1, (11 - 1) // stride + 1]
    spatial = [tirx.floordiv(N - 1, stride) + 1, out[1]]
    func = kernel(
        [(2, N, 11, 3), panels.shape], lambda x, p: conv_last(x, p, spatial, shape=shape, channels=16, dtype="float32")
    )
    padded = np.pad(data, ((0, 0), (1, 1), (1, 1), (0, 0)))
    expected = np.zeros((2, *out, 16), np.float32)
    for y in range(3):
        for x in range(3):
            window = padded[:, y : y + stride * out[0] : stride, x : x + stride * out[1] : stride][
                :, : out[0], : out[1]
            ]
            expected += window @ weight[:, :, y, x].T
    run(func, [data, panels], expected)
    assert "array<vec4<f32>>" in texts(func)[0]


@pytest.mark.parametrize("rows", ROWS)
def test_depthwise_convolutions(rows: int) -> None:
    data, weight = sample((1, rows, 6, 12)), sample((3, 3, 12))
    shape = ConvShape((1, 1), (1, 1, 1, 1), (1, 1), 12)
    func = kernel(
        [(1, N, 6, 12), weight.shape], lambda x, w: depthwise_last(x, w, [N, 6], shape=shape, dtype="float32")
    )
    padded = np.pad(data, ((0, 0), (1, 1), (1, 1), (0, 0)))
    expected = sum(padded[:, y : y + rows, x : x + 6] * weight[y, x] for y in range(3) for x in range(3))
    run(func, [data, weight], np.asarray(expected))
    assert "sums_0" in texts(func)[0]


@pytest.mark.parametrize("rows", ROWS)
def test_tiles_of_float16_are_summed_in_float32(rows: int) -> None:
    a, b = sample((rows, 33)).astype(np.float16), sample((33, 40)).astype(np.float16)
    panels = pack_array(b, 8)
    func = kernel(
        [(N, 33), panels.shape], lambda x, p: topi.nn.relu(packed_matmul(x, p, 40, "float16")), dtype="float16"
    )
    run(func, [a, panels], np.maximum(a.astype(np.float32) @ b.astype(np.float32), 0).astype(np.float16), rtol=1e-3)
    (text,) = texts(func)
    assert "var sums_7: vec4<f32>;" in text
    assert "atomic" not in text


@pytest.mark.parametrize("size", [(1, 1), (3, 7), (5, 33)])
def test_what_walks_through_its_tensors_alike_is_one_row_of_vectors(size: tuple[int, int]) -> None:
    func = kernel([(N, M), (N, M)], lambda a, b: topi.tanh(topi.add(a, b)))
    inputs = [sample(size), sample(size)]
    room = size[0] * size[1] + 4
    padded = [np.resize(array, room) for array in (*inputs, inputs[0])]
    views = [array[: size[0] * size[1]].reshape(size) for array in padded]
    Compiled(func, VECTORS, single).bind(views)()
    np.testing.assert_allclose(views[2], np.tanh(inputs[0] + inputs[1]), rtol=1e-5, atol=1e-6)
    assert "hyperbolic_tangent_4" in texts(func)[0]


@pytest.mark.parametrize("size", [(1, 1, 1), (3, 5, 7), (2, 0, 3)])
def test_products_of_two_tensors_are_computed_element_by_element(size: tuple[int, int, int]) -> None:
    n, k, m = size
    a, b = sample((n, k)), sample((k, m))
    depth = tirx.Var("k", "int64")
    run(kernel([(N, depth), (depth, M)], lambda x, y: matmul(x, y, "float32")), [a, b], a @ b)


@pytest.mark.parametrize("size", [(1, 1), (3, 7), (5, 130)])
@pytest.mark.parametrize("axis", [-1, 0])
def test_softmax_is_one_shader_where_its_rows_lie_contiguous(size: tuple[int, int], axis: int) -> None:
    func = kernel([(N, M)], lambda x: topi.nn.softmax(x, axis=axis))
    parts = divided(func).parts
    assert len(texts(func)) == len(parts)
    if axis == 0:
        assert len(parts) > 1
        assert not any(part.team for part in parts)
        return
    powers = np.exp(sample(size) - sample(size).max(axis, keepdims=True))
    run(func, [sample(size)], powers / powers.sum(axis, keepdims=True))
    assert "team_max(found_0)" in texts(func)[0]
    assert "array<f32>" in texts(func)[0]


@pytest.mark.parametrize("rows", [1, 3, 70])
def test_rows_of_whole_vectors_are_computed_in_vectors(rows: int) -> None:
    def normal(x: te.Tensor, scale: te.Tensor) -> te.Tensor:
        mean = topi.divide(topi.sum(x, axis=1, keepdims=True), 40)
        away = topi.subtract(x, mean)
        spread = topi.divide(topi.sum(topi.multiply(away, away), axis=1, keepdims=True), 40)
        return topi.multiply(topi.divide(away, topi.sqrt(topi.add(spread, 0.5))), scale)

    x, scale = sample((rows, 40)), sample((40,))
    func = kernel([(N, 40), (40,)], normal)
    run(func, [x, scale], (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 0.5) * scale)
    (text,) = texts(func)
    assert "array<f32>" not in text
    assert text.count("array<vec4<f32>>") == 3


@pytest.mark.parametrize("size", [(1, 1), (3, 40)])
def test_reductions_to_one_value_are_done_by_a_team(size: tuple[int, int]) -> None:
    x = sample(size)
    func = kernel([(N, M)], topi.sum)
    run(func, [x], x.sum())
    assert "work(i32(group.x" in texts(func)[0]
    assert not divided(kernel([(N, 7)], lambda x: topi.sum(x, axis=1))).parts[0].team


@pytest.mark.parametrize(("axes", "rtol"), [((0,), 5e-5), ((0, 2), 5e-4), ((2,), 5e-4), ((0, 1, 2), 5e-4)])
def test_long_sums_are_exact(axes: tuple[int, ...], rtol: float) -> None:
    """Sums of equal numbers. A team of one invocation adds as many of them to one accumulator as a real one does
    together."""
    func = kernel([(N, 3, M)], lambda x: topi.sum(x, axis=axes))
    for size in [(1, 3, 1_000_000), (1_000_000, 3, 1), (2, 3, 511), (1025, 3, 2)]:
        x = np.full(size, 0.1, np.float32)
        run(func, [x], x.sum(axes, dtype="float64").astype("float32"), rtol)


def test_a_value_of_a_row_is_one_variable_whatever_its_shape() -> None:
    def scaled(x: te.Tensor) -> te.Tensor:
        return topi.divide(x, topi.sqrt(topi.sum(topi.multiply(x, x), axis=[0, 1], keepdims=True)))

    x = sample((3, 40))
    func = kernel([(3, 40)], scaled)
    run(func, [x], x / np.sqrt((x * x).sum()))
    (text,) = texts(func)
    assert "_row_0 = " in text
    assert "_row[" not in text


def test_one_long_row_is_reduced_by_one_team_and_used_by_others() -> None:
    def shifted(x: te.Tensor) -> te.Tensor:
        return topi.subtract(x, topi.max(x, axis=[0, 1], keepdims=True))

    assert [part.team for part in divided(kernel([(3, 40)], shifted)).parts] == [True]
    for size in ((N, M), (3, 1 << 14)):
        assert [part.team for part in divided(kernel([size], shifted)).parts] == [True, False]


def test_a_team_that_is_alone_is_a_workgroup() -> None:
    """It takes fewer steps than a subgroup."""
    (alone,) = emitted(kernel([(N, M)], topi.sum))
    (several,) = emitted(kernel([(N, M)], lambda x: topi.sum(x, axis=1)))
    assert not any(section.feature for section in alone.sections)
    assert {section.feature for section in several.sections} == {"", SUBGROUPS}


def test_rows_whose_elements_others_need_are_no_work_of_a_team() -> None:
    def flipped(x: te.Tensor) -> te.Tensor:
        powers = te.compute(x.shape, lambda i, j: tirx.exp(x[i, j] - x[i, 0]), name="powers")
        along = te.reduce_axis((0, M))
        total = te.compute((N,), lambda i: te.sum(powers[i, along], axis=along), name="total")
        return te.compute(x.shape, lambda i, j: powers[i, M - 1 - j] / total[i] + powers[i, j])

    parts = divided(kernel([(N, M)], flipped)).parts
    assert len(parts) > 1


@pytest.mark.parametrize(("dtype", "words"), [("float64", "tensors of float64"), ("uint64", "tensors of uint64")])
def test_dtypes_that_a_gpu_lacks_are_declined(dtype: str, words: str) -> None:
    reason = divide(kernel([(N, M)], lambda x: topi.add(x, x), dtype), WEBGPU)
    assert isinstance(reason, Declined)
    assert words in reason.reason


@pytest.mark.parametrize(("ranks", "taken"), [((21, 21, 20), True), ((21, 21, 21), False)])
def test_more_sizes_than_a_block_of_scalars_holds_are_declined(ranks: tuple[int, ...], taken: bool) -> None:
    shapes = [[tirx.Var(f"n{i}_{axis}", "int64") for axis in range(rank)] for i, rank in enumerate(ranks)]

    def firsts(*inputs: te.Tensor) -> te.Tensor:
        return te.compute((8,), lambda i: sum(x(*[0] * len(x.shape)) for x in inputs[1:]) + inputs[0](*[i] * ranks[0]))

    found = shaders(kernel(shapes, firsts), "k", WEBGPU)
    assert isinstance(found, LoweredParts) if taken else found == Declined("it takes 63 sizes, more than 62")


def test_shaders_keep_the_limits_of_their_device() -> None:
    device = replace(WEBGPU, workgroup=32, groups=1000)
    for func in (kernel([(N, M)], topi.exp), kernel([(N, M)], lambda x: topi.nn.softmax(x, axis=1))):
        for part in lower_shaders(divided(func), "k", device).parts:
            text = language_of(device).emit(part.kernel.kernel, Sharing.apart(len(part.operands)), device).text()
            assert "@workgroup_size(32)" in text
            assert "group.y * 1000u" in text
            assert not re.search(r"\b(64|65535)u?\b", text)
    small = replace(WEBGPU, scalars=1)
    assert shaders(kernel([(N, M)], topi.exp), "k", small) == Declined("it takes 2 sizes, more than 1")


def test_teams_stay_within_the_limits_that_every_adapter_has() -> None:
    calls = "".join(f"team_{name}{end}(" for name in ("add", "mul", "max", "min") for end in teams.TYPES)
    text = Shader(teams.sections(calls, WEBGPU)).text()
    cells = re.findall(r"var<workgroup> \w+: array<([^,]+), (\d+)>", text)
    assert len(cells) == 4 * len(teams.TYPES)
    # W3C, "WebGPU", section 3.6.2: maxComputeWorkgroupStorageSize, maxComputeInvocationsPerWorkgroup.
    assert sum((16 if "vec4" in kind else 4) * int(count) for kind, count in cells) <= 16384
    assert WEBGPU.workgroup <= 256


def test_more_tensors_than_bindings_are_declined() -> None:
    func = kernel([(N,)] * 9, lambda *x: topi.concatenate(x))
    reason = divide(func, WEBGPU)
    assert isinstance(reason, Declined)
    assert "more than 8" in reason.reason
