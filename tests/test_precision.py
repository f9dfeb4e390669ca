"""`--precision bf16`: what a build says, what it computes on each target, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest

import deploykit
from deploykit.checks.comparison import Tolerance
from deploykit.checks.verify import mismatch
from deploykit.errors import UsageError
from tests.bench.commands import ran
from tests.runtimes import named
from tests.seeded import seeded

NET = """<ir_version: 10, opset_import: ["" : 21]> net (float[n, 3, h, w] x) => (float[n, 10] y) {
    a = Conv <strides: ints = [2, 2], pads: ints = [1, 1, 1, 1]> (x, k)
    b = Relu(a)
    c = Conv <group: int = 24, pads: ints = [1, 1, 1, 1]> (b, d)
    e = Conv(c, p)
    g = GlobalAveragePool(e)
    f = Flatten(g)
    y = MatMul(f, m)
}"""
SHAPES = {"k": (24, 3, 3, 3), "d": (24, 1, 3, 3), "p": (40, 24, 1, 1), "m": (40, 10)}


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return seeded(NET, SHAPES)


def halves(x: np.ndarray) -> np.ndarray:
    return x.astype(ml_dtypes.bfloat16).astype(np.float32)


def weights_of(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


def expected_of(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    """What products of rounded factors give, step by step in ONNX Runtime."""
    import onnxruntime

    weights = {name: value if name == "d" else halves(value) for name, value in weights_of(model).items()}
    rounds = (
        '<ir_version: 10, opset_import: ["" : 21]> net (float[n, 3, h, w] x) => (float[n, 10] y) {'
        "x16 = Cast <to: int = 16> (x) x2 = Cast <to: int = 1> (x16)"
        "a = Conv <strides: ints = [2, 2], pads: ints = [1, 1, 1, 1]> (x2, k) b = Relu(a)"
        "c = Conv <group: int = 24, pads: ints = [1, 1, 1, 1]> (b, d)"
        "c16 = Cast <to: int = 16> (c) c2 = Cast <to: int = 1> (c16) e = Conv(c2, p)"
        "g = GlobalAveragePool(e) f = Flatten(g)"
        "f16 = Cast <to: int = 16> (f) f2 = Cast <to: int = 1> (f16) y = MatMul(f2, m)}"
    )
    stepped = onnx.parser.parse_model(rounds)
    stepped.graph.initializer.extend(onnx.numpy_helper.from_array(value, name) for name, value in weights.items())
    session = onnxruntime.InferenceSession(stepped.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def inputs(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def compare(session: deploykit.Session, model: onnx.ModelProto) -> None:
    for size in ((1, 3, 1, 1), (2, 3, 17, 9), (3, 3, 8, 32)):
        x = inputs(*size)
        found, expected = session.run({"x": x})["y"], expected_of(model, x)
        # A factor close to the border between two numbers of 16 bits may round either way.
        np.testing.assert_allclose(found, expected, atol=2e-3 * np.abs(expected).max())


@pytest.mark.parametrize("cpu", ["native", "x86-64-v2", "x86-64-v3", "portable", "x86-64-amx,x86-64-v3"])
def test_results_are_those_of_rounded_factors(model: onnx.ModelProto, cpu: str, tmp_path: Path) -> None:
    deploykit.build(model, output=tmp_path / "dist", cpu=cpu, precision="bf16")
    with deploykit.open(tmp_path / "dist") as session:
        compare(session, model)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["arm64", "android", "android-arm32", "wasm"])
def test_other_targets_have_the_same(model: onnx.ModelProto, name: str) -> None:
    runtime = named(name)
    if runtime.missing:
        pytest.skip(str(runtime.missing))
    with runtime.session(model, precision="bf16") as session:
        compare(session, model)


def test_gpus_stay_in_float32(model: onnx.ModelProto, tmp_path: Path) -> None:
    artifact = deploykit.build(model, output=tmp_path / "dist", devices=("opencl",), precision="bf16")
    assert artifact is not None
    assert "on gpu, 0 of 3 products and convolutions are in bf16; others stay in float32" in " ".join(
        artifact.manifest.notes
    )


def test_what_a_build_says(model: onnx.ModelProto, tmp_path: Path) -> None:
    artifact = deploykit.build(model, output=tmp_path / "dist", precision="bf16")
    assert artifact is not None
    assert artifact.manifest.precision == "bf16"
    assert "bf16" in artifact.manifest.machine
    notes = " ".join(artifact.manifest.notes)
    assert "on native, 3 of 3 products and convolutions are in bf16" in notes
    assert "results for random inputs change: y by 0." in notes


def test_a_model_without_products_of_floats_is_told(tmp_path: Path) -> None:
    net = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> net (float[n] x) => (float[n] y) { y = Exp(x) }'
    )
    artifact = deploykit.build(net, output=tmp_path / "dist", precision="bf16")
    assert artifact is not None
    assert "on native, nothing is in bf16: there is no product or convolution of float32" in artifact.manifest.notes


def test_weights_take_half_of_the_bytes(tmp_path: Path) -> None:
    text = '<ir_version: 10, opset_import: ["" : 21]> net (float[n, 256] x) => (float[n, 512] y) { y = MatMul(x, w) }'
    model = seeded(text, {"w": (256, 512)})
    sizes = []
    for precision in ("float32", "bf16"):
        artifact = deploykit.build(model, output=tmp_path / precision, precision=precision)  # type: ignore[arg-type]
        assert artifact is not None
        sizes.append(artifact.manifest.peak_memory.weights)
    assert sizes == [256 * 512 * 4, 256 * 512 * 2]


def test_the_command(model: onnx.ModelProto, tmp_path: Path) -> None:
    onnx.save(model, tmp_path / "net.onnx")
    call = ["build", tmp_path / "net.onnx", "-o", tmp_path / "dist", "--precision", "bf16"]
    assert "are in bf16" in ran("deploykit", *call).stderr
    assert json.loads((tmp_path / "dist" / "manifest.json").read_text())["precision"] == "bf16"


def test_a_target_without_it_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="target embedded has no bf16: build without --precision"):
        deploykit.build(tmp_path / "missing.onnx", "embedded", output=tmp_path / "dist", precision="bf16")


def test_it_cannot_be_checked_as_float32(model: onnx.ModelProto, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="differ by more than rounding"):
        deploykit.build(model, output=tmp_path / "dist", precision="bf16", check=True)
    assert not (tmp_path / "dist").exists()


def test_the_change_of_a_stream_is_measured_over_several_runs(tmp_path: Path) -> None:
    """The first runs of a window have no results, and a run takes a multiple of the hop."""
    net = seeded(
        """<ir_version: 10, opset_import: ["" : 21]> net (float[n, 3, 20] x) => (float[n, 4] y) {
            a = Conv <strides: ints = [2]> (x, k)
            g = GlobalAveragePool(a)
            f = Flatten(g)
            y = MatMul(f, m)
        }""",
        {"k": (16, 3, 4), "m": (16, 4)},
    )
    onnx.save(net, tmp_path / "net.onnx")
    for frames in (2, (2, 12)):
        dims = {"n": (1, 2), "frames": frames}
        artifact = deploykit.build(
            tmp_path / "net.onnx", dims=dims, output=tmp_path / "dist", precision="bf16", stream="x:2"
        )
        assert artifact is not None
        assert "results for random inputs change: y by 0." in artifact.manifest.notes[-1]
    report = deploykit.verify(tmp_path / "dist", tmp_path / "net.onnx")
    assert report.wrong
    assert f"Its build has said: {artifact.manifest.notes[-1]}. --rtol and --atol tell" in mismatch(report)
    assert deploykit.verify(tmp_path / "dist", tmp_path / "net.onnx", tolerance=Tolerance(0.02, 0.02)).within


def test_pools_whose_results_are_rounded(tmp_path: Path) -> None:
    """The channels of the pooled tensor are several vectors, and nothing but a convolution reads it."""
    text = """<ir_version: 10, opset_import: ["" : 21]> net (float[n, 3, h, w] x) => (float[n, 8, H, W] y) {
        a = Conv(x, k)
        b = MaxPool <kernel_shape: ints = [2, 2], strides: ints = [2, 2]> (a)
        y = Conv(b, m)
    }"""
    model = seeded(text, {"k": (128, 3, 1, 1), "m": (8, 128, 1, 1)})
    deploykit.build(model, output=tmp_path / "dist", precision="bf16", check=False)
    x, weights = inputs(2, 3, 7, 18), weights_of(model)
    a = np.einsum("nchw,oc->nohw", halves(x), halves(weights["k"])[:, :, 0, 0])
    pooled = a[:, :, :6].reshape(2, 128, 3, 2, 9, 2).max((3, 5))
    expected = np.einsum("nchw,oc->nohw", halves(pooled), halves(weights["m"])[:, :, 0, 0])
    with deploykit.open(tmp_path / "dist") as session:
        np.testing.assert_allclose(session.run({"x": x})["y"], expected, atol=4e-3 * np.abs(expected).max())


def test_the_change_is_measured_where_small_sizes_are_refused(tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]> net (float[n, 3, h, w] x) => (float[n, 8, H, W] y) {
        a = MaxPool <kernel_shape: ints = [40, 40], strides: ints = [4, 4]> (x)
        y = Conv(a, k)
    }"""
    artifact = deploykit.build(seeded(text, {"k": (8, 3, 1, 1)}), output=tmp_path / "dist", precision="bf16")
    assert artifact is not None
    assert "results for random inputs change: y by 0." in artifact.manifest.notes[-1]


def test_tiles_are_asked_for_by_models_that_use_them(model: onnx.ModelProto, tmp_path: Path) -> None:
    for precision in ("float32", "bf16"):
        folder = tmp_path / precision
        deploykit.build(model, output=folder, cpu="x86-64-amx", precision=precision, check=False)
        level = (folder / "model.c").read_text().partition('{"x86-64-amx",')[2].partition("}")[0]
        assert "DK_CPU_AVX512BF16" in level
        assert ("DK_CPU_AMX_TILE" in level) == (precision == "bf16")


HEADS = """<ir_version: 10, opset_import: ["" : 21]>
net (float[n, 40] x) => (float[n, 10] box, float[n, 10] "class/1") {
    first = MatMul(x, a)
    b = Relu(first)
    box = Gemm(b, c, d)
    scores = Gemm(b, e, d)
    "class/1" = Softmax(scores)
}"""


@pytest.mark.parametrize(
    ("keep", "rounded"),
    [
        (["box"], ("first", "scores")),
        (["class/1"], ("first", "box")),
        (["first", "s*"], ("box",)),
        (["?o[x]"], ("first", "scores")),
    ],
)
def test_what_is_kept_stays_in_float32(keep: list[str], rounded: tuple[str, ...], tmp_path: Path) -> None:
    shapes = {"a": (40, 30), "c": (30, 10), "d": (10,), "e": (30, 10)}
    model = seeded(HEADS, shapes)
    artifact = deploykit.build(model, output=tmp_path / "dist", precision="bf16", keep=keep)
    assert artifact is not None
    said = f"{len(rounded)} of 3 products and convolutions are in bf16; others stay in float32: --keep names it"
    assert said in artifact.manifest.notes[0]
    w = weights_of(model)

    def product(name: str, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return halves(left) @ halves(right) if name in rounded else left @ right

    for rows in (1, 7, 64):
        x = inputs(rows, 40)
        b = np.maximum(product("first", x, w["a"]), 0)
        box, scores = (product(name, b, w[weight]) + w["d"] for name, weight in (("box", "c"), ("scores", "e")))
        powers = np.exp(scores - scores.max(1, keepdims=True))
        with deploykit.open(tmp_path / "dist") as session:
            found = session.run({"x": x})
        close = {"atol": 1e-5 if "first" not in rounded else 2e-3 * np.abs(box).max()}
        np.testing.assert_allclose(found["box"], box, **close)
        np.testing.assert_allclose(found["class/1"], powers / powers.sum(1, keepdims=True), **close)


def test_joined_products_and_attention_keep_what_is_named(tmp_path: Path) -> None:
    """Without it, the three products are one, and attention rounds on CPUs with AMX."""
    text = """<ir_version: 10, opset_import: ["" : 21]> net (float[n, 64] x) => (float[n, 64] y) {
        q = MatMul(x, a)
        k = MatMul(x, b)
        v = MatMul(x, c)
        t = Transpose <perm: ints = [1, 0]> (k)
        s = MatMul(q, t)
        p = Softmax(s)
        y = MatMul(p, v)
    }"""
    model = seeded(text, dict.fromkeys("abc", (64, 64)))
    w, x = weights_of(model), inputs(37, 64)
    artifact = deploykit.build(
        model, output=tmp_path / "dist", cpu="x86-64-amx,x86-64-v3", precision="bf16", keep=["k", "s"]
    )
    assert artifact is not None
    assert "1 of 2 products and convolutions are in bf16; others stay in float32: --keep names it" in (
        " ".join(artifact.manifest.notes)
    )
    scores = (halves(x) @ halves(w["a"])) @ (x @ w["b"]).T
    powers = np.exp(scores - scores.max(1, keepdims=True))
    expected = powers / powers.sum(1, keepdims=True) @ (halves(x) @ halves(w["c"]))
    with deploykit.open(tmp_path / "dist") as session:
        np.testing.assert_allclose(session.run({"x": x})["y"], expected, atol=1e-4 * np.abs(expected).max())


def test_names_of_nothing_are_refused(model: onnx.ModelProto, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no product or convolution is called 'head'; there are a, c, e, y$"):
        deploykit.build(model, output=tmp_path / "dist", precision="bf16", keep=["e", "head"])
    with pytest.raises(UsageError, match="--keep says what stays in float32 with --precision bf16"):
        deploykit.build(model, output=tmp_path / "dist", keep=["e"])
    with pytest.raises(UsageError, match="keep takes a list of names, found 'e'"):
        deploykit.build(model, output=tmp_path / "dist", precision="bf16", keep="e")
    assert not (tmp_path / "dist").exists()


def test_the_command_takes_several_names(model: onnx.ModelProto, tmp_path: Path) -> None:
    onnx.save(model, tmp_path / "net.onnx")
    call = [
        "build",
        tmp_path / "net.onnx",
        "-o",
        tmp_path / "dist",
        "--precision",
        "bf16",
        "--keep",
        "a",
        "--keep",
        "y",
    ]
    assert "on native, 1 of 3 products and convolutions are in bf16" in ran("deploykit", *call).stderr
