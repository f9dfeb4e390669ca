"""Classes of GPUs: each computes what the usual class computes, at sizes with remainders. They run on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import tvm_ffi
from tvm import ir, te, tirx

from deploykit.compiler.devices.gpu import CLASSES, NATIVE_GPU, USUAL, GpuClass
from deploykit.compiler.operators.anchors.channels_last import conv_last, depthwise_last, pack_panels_array
from deploykit.compiler.operators.anchors.conv import ConvShape
from deploykit.compiler.operators.anchors.matmul import pack_array, packed_matmul
from deploykit.compiler.schedules.gpu import Divided, Part, divide
from deploykit.errors import UsageError
from deploykit.targets.host import class_of
from tests.compiler.schedules.harness import VECTORS, Compiled, fenced
from tests.compiler.schedules.test_gpu import N, alone, kernel, sample

ROWS = [1, 3, 4, 7, 8, 9, 17]
"""Numbers of rows around those of tiles of 4 and 8."""


def parts(func: tirx.PrimFunc, kind: GpuClass) -> tuple[Part, ...]:
    found = divide(func, replace(NATIVE_GPU, kind=kind))
    assert isinstance(found, Divided), found
    assert not any(choice.fallback for choice in found.choices), found.choices
    return found.parts


def computed(func: tirx.PrimFunc, kind: GpuClass, inputs: Sequence[np.ndarray], shape: Sequence[int]) -> np.ndarray:
    """What all parts of a kernel with one result leave in it; those that are for other sizes do nothing."""
    out = fenced(np.full(shape, np.nan, np.float32))
    for part in parts(func, kind):
        body = tvm_ffi.structural_map(part.func.body, (ir.Call, alone)) if part.team else part.func.body
        params = [param for param in part.func.params if tirx.is_buffer_var(param)]
        Compiled(tirx.PrimFunc(params, body), VECTORS, lambda whole, _: whole).bind([*map(fenced, inputs), out])()
    return out


@pytest.mark.sampled(part=6)
@pytest.mark.parametrize("kind", CLASSES.values(), ids=lambda kind: kind.name)
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("depth", [7, 300])
def test_products(kind: GpuClass, rows: int, depth: int) -> None:
    a, b = sample((rows, depth)), sample((depth, 24))
    panels = pack_array(b, 8)
    func = kernel([(N, depth), panels.shape], lambda x, p: packed_matmul(x, p, 24, "float32"))
    found = computed(func, kind, [a, panels], (rows, 24))
    np.testing.assert_allclose(found, a @ b, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(found, computed(func, USUAL, [a, panels], (rows, 24)))


@pytest.mark.parametrize("kind", CLASSES.values(), ids=lambda kind: kind.name)
@pytest.mark.parametrize("rows", ROWS)
def test_convolutions_in_groups_that_are_no_multiple_of_the_widest_tile(kind: GpuClass, rows: int) -> None:
    """A tile of eight columns would reach into the next group of 12 channels; one of four does not."""
    data, weight = sample((1, rows, 5, 8)), sample((24, 4, 1, 1))
    panels = pack_panels_array(weight, 2, 8)
    shape = ConvShape((1, 1), (0, 0, 0, 0), (1, 1), 2)

    def conv(x: te.Tensor, p: te.Tensor) -> te.Tensor:
        return conv_last(x, p, [N, 5], shape=shape, channels=24, dtype="float32")

    found = computed(kernel([(1, N, 5, 8), panels.shape], conv), kind, [data, panels], (1, rows, 5, 24))
    halves = [data[..., 4 * g : 4 * g + 4] @ weight[12 * g : 12 * g + 12, :, 0, 0].T for g in range(2)]
    np.testing.assert_allclose(found, np.concatenate(halves, -1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", CLASSES.values(), ids=lambda kind: kind.name)
@pytest.mark.parametrize("rows", [2, 11, 13, 16, 17])
def test_products_whose_rows_are_known(kind: GpuClass, rows: int) -> None:
    """Rows that do not fill a tile are a smaller tile."""
    a, b = sample((rows, 8)), sample((8, 48))
    panels = pack_array(b, 8)
    func = kernel([(rows, 8), panels.shape], lambda x, p: packed_matmul(x, p, 48, "float32"))
    np.testing.assert_allclose(computed(func, kind, [a, panels], (rows, 48)), a @ b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", CLASSES.values(), ids=lambda kind: kind.name)
@pytest.mark.parametrize("rows", ROWS)
def test_convolutions_of_single_channels(kind: GpuClass, rows: int) -> None:
    data, weight = sample((1, 1, rows, 8)), sample((1, 1, 8))
    shape = ConvShape((1, 1), (0, 0, 0, 0), (1, 1), 8)
    func = kernel([(1, 1, N, 8), weight.shape], lambda x, p: depthwise_last(x, p, [1, N], shape=shape, dtype="float32"))
    found = computed(func, kind, [data, weight], (1, 1, rows, 8))
    np.testing.assert_allclose(found, data * weight[0, 0], rtol=1e-5, atol=1e-6)


def test_classes_differ_in_their_tiles() -> None:
    func = kernel([(N, 7), (3, 7, 8)], lambda x, p: packed_matmul(x, p, 24, "float32"))
    texts = {name: str(parts(func, kind)[0].func) for name, kind in CLASSES.items()}
    assert texts["mobile"] == texts["integrated"] != texts["discrete"]
    func = kernel([(N, 7), (6, 7, 8)], lambda x, p: packed_matmul(x, p, 48, "float32"))
    texts = {name: str(parts(func, kind)[0].func) for name, kind in CLASSES.items()}
    assert texts["discrete"] != texts["software"] != texts["mobile"]


def test_the_class_is_part_of_a_device() -> None:
    assert class_of(["vulkan", "opencl"]) is USUAL
    assert class_of(["vulkan:discrete", "opencl"]).name == "discrete"
    with pytest.raises(UsageError, match="no class 'fast' of devices: there are mobile, integrated"):
        class_of(["vulkan:fast"])
    with pytest.raises(UsageError, match="one class of devices, not for mobile and discrete"):
        class_of(["vulkan:mobile", "opencl:discrete"])
    with pytest.raises(UsageError, match="no device 'metal'"):
        class_of(["metal"])
