"""Indices out of range, on every target: constants are refused when a model is imported, other indices when it runs.
Ranges that make a check unnecessary hold for any data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import deploykit
from tests.frontends.onnx.harness import Check, by_onnxruntime, numbers, parse

OPERATORS = """(float[v,d] x, int64[a,b] gather, int64[e,d] elements, int64[f,2] tuples, int64[g,1] rows,
        int32[h] narrow, float[n,s,4] cache, float[n,t,4] update, int64[n] starts, float[q,2] angles, int64[n,s] places,
        float[n,1,s,4] image, float[r,4] regions, int64[r] images, float[1,1,2,2] pooled, int64[1,1,2,2] positions,
        int64[a,b] late, int64[d] lengths)
    => (float[] y0, float[] y1, float[] y2, float[] y3, float[] y4, float[] y5, float[] y6, float[] y7, float[] y8,
        float[] y9, float[] y10, float[] y11) {
    y0 = Gather(x, gather)  y1 = GatherElements(x, elements)  y2 = GatherND(x, tuples)
    y3 = ScatterElements(x, elements, y1)
    picked = GatherND(x, rows)  y4 = ScatterND(x, rows, picked)
    wide = Cast<to = 7>(narrow)  y5 = Gather<axis = 1>(x, wide)
    y6 = TensorScatter(cache, update, starts)
    y7 = RotaryEmbedding<num_heads = 1>(cache, angles, angles, places)
    y8 = RoiAlign(image, regions, images)
    y9 = MaxUnpool<kernel_shape = [2, 2], strides = [2, 2]>(pooled, positions)
    two = Constant<value = int64 {2}>()  twice = Mul(late, two)  half = Div(twice, two)  y10 = Gather(x, half)
    y11 = ReverseSequence<time_axis = 0, batch_axis = 1>(x, lengths) }"""

RANKS = (3, 2, 1, 2, 2, 2, 3, 3, 4, 4, 3, 2)

BAD = {
    "gather": [
        (5, "Gather 'y0': the indices 'gather' must be -5..4, found 5 at element 3"),
        (-6, "found -6"),
        (2**40, ""),
    ],
    "elements": [(5, "GatherElements 'y1': the indices 'elements' must be -5..4, found 5"), (-(2**63), str(-(2**63)))],
    "tuples": [(3, "the indices 'tuples' must be -3..2, found 3 at element 5"), (2**63 - 1, "must be -3..2")],
    "rows": [(5, "'rows' must be -5..4"), (-6, "'rows' must be -5..4")],
    "narrow": [(3, "the indices 'wide' of input 'narrow' must be -3..2"), (-(2**31), "found -2147483648")],
    "starts": [(4, "TensorScatter 'y6': the indices 'starts' must be 0..3, found 4"), (-1, "found -1")],
    "places": [(7, "RotaryEmbedding 'y7': the indices 'places' must be 0..6, found 7"), (-1, "found -1")],
    "images": [(2, "RoiAlign 'y8': the indices 'images' must be 0..1, found 2"), (-1, "found -1")],
    "late": [(5, "Gather 'y10': the indices 'half' must be -5..4, found 5"), (-6, "found -6")],
    "positions": [(16, "MaxUnpool 'y9': the indices 'positions' must be 0..15, found 16"), (-1, "found -1")],
    "lengths": [(6, "ReverseSequence 'y11': the lengths 'lengths' must be 0..5, found 6"), (-1, "found -1")],
}


def feeds() -> dict[str, np.ndarray]:
    """Indices in range, including the ends of the ranges."""
    return {
        "x": numbers(5, 3),
        "gather": np.array([[0, 4], [-5, -1]]),
        "elements": np.array([[0, -5, 4], [1, -1, 2]]),
        "tuples": np.array([[0, 2], [-5, -3], [4, 0]]),
        "rows": np.array([[3], [-5]]),
        "narrow": np.array([2, -3, 0], np.int32),
        "cache": numbers(2, 5, 4),
        "update": numbers(2, 2, 4),
        "starts": np.array([0, 3]),
        "angles": numbers(7, 2),
        "places": np.array([[0, 6, 1, 2, 3], [6, 5, 4, 3, 0]]),
        "image": numbers(2, 1, 5, 4),
        "regions": np.array([[0, 0, 2, 2], [1, 1, 3, 3]], np.float32),
        "images": np.array([0, 1]),
        "pooled": numbers(1, 1, 2, 2),
        "positions": np.array([[[[0, 2], [8, 15]]]]),
        "late": np.array([[1, -5], [4, 0]]),
        "lengths": np.array([0, 5, 2]),
    }


def with_bad(name: str, value: int) -> dict[str, np.ndarray]:
    given = feeds()
    array = given[name].copy()
    array.reshape(-1)[-1] = value
    return given | {name: array}


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    text = OPERATORS
    for output, rank in enumerate(RANKS):
        extents = ",".join(f"o{output}_{axis}" for axis in range(rank))
        text = text.replace(f"float[] y{output}", f"float[{extents}] y{output}", 1)
    return parse(text, opset=24)


DIMS = dict.fromkeys("vdabefghnstqr", (1, 20))


def test_runs_with_indices_out_of_range_are_refused(check: Check, model: onnx.ModelProto) -> None:
    expected = ReferenceEvaluator(model).run(None, feeds())
    with check.runtime.session(model, dims=DIMS) as session:
        for name, cases in BAD.items():
            for value, message in cases:
                with pytest.raises(deploykit.DataError, match=f"must be .*found {value} at element ") as raised:
                    session.run(with_bad(name, value))
                assert message in str(raised.value)
        for found, wanted in zip(session.run(feeds()).values(), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_regions_of_images_outside_the_batch_are_refused(check: Check) -> None:
    """The indices of images are floats, which are rounded towards 0."""
    text = (
        "(float[n,1,4,4] x, float[r,5] boxes) => (float[r,1,2,2] y) { y = MaxRoiPool<pooled_shape = [2, 2]>(x, boxes) }"
    )
    model = parse(text, opset=11)
    given = {"x": numbers(2, 1, 4, 4), "boxes": np.array([[-0.9, 0, 0, 3, 3], [1.9, 1, 0, 3, 2]], np.float32)}
    with check.runtime.session(model, dims={"n": (1, 4), "r": (1, 4)}) as session:
        np.testing.assert_array_equal(session.run(given)["y"], by_onnxruntime(model, given)[0][0])
        for bad, found in ((2, 2), (-1, -1), (-1e30, -1), (1e30, 2**40), (np.nan, -1)):
            given["boxes"][1, 0] = bad
            message = rf"MaxRoiPool 'y': the images of 'boxes' must be 0\.\.1, found {found} at element 1"
            with pytest.raises(deploykit.DataError, match=message):
                session.run(given)


def test_input_indices_are_checked_before_anything_is_written(model: onnx.ModelProto, tmp_path: Path) -> None:
    deploykit.build(model, dims=DIMS, output=tmp_path / "dist")
    lines = (tmp_path / "dist" / "program.txt").read_text().split("\n\n")[-1].splitlines()
    kinds = ["check" if " in " in line else "step" for line in lines if not line.startswith("check ") or " in " in line]
    assert kinds.index("step") == len(BAD) - 1, "the checks of inputs; `late` is computed"
    assert kinds.count("check") == len(BAD)


def test_constant_indices_are_checked_while_a_model_is_imported(tmp_path: Path) -> None:
    text = "(float[4,d] x) => (float[p,q] y) { i = Constant<value = int64[2] {1, %d}>() y = Gather(x, i) }"
    for index in (3, -4):
        deploykit.build(parse(text % index), output=tmp_path / "dist", stop_after="import")
    for index in (4, -5):
        with pytest.raises(deploykit.UnsupportedModelError, match=rf"index {index} is outside of -4\.\.3; at 'y'"):
            deploykit.load(parse(text % index))
    single = "(float[4,d] x) => (float[q] y) { i = Constant<value = int64 {4}>() y = Gather(x, i) }"
    with pytest.raises(deploykit.UnsupportedModelError, match="index 4 is outside"):
        deploykit.load(parse(single))
    deploykit.build(parse(text.replace("[4,d]", "[v,d]") % 4), output=tmp_path / "dist")
    with deploykit.open(tmp_path / "dist") as session:
        assert session(x=numbers(5, 1))["y"].shape == (2, 1)
        with pytest.raises(deploykit.ShapeError, match=r"y: index 4 is outside of -4\.\.3"):
            session(x=numbers(4, 1))


def test_without_checks_the_nearest_element_is_taken(tmp_path: Path) -> None:
    model = parse("(float[a,b] x, int32[c] i) => (float[p,q] y) { y = Gather(x, i) }")
    deploykit.build(model, output=tmp_path / "dist", index_checks=False)
    x = numbers(3, 2)
    with deploykit.open(tmp_path / "dist") as session:
        np.testing.assert_array_equal(session(x=x, i=np.array([7, -9], np.int32))["y"], x[[2, 0]])
    assert "check" not in (tmp_path / "dist" / "program.txt").read_text()


def test_indices_in_branches_are_checked_where_the_branch_is_taken(check: Check) -> None:
    model = parse(
        """(float[v] x, int64[c] i, bool go) => (float[c] y) {
            y = If(go)<then_branch = t () => (float[c] a) { a = Gather(x, i) },
                       else_branch = e () => (float[c] b) { b = Cast<to = 1>(i) }> }"""
    )
    with check.runtime.session(model) as session:
        given = {"x": numbers(3), "i": np.array([2, 3])}
        assert session.run(given | {"go": np.array(False)})["y"].tolist() == [2, 3]
        with pytest.raises(deploykit.DataError, match=r"'i' must be -3\.\.2, found 3"):
            session.run(given | {"go": np.array(True)})


@pytest.mark.parametrize(
    "nodes",
    [
        "i = ArgMax<axis = 0, keepdims = 0>(x) y = Gather(x, i)",
        "v, i = TopK<axis = 0>(x, k) y = GatherElements(x, i)",
        "i = Clip(ids, zero, last) y = Gather<axis = 1>(x, i)",
        "m = Mod(ids, three) i = Unsqueeze(m, first) y = Gather<axis = 1>(x, i)",
        "s = Shape(x) n = Gather(s, zero) i = Range(zero, n, one) y = Gather(x, i)",
        "f = Flatten<axis=0>(x) r = Reshape(f, minus) p = NonZero(r) i = Reshape(p, minus) y = Gather(r, i)",
    ],
)
def test_indices_known_to_be_in_range_are_not_checked(nodes: str, tmp_path: Path) -> None:
    rank = 1 if "NonZero" in nodes else 3 if "Unsqueeze" in nodes else 2
    extents = ",".join(f"p{axis}" for axis in range(rank))
    constants = "".join(
        f"{name} = Constant<value = int64 {{{value}}}>() "
        for name, value in {"zero": 0, "one": 1, "last": 2, "three": 3}.items()
    )
    vectors = "".join(
        f"{name} = Constant<value = int64[1] {{{value}}}>() "
        for name, value in {"first": 0, "k": 1, "minus": -1}.items()
    )
    model = parse(f"(float[v,3] x, int64[c] ids) => (float[{extents}] y) {{ {constants} {vectors} {nodes} }}")
    deploykit.build(model, output=tmp_path / "dist")
    assert "check " not in (tmp_path / "dist" / "program.txt").read_text()
    feed = {"x": numbers(4, 3), "ids": np.array([-7, 0, 9])}
    with deploykit.open(tmp_path / "dist") as session:
        (found,) = session.run(feed).values()
    np.testing.assert_array_equal(found, ReferenceEvaluator(model).run(None, feed)[0])
