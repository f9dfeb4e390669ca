"""Resize over symbolic sizes: every mode and coordinate transformation; constant, symbolic and runtime scales and
sizes."""

from __future__ import annotations

import numpy as np
import pytest

import deploykit
from tests.frontends.onnx.harness import Check, numbers, parse

MODES = ("nearest", "linear", "cubic")
COORDINATES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")


@pytest.mark.parametrize("coordinates", COORDINATES)
def test_constant_scales(check: Check, coordinates: str) -> None:
    """The factors enlarge and reduce, and are not whole numbers."""
    nodes = " ".join(
        f"""{mode} = Resize<mode = "{mode}", coordinate_transformation_mode = "{coordinates}">(x, , scales)"""
        for mode in MODES
    )
    outputs = ", ".join(f"float[a,b,c{m},d{m}] {m}" for m in MODES)
    text = f"(float[a,b,h,w] x) => ({outputs}) {{ scales = Constant<value_floats = [1.0, 1.0, 1.5, 0.75]>() {nodes} }}"
    check(text, {"x": numbers(1, 2, 4, 4)}, {"x": numbers(2, 1, 6, 8)}, rtol=1e-4)


@pytest.mark.parametrize("nearest", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
def test_nearest_rules(check: Check, nearest: str) -> None:
    text = f"""(float[a,h] x) => (float[b,c] y, float[d,e] z) {{
        s = Constant<value_floats = [1.0, 2.0]>()
        y = Resize<coordinate_transformation_mode = "asymmetric", nearest_mode = "{nearest}">(x, , s)
        n = Constant<value_ints = [2, 5]>()  z = Resize<nearest_mode = "{nearest}">(x, , , n) }}"""
    check(text, {"x": numbers(2, 3)}, {"x": numbers(2, 10)}, {"x": numbers(2, 1)})


def test_doubling_repeats_without_tables(check: Check) -> None:
    text = """(float[n,c,h,w] x) => (float[a,b,d,e] y, float[f,g,i,j] z) {
        s = Constant<value_floats = [1.0, 1.0, 2.0, 2.0]>()
        y = Resize<coordinate_transformation_mode = "asymmetric", nearest_mode = "floor">(x, , s)
        size = Shape(x)  k = Constant<value_ints = [1, 1, 3, 1]>()  n = Mul(size, k)  z = Resize(x, , , n) }"""
    assert sorted(g.name_hint for g in deploykit.load(parse(text)).module.functions) == ["main", "repeat", "repeat1"]
    check(text, {"x": numbers(1, 2, 3, 2)}, {"x": numbers(2, 1, 1, 1)})


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_antialias(check: Check, mode: str) -> None:
    """The window's width depends on the factor, which is constant, a quotient of sizes, or known only at run time."""
    text = f"""(float[a,h] x, int64[2] n, float[2] s) => (float[b,c] y, float[d,e] z, float[f,g] v) {{
        k = Constant<value_floats = [1.0, 0.4]>()
        y = Resize<mode = "{mode}", antialias = 1, exclude_outside = 1>(x, , k)
        z = Resize<mode = "{mode}", antialias = 1>(x, , , n)
        v = Resize<mode = "{mode}", antialias = 1>(x, , s) }}"""
    check(
        text,
        {"x": numbers(2, 10), "n": np.array([2, 3]), "s": np.float32([0.5, 0.3])},
        {"x": numbers(3, 5), "n": np.array([1, 7]), "s": np.float32([1, 2])},
        rtol=1e-4,
    )


def test_runtime_scales_and_sizes(check: Check) -> None:
    text = """(float[a,h] x, float[2] s, int64[1] n) => (float[b,c] y, float[d,e] z) {
        y = Resize<mode = "linear">(x, , s)
        z = Resize<mode = "cubic", axes = [1], exclude_outside = 1, cubic_coeff_a = -0.5>(x, , , n) }"""
    check(
        text,
        {"x": numbers(2, 4), "s": np.float32([1.5, 2.25]), "n": np.array([7])},
        {"x": numbers(4, 1), "s": np.float32([0.5, 1]), "n": np.array([1])},
        rtol=1e-4,
    )


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_aspect_ratio_is_kept(check: Check, policy: str) -> None:
    text = f"""(float[h,w] x, int64[2] n) => (float[a,b] y, float[c,d] z) {{
        y = Resize<keep_aspect_ratio_policy = "{policy}">(x, , , n)
        k = Constant<value_ints = [6, 6]>()  z = Resize<keep_aspect_ratio_policy = "{policy}">(x, , , k) }}"""
    check(text, {"x": numbers(2, 4), "n": np.array([7, 8])}, {"x": numbers(3, 3), "n": np.array([1, 5])})


def test_crop_and_resize(check: Check) -> None:
    text = """(float[h,w] x, float[4] roi) => (float[a,b] y, float[c,d] z) {
        n = Constant<value_ints = [3, 4]>()
        y = Resize<mode = "linear", coordinate_transformation_mode = "tf_crop_and_resize",
            extrapolation_value = 9.0>(x, roi, , n)
        z = Resize<coordinate_transformation_mode = "tf_crop_and_resize", extrapolation_value = 9.0>(x, roi, , n) }"""
    check(
        text,
        {"x": numbers(4, 5), "roi": np.float32([0.2, 0.1, 0.9, 0.8])},
        {"x": numbers(3, 2), "roi": np.float32([-0.5, 0, 1.3, 1])},
        rtol=1e-4,
    )


def test_integers_round_and_saturate(check: Check) -> None:
    x = np.array([[0, 255, 0, 255, 128]], np.uint8)
    text = (
        '(uint8[a,h] x) => (uint8[b,c] y) { n = Constant<value_ints = [1, 9]>() y = Resize<mode = "cubic">(x, , , n) }'
    )
    check(text, {"x": x}, {"x": x[:, :2].copy()}, rtol=1)


def test_older_opsets(check: Check) -> None:
    text = "(float[a,b,h,w] x, float[4] s) => (float[p,q,r,t] y) { y = Upsample(x, s) }"
    check(text, {"x": numbers(1, 1, 2, 3), "s": np.float32([1, 1, 2, 3])}, opset=9)
    text = """(float[a,b,h,w] x) => (float[p,q,r,t] y) {
        s = Constant<value = float[4] {1.0, 1.0, 1.0, 0.5}>()  y = Resize(x, s) }"""
    x = numbers(1, 1, 1, 6)
    check(text, {"x": x}, expected=[[x[..., [0, 2, 4]]]], opset=10)
