"""Convolutions over symbolic batch, channels and sizes against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import deploykit
from tests.frontends.onnx.harness import Check, by_onnxruntime, each, numbers, parse

IMAGES = [(1, 3, 7, 9), (2, 3, 8, 10), (1, 3, 3, 3)]


def compare(check: Check, text: str, *runs: dict[str, np.ndarray], opset: int = 21) -> None:
    check(text, *runs, opset=opset, expected=by_onnxruntime(text, *runs, opset=opset), rtol=1e-4)


def test_automatic_padding_of_symbolic_sizes(check: Check) -> None:
    calls = [
        f'Conv<auto_pad = "{pad}", strides = {strides}>(x, w)'
        for pad in ("SAME_UPPER", "SAME_LOWER", "VALID")
        for strides in ("[1, 1]", "[2, 3]", "[4, 4]")
    ]
    text = each("float[n,3,h,w] x, float[4,3,3,2] w", calls, 4)
    compare(check, text, *({"x": numbers(*shape), "w": numbers(4, 3, 3, 2)} for shape in IMAGES))


def test_same_padding_gives_sizes_that_are_known_to_agree(check: Check) -> None:
    """A residual sum of two strided branches needs no broadcast between unknown sizes."""
    text = """(float[n,3,h,w] x, float[3,3,3,3] w, float[3,3,1,1] v) => (float[n,3,p,q] y) {
        a = Conv<auto_pad = "SAME_UPPER", strides = [2, 2]>(x, w)
        b = Conv<auto_pad = "SAME_UPPER", strides = [2, 2]>(x, v)  y = Add(a, b) }"""
    assert not deploykit.load(parse(text)).requirements
    compare(check, text, {"x": numbers(1, 3, 7, 8), "w": numbers(3, 3, 3, 3), "v": numbers(3, 3, 1, 1)})


def test_many_channels_and_images_of_all_sizes(check: Check) -> None:
    """CPUs and GPUs compute such convolutions in transformed tiles."""
    model = parse("""(float[n,32,h,w] x) => (float[n,32,h,w] y) {
        a = Conv<pads=[1,1,1,1]>(x, u)  b = Relu(a)  c = Conv<pads=[2,0,0,2]>(b, v)  y = Add(c, x) }""")
    for name in "uv":
        model.graph.initializer.append(onnx.numpy_helper.from_array(numbers(32, 32, 3, 3) / 68, name))
    sizes = [(1, 32, 1, 1), (2, 32, 1, 7), (1, 32, 4, 8), (3, 32, 13, 11)]
    runs = [{"x": numbers(*size) / 4} for size in sizes]
    check(model, *runs, expected=by_onnxruntime(model, *runs), rtol=1e-4)


def test_groups_dilations_and_bias_in_one_to_three_dimensions(check: Check) -> None:
    line = each(
        "float[n,6,h] x, float[6,3,k] w, float[6] b", ["Conv<pads=[1,2],strides=[2],group=2,dilations=[2]>(x,w,b)"], 3
    )
    compare(
        check,
        line,
        {"x": numbers(1, 6, 17), "w": numbers(6, 3, 5), "b": numbers(6)},
        {"x": numbers(2, 6, 8), "w": numbers(6, 3, 2), "b": numbers(6)},
    )
    volume = each(
        "float[n,2,d,h,w] x, float[4,1,2,2,2] w", ["Conv<pads=[1,0,1,0,1,1],strides=[2,1,1],group=2>(x,w)"], 5
    )
    compare(check, volume, {"x": numbers(2, 2, 4, 5, 6), "w": numbers(4, 1, 2, 2, 2)})


def test_transposed_padding_and_output_sizes(check: Check) -> None:
    calls = [
        *(f'ConvTranspose<auto_pad="{pad}", strides=[2,3]>(x, w)' for pad in ("SAME_UPPER", "SAME_LOWER", "VALID")),
        "ConvTranspose<pads=[1,0,0,2], strides=[2,2], dilations=[2,1], output_padding=[1,0]>(x, w)",
        "ConvTranspose<output_shape=[14,18], strides=[2,2]>(x, w)",
    ]
    text = each("float[n,3,h,w] x, float[3,2,3,3] w", calls, 4)
    compare(check, text, *({"x": numbers(*shape), "w": numbers(3, 2, 3, 3)} for shape in IMAGES[:2]))


def test_transposed_groups_and_other_ranks(check: Check) -> None:
    line = each("float[n,4,h] x, float[4,2,3] w, float[4] b", ["ConvTranspose<group=2, strides=[2]>(x,w,b)"], 3)
    compare(check, line, *({"x": numbers(n, 4, n + 2), "w": numbers(4, 2, 3), "b": numbers(4)} for n in (1, 3)))
    volume = each("float[n,2,d,h,w] x, float[2,3,2,2,2] w", ["ConvTranspose<strides=[1,2,2]>(x,w)"], 5)
    compare(check, volume, {"x": numbers(1, 2, 3, 2, 2), "w": numbers(2, 3, 2, 2, 2)})


def test_half_precision_is_summed_in_single(check: Check) -> None:
    """With steps in float16, a sum of 4096 ones would stay at 2048."""
    text = each("float16[n,c,h] x, float16[1,c,1] w", ["Conv(x,w)"], 3, "float16")
    ones = {"x": np.ones((1, 4096, 2), np.float16), "w": np.ones((1, 4096, 1), np.float16)}
    check(text, ones, expected=[[np.full((1, 1, 2), 4096, np.float16)]])


@pytest.mark.sampled(part=4)
@pytest.mark.parametrize(("group", "offset_group"), [(1, 1), (2, 1), (2, 2)])
def test_deformable(check: Check, group: int, offset_group: int) -> None:
    taps = offset_group * 6
    text = each(
        f"float[n,4,h,w] x, float[4,{4 // group},3,2] w, float[n,{2 * taps},p,q] o, float[4] b, float[n,{taps},p,q] m",
        [f"DeformConv<strides=[2,2], pads=[1,1,1,1], group={group}, offset_group={offset_group}>(x,w,o,b,m)"],
        4,
    )
    feeds = {
        "x": numbers(1, 4, 5, 4),
        "w": numbers(4, 4 // group, 3, 2),
        "o": numbers(1, 2 * taps, 3, 3),
        "b": numbers(4),
    }
    check(text, {**feeds, "m": numbers(1, taps, 3, 3)}, opset=22, rtol=1e-4)


def test_more_than_three_spatial_axes_are_refused() -> None:
    text = each("float[1,1,2,2,2,2] x, float[1,1,1,1,1,1] w", ["Conv(x,w)"], 6)
    with pytest.raises(deploykit.UnsupportedModelError, match="4 spatial axes"):
        deploykit.load(parse(text))
