"""Convolutions of 8-bit integers in groups: exact integer products on every runtime, whatever the sizes of groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from deploykit.compiler.operators import conv
from tests.frontends.onnx.harness import Check, by_onnxruntime, parse
from tests.runtimes import HOST

ZEROS = {"uint8": 131, "int8": -7}
"""The zero points of data."""


@dataclass(frozen=True)
class Form:
    """A convolution of `channels` to `outputs` in groups, with further attributes, of data in `dtype` and weights in
    `signed`."""

    dtype: str
    signed: str
    channels: int
    outputs: int
    groups: int
    kernel: tuple[int, ...] = (3, 3)
    attributes: str = "pads=[1, 1, 1, 1]"


FORMS = {
    "two": Form("uint8", "int8", 10, 6, 2),
    "three": Form("int8", "int8", 9, 3, 3, (2, 3), "pads=[0, 1, 2, 0], strides=[2, 1]"),
    "one-tap": Form("uint8", "uint8", 21, 15, 3, (1, 1), "strides=[1, 2]"),
    "outputs-of-a-channel": Form("int8", "int8", 5, 15, 5),
    "narrow": Form("uint8", "uint8", 24, 24, 6, (3, 3), "pads=[2, 1, 2, 1], dilations=[2, 1]"),
    "wide": Form("uint8", "int8", 66, 38, 2, (2, 2), ""),
    "one-axis": Form("int8", "uint8", 8, 12, 4, (3,), "pads=[1, 1]"),
}


def graph(form: Form, body: str, dtype: str) -> str:
    axes = ["h", "w"][: len(form.kernel)]
    group = ", ".join([f"group={form.groups}", *([form.attributes] if form.attributes else [])])
    results = ", ".join(f"{name}_out" for name in axes)
    given = f"{dtype}[n, {form.channels}, {', '.join(axes)}] x"
    return body.replace("GROUP", group).replace("GIVEN", given).replace("SHAPE", f"n, {form.outputs}, {results}")


def weights(form: Form) -> dict[str, np.ndarray]:
    random = np.random.default_rng(form.outputs)
    shape = (form.outputs, form.channels // form.groups, *form.kernel)
    signed = form.signed == "int8"
    low, high = (-127, 128) if signed else (0, 249)  # minus the zero point, they are int8
    return {
        "w": random.integers(low, high, shape).astype(form.signed),
        "sw": np.asarray(random.uniform(0.002, 0.02, form.outputs if signed else ()), np.float32),
        "bias": random.integers(-2000, 2000, form.outputs).astype(np.int32),
        "zw": np.zeros(form.outputs, np.int8) if signed else np.asarray(121, np.uint8),
    }


def with_weights(text: str, arrays: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    model = parse(text)
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays.items())
    return model


def inputs(form: Form) -> list[dict[str, np.ndarray]]:
    sizes = [(1, 3, 4), (2, 6, 5), (3, 5, 9)]
    limits = np.iinfo(form.dtype)
    return [
        {
            "x": np.random.default_rng(n)
            .integers(limits.min, limits.max + 1, (n, form.channels, *(h, w)[: len(form.kernel)]))
            .astype(form.dtype)
        }
        for n, h, w in sizes
    ]


@pytest.mark.parametrize("case", FORMS)
def test_products_in_groups(check: Check, case: str) -> None:
    """The sums are below 2^24, so that ONNX Runtime computes them exactly with floats."""
    form = FORMS[case]
    dtype, zero, arrays = form.dtype, ZEROS[form.dtype], weights(form)
    ones = [1] * len(form.kernel)
    whole = [arrays[name].astype(np.float32) for name in ("w", "zw")]
    floats = with_weights(
        graph(form, "(GIVEN) => (float[SHAPE] y) { y = Conv<GROUP>(x, w) }", "float"),
        {"w": whole[0] - whole[1].reshape(-1, 1, *ones)},
    )
    body = f"""(GIVEN) => (int32[SHAPE] sums, {dtype}[SHAPE] y) {{
        zx = Constant<value = {dtype} {{{zero}}}>()
        zy = Constant<value = {dtype} {{9}}>()
        sx = Constant<value = float {{0.05}}>()
        sy = Constant<value = float {{0.5}}>()
        sums = ConvInteger<GROUP>(x, w, zx, zw)
        y = QLinearConv<GROUP>(x, sx, zx, w, sw, zw, sy, zy, bias)
    }}"""
    runs = inputs(form)
    expected = []
    for (sums,) in by_onnxruntime(floats, *({"x": run["x"].astype(np.float32) - zero} for run in runs)):
        exact = sums.astype(np.int32)
        factor = (np.float32(0.05) * arrays["sw"] / np.float32(0.5)).reshape(-1, *ones)
        scaled = (exact + arrays["bias"].reshape(-1, *ones)).astype(np.float32) * factor
        limits = np.iinfo(dtype)
        expected.append([exact, np.clip(np.rint(scaled) + 9, limits.min, limits.max).astype(dtype)])
    check(with_weights(graph(form, body, form.dtype), arrays), *runs, expected=expected)


def test_dequantised_operands_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """The products of integers, and the convolution of dequantised numbers that they replace."""
    form = FORMS["narrow"]
    zero = ZEROS[form.dtype]
    body = f"""(GIVEN) => (float[SHAPE] y) {{
        zx = Constant<value = {form.dtype} {{{zero}}}>()
        sx = Constant<value = float {{0.05}}>()
        a = DequantizeLinear(x, sx, zx)
        b = DequantizeLinear<axis=0>(w, sw, zw)
        y = Conv<GROUP>(a, b)
    }}"""
    model = with_weights(graph(form, body, form.dtype), weights(form))
    found = {}
    runs = inputs(form)
    for way in ("integers", "floats"):
        if way == "floats":
            monkeypatch.setattr(conv, "quantized_conv", lambda *_: None)
        with Check(HOST).session(model, *runs) as session:
            found[way] = [session.run(run)["y"] for run in runs]
    for own, other in zip(found["integers"], found["floats"], strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-4, atol=1e-3)
