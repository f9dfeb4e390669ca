"""Winograd convolutions for GPUs agree with the definition, and with the same convolutions computed directly.

They run on the CPU, with one loop iteration per invocation.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from tvm import ir, relax, tirx, topi

from deploykit.compiler.constants import read
from deploykit.compiler.cost import work
from deploykit.compiler.decisions import Decision
from deploykit.compiler.devices.cpu import Device
from deploykit.compiler.devices.gpu import CLASSES, NATIVE_GPU, USUAL, GpuClass
from deploykit.compiler.dims import evaluate, free_vars
from deploykit.compiler.graph.legalize import legalize
from deploykit.compiler.schedules.gpu import Divided, divide
from deploykit.compiler.tir.rewriting import collect
from deploykit.compiler.variant import layout_for
from tests.compiler.schedules.harness import VECTORS, Model, module
from tests.compiler.schedules.test_conv import SPATIAL, Case, N, convolution, direct, sample, weight_of

GPU = replace(NATIVE_GPU, kind=CLASSES["software"])
TRANSFORMED = layout_for(GPU, VECTORS)
DIRECT = replace(TRANSFORMED, transforms=False)

SIZES = ((1, 1), (1, 6), (2, 2), (3, 4), (5, 7), (9, 31))
LARGER = ((3, 3), (4, 4), (12, 25))

CASES = {
    "same": Case(32, 48, (3, 3), SIZES, padding=(1, 1, 1, 1)),
    "narrow": Case(16, 16, (3, 3), SIZES, padding=(1, 1, 1, 1)),
    "several-blocks": Case(128, 32, (3, 3), SIZES[:5], padding=(1, 1, 1, 1)),
    "uneven": Case(16, 24, (3, 3), ((2, 2), *LARGER), padding=(0, 1, 1, 0)),
    "valid": Case(24, 16, (3, 3), LARGER),
    "beyond": Case(16, 16, (3, 3), SIZES, padding=(5, 2, 2, 6)),
}


def on_gpu(func: tirx.PrimFunc, _: Device, kind: GpuClass = GPU.kind) -> tirx.PrimFunc:
    """A kernel whose only part for a GPU is run as a loop over invocations."""
    found = divide(func, replace(GPU, kind=kind))
    assert isinstance(found, Divided), found
    fallbacks = [choice for choice in found.choices if choice.fallback and "channels" not in choice.stage]
    assert not fallbacks, fallbacks
    (part,) = found.parts
    return func.with_body(part.func.body)


def tolerances(weight: np.ndarray) -> dict[str, float]:
    return {"rtol": 1e-4, "atol": max(1e-4, 2e-6 * weight[0].size)}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [USUAL, GPU.kind], ids=lambda kind: kind.name)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_both_ways_and_the_definition_agree(case: Case, kind: GpuClass) -> None:
    weight = weight_of(case)
    rule = partial(on_gpu, kind=kind)
    transformed, plain = (Model(convolution(case, weight), device, rule) for device in (TRANSFORMED, DIRECT))
    assert {"points", "products"} < set(transformed.kernels)
    assert not {"points", "products"} & set(plain.kernels)
    for size in case.sizes:
        for batch in (1, 3):
            x = sample((batch, case.channels, *size))
            found = transformed(x)
            np.testing.assert_allclose(found, plain(x), **tolerances(weight))
            np.testing.assert_allclose(found, direct(x, weight, case), **tolerances(weight))


@pytest.mark.parametrize("size", [(13, 18), (16, 16)])
def test_known_sizes(size: tuple[int, int]) -> None:
    case = CASES["same"]
    weight = weight_of(case)

    def body(bb: relax.BlockBuilder, x: Any) -> Any:
        return bb.emit(relax.op.nn.conv2d(x, relax.const(weight), **case.attributes()))

    model = Model(module([("x", (2, case.channels, *size), "float32")], body), TRANSFORMED, on_gpu)
    assert "products" in model.kernels
    x = sample((2, case.channels, *size))
    np.testing.assert_allclose(model(x), direct(x, weight, case), **tolerances(weight))


def test_a_result_does_not_depend_on_its_batch() -> None:
    """Not one bit: the sums of a tile have the same order, whatever tiles are beside it."""
    case = CASES["same"]
    model = Model(convolution(case, weight_of(case)), TRANSFORMED, on_gpu)
    x = sample((5, case.channels, 9, 7))
    together = model(x)
    for place in range(5):
        np.testing.assert_array_equal(model(x[place : place + 1])[0], together[place])


def test_what_follows_is_part_of_the_last_kernel() -> None:
    case = CASES["same"]
    weight, bias = weight_of(case), sample((1, case.outputs, 1, 1))

    def body(bb: relax.BlockBuilder, x: Any, residual: Any) -> Any:
        y = bb.emit(relax.op.nn.conv2d(x, relax.const(weight), **case.attributes()))
        y = bb.emit_te(topi.nn.relu, bb.emit_te(topi.add, y, relax.const(bias)))
        return bb.emit_te(topi.add, y, residual)

    channels = {"x": case.channels, "r": case.outputs}
    params = [(name, (N, count, *SPATIAL[:2]), "float32") for name, count in channels.items()]
    model = Model(module(params, body), TRANSFORMED, on_gpu)
    assert sum("add" in name for name in model.kernels) == 1
    for size in SIZES:
        x, residual = sample((2, case.channels, *size)), sample((2, case.outputs, *size))
        expected = np.maximum(direct(x, weight, case) + bias, 0) + residual
        np.testing.assert_allclose(model(x, residual), expected, **tolerances(weight))


def panels(mod: ir.IRModule) -> list[np.ndarray]:
    """The transformed weights of a module."""
    found = []
    for value in collect(mod["main"], ir.GenericConst):
        with read(value) as array:
            if array.ndim == 6:
                found.append(np.copy(array))
    return found


def test_the_weights_are_those_of_the_cpu() -> None:
    """An artifact for both has them once."""
    case = CASES["several-blocks"]
    conv = convolution(case, weight_of(case))
    ((here,), (there,)) = (panels(Model(conv, device).mod) for device in (VECTORS, TRANSFORMED))
    np.testing.assert_array_equal(here, there)


def test_few_channels_are_computed_directly() -> None:
    case = CASES["narrow"]
    for kind, taken in ((GPU.kind, True), (USUAL, False)):
        layout = layout_for(replace(GPU, kind=kind), VECTORS)
        kernels = Model(convolution(case, weight_of(case)), layout, on_gpu).kernels
        assert ("products" in kernels) == taken


@pytest.mark.parametrize(("height", "taken"), [(1024, True), (1400, False), (None, True)])
def test_tiles_that_may_be_larger_than_all_bindings_are_not_transformed(height: int | None, taken: bool) -> None:
    """A megapixel of 32 channels has 302 MB of points. They need three bindings of 128 MiB, their products with 48
    output channels four, and the weights one: all that there are."""
    case = CASES["same"]
    h, w = SPATIAL[:2]
    box = {N: (1, 1), h: (1, height), w: (1, 1024)}
    decisions: list[Decision] = []
    legalize(convolution(case, weight_of(case)), TRANSFORMED, decisions.append, box)
    (found,) = (decision.outcome for decision in decisions if decision.by == "winograd")
    assert isinstance(found, str) == taken, found


def test_each_kernel_counts_its_own_operations() -> None:
    case = CASES["same"]
    kernels = Model(convolution(case, weight_of(case)), TRANSFORMED, on_gpu).mod.functions
    found = {}
    for name, func in kernels.items():
        cost = work(func) if isinstance(func, tirx.PrimFunc) else None
        if cost is not None:
            sizes = {var: {"n": 2, "h": 8, "w": 12}[var.name] for var in free_vars(cost.flops)}
            found[name.name_hint] = evaluate(cost.flops, sizes)
    tiles = 2 * 2 * 3
    assert found["products"] == 2 * 36 * tiles * case.channels * case.outputs
    assert found["points"] == 36 * tiles * case.channels * 9
    assert found["conv"] == 16 * tiles * case.outputs * 12
