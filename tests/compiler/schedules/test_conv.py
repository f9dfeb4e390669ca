"""Convolutions over one to three dims with every attribute, against a direct evaluation in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tvm import relax, tirx, topi

from deploykit.compiler.codegen.native.cpus import host_cpu
from deploykit.compiler.cost import work
from deploykit.compiler.devices import microcontrollers
from deploykit.compiler.dims import evaluate, free_vars
from deploykit.compiler.schedules import DEVICES, Device, explain
from tests.compiler.schedules.harness import BOTH, BY_ELEMENT, LOADS_FIRST, SCALAR, SPELLED, VECTORS, Model, module

N = tirx.Var("n", "int64")
SPATIAL = tuple(tirx.Var(name, "int64") for name in ("h", "w", "d"))

devices = pytest.mark.parametrize(
    "device", [*BOTH, microcontrollers.HELIUM, microcontrollers.RVV], ids=lambda device: device.name
)


@dataclass(frozen=True)
class Case:
    """A convolution `[n, channels, *size] -> outputs`, and the image sizes at which it is tested."""

    channels: int
    outputs: int
    kernel: tuple[int, ...]
    sizes: tuple[tuple[int, ...], ...]
    strides: tuple[int, ...] = ()
    padding: tuple[int, ...] = ()
    dilation: tuple[int, ...] = ()
    groups: int = 1

    def attributes(self) -> dict[str, Any]:
        rank = len(self.kernel)
        return {
            "strides": list(self.strides or (1,) * rank),
            "padding": list(self.padding or (0,) * 2 * rank),
            "dilation": list(self.dilation or (1,) * rank),
            "groups": self.groups,
        }


CASES = {
    "same": Case(3, 8, (3, 3), ((1, 1), (5, 5), (9, 23)), padding=(1, 1, 1, 1)),
    "strided": Case(5, 12, (3, 3), ((5, 5), (9, 23)), strides=(2, 2), padding=(1, 1, 1, 1)),
    "pointwise": Case(16, 20, (1, 1), ((1, 1), (7, 7), (3, 9))),
    "pointwise-strided": Case(6, 8, (1, 1), ((7, 8),), strides=(2, 3)),
    "valid": Case(4, 7, (3, 2), ((3, 2), (6, 30))),
    "one-dim": Case(4, 6, (3,), ((5,), (40,)), padding=(1, 1)),
    "three-dims": Case(2, 4, (3, 3, 3), ((3, 4, 5),), strides=(1, 2, 1), padding=(1, 1, 1, 1, 1, 1)),
    "dilated": Case(4, 6, (3, 3), ((9, 11),), padding=(2, 2, 2, 2), dilation=(2, 2)),
    "dilated-strided": Case(4, 6, (3, 3), ((9, 11),), strides=(2, 4), padding=(0, 2, 1, 2), dilation=(2, 2)),
    "groups": Case(6, 9, (3, 3), ((9, 11),), groups=3),
    "depthwise": Case(8, 8, (3, 3), ((9, 11), (4, 33)), padding=(1, 1, 1, 1), groups=8),
    "depthwise-multiplied": Case(3, 6, (5, 5), ((9, 11),), strides=(2, 2), padding=(2, 2, 2, 2), groups=3),
    "uneven-padding": Case(4, 6, (3, 2), ((9, 11),), strides=(2, 1), padding=(1, 0, 0, 1)),
    "depthwise-wide": Case(40, 40, (3, 3), ((1, 1), (9, 31)), strides=(2, 1), padding=(1, 1, 0, 1), groups=40),
    "depthwise-dilated": Case(20, 20, (3, 3), ((5, 5), (9, 31)), (1, 1), (2, 2, 2, 2), (2, 2), groups=20),
    "deep": Case(500, 40, (3, 3), ((2, 2), (7, 9)), padding=(1, 1, 1, 1)),
    "very-deep": Case(2048, 33, (2, 1), ((4, 4),), padding=(0, 0, 1, 0)),
    "many-channels": Case(32, 48, (3, 3), ((2, 2), (9, 31)), padding=(1, 1, 1, 1)),
    "many-channels-uneven": Case(128, 32, (3, 3), ((3, 4), (12, 25)), padding=(0, 1, 1, 0)),
    "wide-kernel": Case(3, 16, (7, 7), ((20, 21),), strides=(2, 2), padding=(3, 3, 3, 3)),
}


def direct(x: np.ndarray, weight: np.ndarray, case: Case) -> np.ndarray:
    """The definition of a convolution: a sum over channels and taps of shifted views of the padded data."""
    attributes, rank = case.attributes(), len(case.kernel)
    pads = attributes["padding"]
    padded = np.pad(x, ((0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True))).astype("float64")
    spans = [d * (k - 1) + 1 for d, k in zip(attributes["dilation"], case.kernel, strict=True)]
    extents = [
        (size - span) // stride + 1
        for size, span, stride in zip(padded.shape[2:], spans, attributes["strides"], strict=True)
    ]
    out = np.zeros((x.shape[0], case.outputs, *extents))
    inputs, outputs = case.channels // case.groups, case.outputs // case.groups
    for group in range(case.groups):
        source = padded[:, group * inputs : (group + 1) * inputs]
        for tap in np.ndindex(*case.kernel):
            window = tuple(
                slice(t * d, t * d + (extent - 1) * s + 1, s)
                for t, d, s, extent in zip(tap, attributes["dilation"], attributes["strides"], extents, strict=True)
            )
            own = slice(group * outputs, (group + 1) * outputs)
            out[:, own] += np.einsum("nc...,oc->no...", source[(..., *window)], weight[(own, slice(None), *tap)])
    return out


def sample(shape: Sequence[int]) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


def convolution(
    case: Case,
    weight: np.ndarray | None,
    dtype: str = "float32",
    *,
    transposed: bool = False,
    size: tuple[int, ...] | None = None,
) -> Any:
    """`size`: the extents of the data, if they are known."""
    rank = len(case.kernel)
    operator = getattr(relax.op.nn, f"conv{rank}d_transpose" if transposed else f"conv{rank}d")
    params = [("x", (N, case.channels, *(size or SPATIAL[:rank])), dtype)]
    if weight is None:
        params.append(("w", (case.outputs, case.channels // case.groups, *case.kernel), dtype))

    def body(bb: relax.BlockBuilder, x: Any, *given: Any) -> Any:
        return bb.emit(operator(x, given[0] if given else relax.const(weight), **case.attributes()))

    return module(params, body)


def weight_of(case: Case) -> np.ndarray:
    return sample((case.outputs, case.channels // case.groups, *case.kernel))


@pytest.mark.sampled(part=4)
@devices
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_convolution(case: Case, device: Device) -> None:
    weight = weight_of(case)
    model = Model(convolution(case, weight), device)
    for size in case.sizes:
        x = sample((2, case.channels, *size))
        atol = max(1e-4, 2e-6 * weight[0].size)
        np.testing.assert_allclose(model(x), direct(x, weight, case), rtol=1e-4, atol=atol)


@pytest.mark.sampled(part=6)
@pytest.mark.parametrize("other", [BY_ELEMENT, LOADS_FIRST], ids=["from vectors", "loads first"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_other_tiles_give_the_same_bits(case: Case, other: Device) -> None:
    weight = weight_of(case)
    models = [Model(convolution(case, weight), device) for device in (VECTORS, other)]
    for size in case.sizes:
        x = sample((2, case.channels, *size))
        np.testing.assert_array_equal(models[0](x), models[1](x))


@pytest.mark.sampled(part=6)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_products_that_are_written_out_give_the_same_bits(case: Case) -> None:
    weight = weight_of(case)
    symbolic = [Model(convolution(case, weight), device) for device in (SCALAR, SPELLED)]
    for size in case.sizes:
        x = sample((2, case.channels, *size))
        models = [*symbolic, *(Model(convolution(case, weight, size=size), device) for device in (SCALAR, SPELLED))]
        expected, *others = (model(x) for model in models)
        for found in others:
            np.testing.assert_array_equal(found, expected)


@pytest.mark.sampled(part=6)
@pytest.mark.parametrize("width", range(1, 14))
def test_lines_of_known_lengths_are_divided_without_overlap(width: int) -> None:
    """Into tiles and what is left of them."""
    for case in (CASES["same"], CASES["strided"], CASES["valid"], CASES["groups"]):
        if width < case.kernel[-1] and not case.padding:
            continue
        weight, x = weight_of(case), sample((1, case.channels, 4, width))
        for device in (SCALAR, SPELLED):
            found = Model(convolution(case, weight, size=(4, width)), device)(x)
            np.testing.assert_allclose(found, direct(x, weight, case), rtol=1e-4, atol=1e-4)


@devices
def test_weights_computed_at_run_time(device: Device) -> None:
    case = CASES["strided"]
    weight = weight_of(case)
    model = Model(convolution(case, None), device)
    x = sample((1, case.channels, 9, 23))
    np.testing.assert_allclose(model(x, weight), direct(x, weight, case), rtol=1e-4, atol=1e-4)


@devices
@pytest.mark.parametrize("dtype", ["float16", "int32"])
def test_other_element_types(device: Device, dtype: str) -> None:
    case = CASES["strided"]
    weight, x = (weight_of(case) * 4).astype(dtype), (sample((1, case.channels, 9, 23)) * 4).astype(dtype)
    got = Model(convolution(case, weight, dtype), device)(x)
    np.testing.assert_allclose(got, direct(x, weight, case), rtol=5e-3, atol=1e-2)


@devices
@pytest.mark.parametrize("name", ["same", "pointwise", "groups"])
def test_bias_activation_and_residual_are_part_of_the_kernel(device: Device, name: str) -> None:
    case = CASES[name]
    weight, bias = weight_of(case), sample((1, case.outputs, 1, 1))
    h, w = SPATIAL[:2]
    shrunk = 2 if name == "groups" else 0

    def body(bb: relax.BlockBuilder, x: Any, residual: Any) -> Any:
        y = bb.emit(relax.op.nn.conv2d(x, relax.const(weight), **case.attributes()))
        y = bb.emit_te(topi.add, y, relax.const(bias))
        y = bb.emit_te(topi.nn.relu, y)
        return bb.emit_te(topi.add, y, residual)

    params = [
        ("x", (N, case.channels, h, w), "float32"),
        ("r", (N, case.outputs, h - shrunk, w - shrunk), "float32"),
    ]
    model = Model(module(params, body), device)
    assert sum("conv" in kernel for kernel in model.kernels) == 1
    assert len(model.kernels) <= 4
    for size in [(6, 23), (3, 3)]:
        x = sample((2, case.channels, *size))
        expected = np.maximum(direct(x, weight, case) + bias, 0)
        residual = sample(expected.shape)
        np.testing.assert_allclose(model(x, residual), expected + residual, rtol=1e-4, atol=1e-4)


def scattered(x: np.ndarray, weight: np.ndarray, case: Case) -> np.ndarray:
    """The definition of a transposed convolution: each input element adds its kernel to the output, then pads are cut
    off."""
    attributes, rank = case.attributes(), len(case.kernel)
    strides, pads, dilation = attributes["strides"], attributes["padding"], attributes["dilation"]
    full = [
        (size - 1) * s + d * (k - 1) + 1
        for size, s, d, k in zip(x.shape[2:], strides, dilation, case.kernel, strict=True)
    ]
    out = np.zeros((x.shape[0], case.outputs, *full))
    inputs, outputs = case.channels // case.groups, case.outputs // case.groups
    for group in range(case.groups):
        ours, theirs = slice(group * inputs, (group + 1) * inputs), slice(group * outputs, (group + 1) * outputs)
        for tap in np.ndindex(*case.kernel):
            window = tuple(
                slice(t * d, t * d + (size - 1) * s + 1, s)
                for t, d, s, size in zip(tap, dilation, strides, x.shape[2:], strict=True)
            )
            out[(slice(None), theirs, *window)] += np.einsum(
                "nc...,co->no...", x[:, ours].astype("float64"), weight[(ours, slice(None), *tap)]
            )
    crop = tuple(slice(begin, extent - end) for begin, end, extent in zip(pads[:rank], pads[rank:], full, strict=True))
    return out[(..., *crop)]


@devices
@pytest.mark.parametrize(
    "case",
    [
        Case(4, 6, (3, 3), ((4, 5), (1, 1)), strides=(2, 2), padding=(1, 1, 1, 1)),
        Case(3, 5, (3,), ((4,), (30,)), strides=(3,), padding=(1, 0)),
        Case(4, 6, (3, 3), ((4, 5),), dilation=(2, 2), groups=2),
        Case(4, 2, (2, 2), ((9, 10),), strides=(2, 2)),
    ],
    ids=["strided", "one-dim", "dilated-groups", "doubling"],
)
def test_transposed_convolution(case: Case, device: Device) -> None:
    weight = sample((case.channels, case.outputs // case.groups, *case.kernel))
    model = Model(convolution(case, weight, transposed=True), device)
    for size in case.sizes:
        x = sample((2, case.channels, *size))
        np.testing.assert_allclose(model(x), scattered(x, weight, case), rtol=1e-4, atol=1e-4)


@devices
@pytest.mark.parametrize("constant", [True, False])
def test_transposed_convolution_with_output_padding(constant: bool, device: Device) -> None:
    weight, extra = sample((4, 3, 3, 2)), [1, 2]
    case = Case(4, 6, (3, 2), (), strides=(2, 3), padding=(1, 0, 0, 1), groups=2)
    params = [("x", (N, 4, *SPATIAL[:2]), "float32"), *([] if constant else [("w", weight.shape, "float32")])]

    def body(bb: relax.BlockBuilder, x: Any, *given: Any) -> Any:
        operand = given[0] if given else relax.const(weight)
        return bb.emit(relax.op.nn.conv2d_transpose(x, operand, output_padding=extra, **case.attributes()))

    x = sample((2, 4, 5, 7))
    uncropped = Case(4, 6, (3, 2), (), strides=(2, 3), groups=2)
    full = np.pad(scattered(x, weight, uncropped), ((0, 0), (0, 0), (0, extra[0]), (0, extra[1])))
    expected = full[:, :, 1:, : full.shape[3] - 1]
    got = Model(module(params, body), device)(x, *([] if constant else [weight]))
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "device", "taken"),
    [
        ("same", VECTORS, "conv: conv"),
        ("groups", VECTORS, "conv: conv"),
        ("depthwise", VECTORS, "depthwise: depthwise"),
        ("many-channels", VECTORS, "conv: winograd"),
        ("same", SCALAR, "conv: direct_conv"),
        ("depthwise", SCALAR, "depthwise: depthwise"),
    ],
)
def test_a_rule_takes_each_convolution(name: str, device: Device, taken: str) -> None:
    case = CASES[name]
    model = Model(convolution(case, weight_of(case)), device)
    kernels = [func for func in model.mod.functions.values() if isinstance(func, tirx.PrimFunc)]
    assert taken in {f"{choice.stage}: {choice.rule}" for kernel in kernels for choice in explain(kernel, device)}


def test_a_convolution_counts_as_its_plain_sum_whatever_computes_it() -> None:
    case = CASES["many-channels"]
    kernels = Model(convolution(case, weight_of(case)), VECTORS).mod.functions
    cost = work(next(func for name, func in kernels.items() if name.name_hint == "conv"))
    assert cost is not None
    sizes = {var: {"n": 2, "h": 5, "w": 7}[var.name] for var in free_vars(cost.flops)}
    assert evaluate(cost.flops, sizes) == 2 * 5 * 7 * case.outputs * 2 * 9 * case.channels


@pytest.mark.skipif("avx512vl" not in host_cpu().requires, reason="this CPU has no AVX-512")
@pytest.mark.parametrize(("channels", "outputs"), [(16, 32), (16, 16), (32, 16), (48, 16), (16, 80)])
def test_winograd_of_single_vectors(channels: int, outputs: int) -> None:
    """A vector of AVX-512 has all 16 channels."""
    case = Case(channels, outputs, (3, 3), ((16, 16), (5, 19)), padding=(1, 1, 1, 1))
    weight, device = weight_of(case), DEVICES["x86-64-v4"]
    for size in (None, (16, 16)):
        model = Model(convolution(case, weight, size=size), device)
        kernels = [func for func in model.mod.functions.values() if isinstance(func, tirx.PrimFunc)]
        assert "winograd" in {choice.rule for kernel in kernels for choice in explain(kernel, device)}
        for found in case.sizes[: 2 if size is None else 1]:
            x = sample((2, channels, *found))
            np.testing.assert_allclose(model(x), direct(x, weight, case), rtol=1e-4, atol=2e-6 * weight[0].size)
