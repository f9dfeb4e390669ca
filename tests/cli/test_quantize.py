"""`deploykit quantize`: from floats to integers, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import deploykit as dk
from bench.models import MODELS
from deploykit.checks import reference
from tests.seeded import seeded

CONVOLUTIONS = """<ir_version: 8, opset_import: ["" : 17]> net (float[b, 3, 8, 9] image) => (float[b, 5] scores) {
    a = Conv<pads = [1, 1, 1, 1]>(image, w, wb)
    b = BatchNormalization(a, scale, shift, mean, variance)
    c = Relu(b)
    d = Conv<group = 4, pads = [1, 1, 1, 1]>(c, depth)
    e = GlobalAveragePool(d)
    f = Flatten(e)
    g = Gemm(f, v, vb)
    scores = Softmax(g)
}"""
SHAPES: dict[str, tuple[int, ...]] = {
    "w": (4, 3, 3, 3), "wb": (4,), "scale": (4,), "shift": (4,), "mean": (4,), "depth": (4, 1, 3, 3), "v": (4, 5),
    "vb": (5,),
}  # fmt: skip


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    proto = seeded(CONVOLUTIONS, SHAPES)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.linspace(1, 2, 4, dtype="f"), "variance"))
    onnx.save(proto, path)
    return path


def samples(path: Path, count: int = 20, **changed: Any) -> Path:
    image = np.random.default_rng(0).standard_normal((count, 3, 8, 9))
    np.savez(path, **({"image": image} | changed))
    return path


def ran(model: Path, image: np.ndarray) -> np.ndarray:
    (result,) = reference.load(model)({onnx.load(model).graph.input[0].name: image}).values()
    return np.asarray(result)


@pytest.mark.parametrize("method", ["minmax", "percentile", "entropy"])
def test_the_model_is_quantised_and_compared(
    deploykit: Callable[..., Any], model: Path, tmp_path: Path, method: str
) -> None:
    place, given = tmp_path / "int8.onnx", samples(tmp_path / "in.npz")
    done = deploykit("quantize", model, "--calibrate", given, "-o", place, "--method", method, "--json")
    assert done.code == 0, " ".join(done.err.split())
    found = done.document
    assert (found["calibrated"], found["compared"], found["held_out"]) == (16, 4, True)
    (scores,) = found["outputs"]
    image = np.load(given)["image"].astype("float32")
    held = np.arange(20) % 5 == 4
    before, after = ran(model, image[held]), ran(place, image[held])
    assert scores["largest"] == pytest.approx(np.abs(before - after).max(), rel=1e-4)
    assert scores["same_argmax"] == (before.argmax(1) == after.argmax(1)).mean()
    assert 0.99 < scores["cosine"] < 1
    assert 0 < len(found["layers"]) <= 5
    decibels = [layer["decibels"] for layer in found["layers"]]
    assert decibels == sorted(decibels)
    proto = onnx.load(place)
    integers = [t for t in proto.graph.initializer if t.data_type == TensorProto.INT8 and len(t.dims) == 4]
    assert len(integers) == 2
    scales = {t.name: t for t in proto.graph.initializer}
    for weight in integers:
        (node,) = (n for n in proto.graph.node if weight.name in n.input)
        assert list(scales[node.input[1]].dims) == [4], "a scale for each channel"
        assert not onnx.numpy_helper.to_array(scales[node.input[2]]).any(), "symmetric"


@pytest.mark.parametrize(("target", "dtype"), [("host", "int8"), ("embedded", "int8"), ("embedded", "int16")])
def test_ends_of_integers_reach_the_artifact(
    deploykit: Callable[..., Any], model: Path, tmp_path: Path, target: str, dtype: str
) -> None:
    place, given = tmp_path / "integers.onnx", samples(tmp_path / "in.npz")
    done = deploykit("quantize", model, "--calibrate", given, "-o", place, "--activations", dtype, "--io", dtype)
    assert done.code == 0, " ".join(done.err.split())
    artifact = dk.build(place, target, {"b": (1, 7)}, tmp_path / "artifact", check=True)
    (image,), (scores,) = artifact.manifest.inputs, artifact.manifest.outputs
    assert (image.dtype, scores.dtype) == (dtype, dtype)
    assert image.quantization is not None
    assert scores.quantization is not None
    floats = np.random.default_rng(1).standard_normal((7, 3, 8, 9), np.float32)
    integers = np.rint(floats / image.quantization.scale) + image.quantization.zero_point
    ends = np.iinfo(dtype)
    with dk.open(tmp_path / "artifact") as session:
        result = session(image=np.clip(integers, ends.min, ends.max).astype(dtype))["scores"].astype(np.float64)
    numbers = (result - scores.quantization.zero_point) * scores.quantization.scale
    np.testing.assert_allclose(numbers, ran(model, floats), atol=0.05)


def test_16_bits_lose_less_than_8(deploykit: Callable[..., Any], model: Path, tmp_path: Path) -> None:
    largest = {}
    for dtype in ("int8", "int16"):
        place = tmp_path / f"{dtype}.onnx"
        given = ("--calibrate", samples(tmp_path / "in.npz"), "--activations", dtype)
        done = deploykit("quantize", model, *given, "-o", place, "--json")
        assert done.code == 0, " ".join(done.err.split())
        largest[dtype] = done.document["outputs"][0]["largest"]
        dk.build(place, "embedded", {"b": (1, 3)}, tmp_path / dtype, cpu="cortex-m4")
        assert "requantize(" in (tmp_path / dtype / "kernels.c").read_text()
    graph = onnx.load(tmp_path / "int16.onnx").graph
    (relu,) = (node for node in graph.node if node.op_type == "Relu")
    assert [node.op_type for node in graph.node if relu.input[0] in node.output] == ["Conv"]
    zeros = [onnx.numpy_helper.to_array(t) for t in graph.initializer if t.data_type == TensorProto.INT16]
    assert zeros
    assert not any(zero.any() for zero in zeros), "symmetric"
    assert largest["int16"] < largest["int8"]


@pytest.mark.slow
def test_weights_of_4_bits(deploykit: Callable[..., Any], model: Path, tmp_path: Path) -> None:
    found = {}
    for dtype in ("int8", "int4"):
        place, given = tmp_path / f"{dtype}.onnx", samples(tmp_path / "in.npz")
        done = deploykit("quantize", model, "--calibrate", given, "--weights", dtype, "-o", place, "--json")
        assert done.code == 0, " ".join(done.err.split())
        found[dtype] = done.document
        dk.build(place, "embedded", {"b": (1, 3)}, tmp_path / dtype, cpu="cortex-m4", check=True)
    assert found["int4"]["layers"]
    assert found["int4"]["outputs"][0]["cosine"] > 0.97
    assert found["int4"]["after"] < found["int8"]["after"]
    bits = {tensor.data_type for tensor in onnx.load(tmp_path / "int4.onnx").graph.initializer if len(tensor.dims) == 4}
    assert bits == {TensorProto.INT4}


def test_what_is_kept_stays_in_floats(deploykit: Callable[..., Any], model: Path, tmp_path: Path) -> None:
    place, given = tmp_path / "int8.onnx", samples(tmp_path / "in.npz")
    for name in ("Gemm", "g"):
        assert deploykit("quantize", model, "--calibrate", given, "-o", place, "--keep", name).code == 0
        proto = onnx.load(place)
        (gemm,) = (node for node in proto.graph.node if node.op_type == "Gemm")
        assert gemm.input[1] in {t.name for t in proto.graph.initializer if t.data_type == TensorProto.FLOAT}


def test_samples_in_a_folder_and_an_old_opset(deploykit: Callable[..., Any], tmp_path: Path) -> None:
    path, place, folder = tmp_path / "old.onnx", tmp_path / "int8.onnx", tmp_path / "samples"
    text = '<ir_version: 6, opset_import: ["" : 11]> old (float[2, 6] x) => (float[2, 7] y) { y = MatMul(x, w) }'
    onnx.save(seeded(text, {"w": (6, 7)}), path)
    folder.mkdir()
    for seed in (1, 2):
        np.savez(folder / f"{seed}.npz", x=np.random.default_rng(seed).standard_normal((4, 6)))
    done = deploykit("quantize", path, "--calibrate", folder, "-o", place, "--json")
    assert done.code == 0, " ".join(done.err.split())
    assert (done.document["calibrated"], done.document["held_out"]) == (4, False)
    x = np.load(folder / "1.npz")["x"][:2].astype("float32")
    np.testing.assert_allclose(ran(place, x), ran(path, x), atol=0.1)


@pytest.mark.slow
def test_nothing_else_is_written(
    deploykit: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ONNX Runtime cannot infer all symbolic shapes of this transformer, and writes what it has beside itself."""
    path, given, work = tmp_path / "minilm.onnx", tmp_path / "in.npz", tmp_path / "work"
    onnx.save(MODELS["minilm"](), path)
    names = ("input_ids", "attention_mask", "token_type_ids")
    np.savez(given, **{name: np.random.default_rng(0).integers(0, 2, (6, 16)) for name in names})
    work.mkdir()
    monkeypatch.chdir(work)
    done = deploykit("quantize", path, "--calibrate", given)
    assert done.code == 0, done.err
    assert [file.name for file in work.iterdir()] == ["int8.onnx"]


def test_tensors_of_zeros_lose_nothing(deploykit: Callable[..., Any], tmp_path: Path) -> None:
    path, given = tmp_path / "masked.onnx", tmp_path / "in.npz"
    text = """<ir_version: 8, opset_import: ["" : 17]>
        masked (float[n, s, 6] x, int64[n, s, 1] mask) => (float[n, s, 7] y) {
        m = Cast<to = 1>(mask)  bias = Sub(one, m)  a = Add(x, bias)  y = MatMul(a, w) }"""
    proto = seeded(text, {"w": (6, 7)})
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(1), "one"))
    onnx.save(proto, path)
    x = np.random.default_rng(0).standard_normal((10, 5, 6))
    np.savez(given, x=x, mask=np.ones((10, 5, 1), np.int32))
    done = deploykit("quantize", path, "--calibrate", given, "-o", tmp_path / "int8.onnx", "--json")
    assert done.code == 0, done.err
    tensors = [layer["tensor"] for layer in done.document["layers"]]
    assert "a" in tensors
    assert "bias" not in tensors


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "name": ({"picture": np.zeros((2, 3, 8, 9))}, "the model has no input 'picture'; it takes image"),
    "rank": ({"image": np.zeros((2, 72))}, "array 'image' is float64[2, 72], and the input is float32[?, 3, 8, 9]"),
    "size": ({"image": np.zeros((2, 3, 8, 8))}, "axis 3 of a sample is 8 instead of 9"),
    "dtype": ({"image": np.zeros((2, 3, 8, 9), np.int64)}, "array 'image' is of int64, and the input is float32"),
    "nan": ({"image": np.full((2, 3, 8, 9), np.nan)}, "has NaN or infinity in sample 0"),
    "overflow": ({"image": np.full((2, 3, 8, 9), 1e300)}, "has NaN or infinity in sample 0"),
    "empty": ({"image": np.zeros((0, 3, 8, 9))}, "there is no sample in"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_samples_leave_nothing(deploykit: Callable[..., Any], model: Path, tmp_path: Path, case: str) -> None:
    arrays, message = BAD[case]
    place = tmp_path / "int8.onnx"
    done = deploykit("quantize", model, "--calibrate", samples(tmp_path / "in.npz", **arrays), "-o", place)
    assert done.code == 2
    assert message in " ".join(done.err.split())
    assert not place.exists()


def test_other_wrong_use(deploykit: Callable[..., Any], model: Path, tmp_path: Path) -> None:
    given, place = samples(tmp_path / "in.npz"), tmp_path / "int8.onnx"
    np.savez(tmp_path / "none.npz", x=np.zeros(3))
    text = tmp_path / "text.npz"
    text.write_text("no archive")
    for arguments, message in {
        ("--calibrate", tmp_path / "none.npz"): "has no array 'image'",
        ("--calibrate", tmp_path / "missing.npz"): "cannot read",
        ("--calibrate", text): "is no .npz file of numbers",
        ("--calibrate", given, "--keep", "Gem"): "no node, result or operator 'Gem'",
        ("--calibrate", given, "-o", model): "it is the model itself",
        ("--calibrate", given, "--io", "int16"): "inputs and outputs are int8 or float: not int16",
        ("--calibrate", given, "-o", tmp_path / "no" / "int8.onnx"): "there is no folder",
    }.items():
        done = deploykit("quantize", model, "-o", place, *arguments)
        assert (done.code, message in " ".join(done.err.split())) == (2, True), (arguments, " ".join(done.err.split()))
        assert not place.exists()
    assert deploykit("quantize", model, "--calibrate", given, "-o", place).code == 0
    again = deploykit("quantize", place, "--calibrate", given, "-o", tmp_path / "twice.onnx")
    assert (again.code, "is quantised already" in " ".join(again.err.split())) == (2, True)
    nothing = tmp_path / "abs.onnx"
    text = (
        '<ir_version: 8, opset_import: ["" : 17]> g (float[n, 3, 8, 9] image) => (float[n, 3, m, k] y) {y = Abs(image)}'
    )
    onnx.save(onnx.parser.parse_model(text), nothing)
    done = deploykit("quantize", nothing, "--calibrate", given, "-o", tmp_path / "abs8.onnx")
    assert (done.code, "there is nothing to quantise" in " ".join(done.err.split())) == (2, True)
