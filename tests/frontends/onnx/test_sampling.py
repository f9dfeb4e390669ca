"""Sampling between elements over symbolic sizes: grids, affine grids, regions of interest."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tests.frontends.onnx.harness import Check, by_onnxruntime, each, numbers

PADDINGS = ("zeros", "border", "reflection")


def grid(*shape: int) -> np.ndarray:
    return np.random.default_rng(5).uniform(-1.6, 1.6, shape).astype(np.float32)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_images(check: Check, mode: str) -> None:
    calls = [
        f'GridSample<mode="{mode}", padding_mode="{p}", align_corners={a}>(x, g)' for p, a in product(PADDINGS, (0, 1))
    ]
    text = each("float[n,c,h,w] x, float[n,p,q,2] g", calls, 4)
    runs = [
        {"x": numbers(2, 3, 5, 4), "g": grid(2, 6, 7, 2)},
        {"x": numbers(1, 1, 2, 2), "g": grid(1, 1, 3, 2)},
    ]
    check(text, *runs, opset=16, expected=by_onnxruntime(text, *runs, opset=16), rtol=1e-3)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_volumes(check: Check, mode: str) -> None:
    calls = [f'GridSample<mode="{mode}", padding_mode="{padding}">(x, g)' for padding in PADDINGS]
    text = each("float[n,c,d,h,w] x, float[n,p,q,r,3] g", calls, 5)
    runs = [{"x": numbers(2, 3, 5, 4, 3), "g": grid(2, 2, 3, 4, 3)}]
    check(text, *runs, opset=20, expected=by_onnxruntime(text, *runs, opset=20), rtol=1e-3)


def test_far_positions_read_nothing_outside(check: Check) -> None:
    """Far positions take the border. In the conformance suite, a session has address checks of its own."""
    calls = [f'GridSample<mode="bilinear", padding_mode="{padding}">(x, g)' for padding in ("zeros", "border")]
    text = each("float[n,c,h,w] x, float[n,p,q,2] g", calls, 4)
    far = np.array([[[[1e30, 1e30], [-np.inf, -np.inf]]]], np.float32)
    x = np.arange(1, 7, dtype=np.float32).reshape(1, 1, 2, 3)
    expected = [[np.zeros((1, 1, 1, 2), np.float32), np.array([[[[6, 1]]]], np.float32)]]
    check(text, {"x": x, "g": far}, opset=16, expected=expected)


@pytest.mark.parametrize("axes", [2, 3])
def test_affine_grids(check: Check, axes: int) -> None:
    calls = [f"AffineGrid<align_corners={align}>(t, s)" for align in (0, 1)]
    text = each(f"float[n,{axes},{axes + 1}] t, int64[{axes + 2}] s", calls, axes + 2)
    runs = ({"t": numbers(n, axes, axes + 1), "s": np.array([n, 3, 5, 6, 2][: axes + 2])} for n in (1, 2))
    check(text, *runs, opset=20, rtol=1e-4)


def test_aligned_regions(check: Check) -> None:
    calls = [
        f'RoiAlign<mode="{mode}", coordinate_transformation_mode="{coordinates}", sampling_ratio={ratio},'
        " output_height=3, output_width=2, spatial_scale=0.7>(x, r, i)"
        for mode, coordinates, ratio in product(("avg", "max"), ("half_pixel", "output_half_pixel"), (0, 2))
    ]
    text = each("float[n,c,h,w] x, float[r,4] r, int64[r] i", calls, 4)
    draw = np.random.default_rng(1)
    runs = []
    for count, batch in ((5, 2), (1, 1)):
        start = draw.uniform(-2, 8, (count, 2))
        boxes = np.concatenate([start, start + draw.uniform(-1, 9, (count, 2))], 1).astype(np.float32)
        runs.append({"x": numbers(batch, 3, 9, 8), "r": boxes, "i": draw.integers(0, batch, count)})
    check(text, *runs, opset=16, expected=by_onnxruntime(text, *runs, opset=16), rtol=1e-3)


def test_pooled_regions(check: Check) -> None:
    text = each("float[n,c,h,w] x, float[r,5] r", ["MaxRoiPool<pooled_shape=[3,2], spatial_scale=0.6>(x, r)"], 4)
    draw = np.random.default_rng(2)
    boxes = np.sort(draw.integers(0, 12, (4, 2, 2)), axis=1).reshape(4, 4)
    regions = np.concatenate([draw.integers(0, 2, (4, 1)), boxes], 1).astype(np.float32)
    runs = [{"x": numbers(2, 3, 9, 8), "r": regions}]
    check(text, *runs, opset=11, expected=by_onnxruntime(text, *runs, opset=11))


def test_invalid_regions_terminate_and_read_nothing_outside(check: Check) -> None:
    text = each("float[n,c,h,w] x, float[r,4] r, int64[r] i", ["RoiAlign<sampling_ratio=2>(x, r, i)"], 4)
    boxes = np.array([[np.nan, 0, 1, 1], [1e30, 0, -1e30, np.inf]], np.float32)
    feeds = {"x": np.ones((1, 1, 3, 3), np.float32), "r": boxes, "i": np.array([0, 0])}
    check(text, feeds, opset=16, expected=[[np.zeros((2, 1, 1, 1), np.float32)]])
