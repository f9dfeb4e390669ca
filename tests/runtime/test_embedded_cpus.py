"""The CPUs that the target embedded makes C for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

import deploykit
from deploykit.compiler.schedules.integer import words
from deploykit.errors import UsageError
from deploykit.targets.base import find_target
from tests.seeded import seeded


def test_cpus_are_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"no CPU 'cortex-m9': choose one of generic, cortex-m0plus, cortex-m3, "):
        find_target("embedded").variants("cortex-m9")


def test_no_cpu_is_any_cpu() -> None:
    target = find_target("embedded")
    assert target.variants("native") == target.variants("generic")
    assert [variant.device.name for variant in target.variants("cortex-m4")] == ["float-pairs"]


class Calibration(CalibrationDataReader):
    def __init__(self, inputs: Sequence[np.ndarray]) -> None:
        self.inputs = iter([{"x": x} for x in inputs])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.inputs, None)


def quantized(folder: Path, kind: QuantType, weights: QuantType, *, per_channel: bool) -> Path:
    """A net of convolutions with channels that fill no word, strides, dilation and padding, and products."""
    text = """<ir_version: 9, opset_import: ["": 21]>
    net (float[n, 3, h, 9] x) => (float[n, 7] y) {
        a = Conv<strides=[2, 1], pads=[1, 0, 1, 2]>(x, w0, b0) b = Relu(a)
        c = Conv<group=10, pads=[2, 1, 2, 1], dilations=[2, 1]>(b, w1, b1) d = Relu(c)
        e = Conv(d, w2, b2) f = Conv<group=6, strides=[1, 2]>(e, w3, b3)
        g = ReduceMean<keepdims=0>(f, axes) i = Gemm(g, w4, b4) j = Relu(i) y = Gemm(j, w5, b5)
    }"""
    shapes = {"w0": (10, 3, 3, 3), "w1": (10, 1, 3, 3), "w2": (6, 10, 1, 1), "w3": (6, 1, 3, 1), "w4": (6, 600)}
    shapes["w5"] = (600, 7)
    biases = {name.replace("w", "b"): (shape[-1 if name in ("w4", "w5") else 0],) for name, shape in shapes.items()}
    model = seeded(text, shapes | biases)
    model.graph.initializer.append(numpy_helper.from_array(np.array([2, 3]), "axes"))
    onnx.save(model, folder / "net.onnx")
    inputs = [np.random.default_rng(i).standard_normal((2, 3, 11, 9), np.float32) for i in range(4)]
    path = folder / "int8.onnx"
    quantize_static(
        folder / "net.onnx",
        path,
        Calibration(inputs),
        quant_format=QuantFormat.QDQ,
        per_channel=per_channel,
        activation_type=kind,
        weight_type=weights,
    )
    return path


@pytest.mark.slow
@pytest.mark.sampled(part=6)
@pytest.mark.parametrize(
    ("kind", "weights", "per_channel"),
    [
        (QuantType.QInt8, QuantType.QInt8, True),
        (QuantType.QUInt8, QuantType.QInt8, False),
        (QuantType.QInt16, QuantType.QInt8, True),
        (QuantType.QInt8, QuantType.QInt4, True),
        (QuantType.QInt16, QuantType.QInt4, True),
    ],
)
def test_results_have_the_same_bits_for_all_cpus(
    kind: QuantType, weights: QuantType, per_channel: bool, tmp_path: Path
) -> None:
    """For symbolic batches and heights; 'generic' has neither these kernels nor requantisation in integers."""
    path = quantized(tmp_path, kind, weights, per_channel=per_channel)
    results: dict[str, list[np.ndarray]] = {}
    sizes = [(1, 5), (3, 8), (2, 11)]
    for cpu in ("generic", "cortex-m3", "cortex-m4", "cortex-m55", "rv32imafcv"):
        deploykit.build(path, "embedded", {"n": (1, 3), "h": (5, 11)}, tmp_path / cpu, cpu=cpu)
        with deploykit.open(tmp_path / cpu) as session:
            inputs = [np.random.default_rng(n).standard_normal((n, 3, h, 9), np.float32) * 3 for n, h in sizes]
            results[cpu] = [session(x=x)["y"] for x in inputs]
    text = {cpu: (tmp_path / cpu / "kernels.c").read_text() for cpu in results}
    wide, narrow = kind is QuantType.QInt16, weights is QuantType.QInt4
    assert ["requantize_near_tie" in text[cpu] for cpu in results] == [False, True, True, False, False]
    assert [" smlad(" in text[cpu] for cpu in results] == [False, False, True, False, False]
    own = "multiply_rows_int16(" if wide else "multiply_rows("
    assert [f" {own}" in text[cpu] for cpu in results] == [False, False, False, True, False]
    assert ["multiply_rows_int16_rvv(" in text[cpu] for cpu in results] == [False, False, False, False, wide]
    assert [" lower_half(" in text[cpu] for cpu in results] == [False, narrow, False, False, False]
    assert [f"& {words.UPPER}" in text[cpu] for cpu in results] == [False, False, narrow, False, False]
    for cpu in list(results)[1:]:
        for own, generic in zip(results[cpu], results["generic"], strict=True):
            np.testing.assert_array_equal(own, generic)


@pytest.mark.parametrize("cpu", ["cortex-m3", "cortex-m4", "rv32imafcv"])
def test_zero_points_at_run_time(cpu: str, tmp_path: Path) -> None:
    """The depth of the product, a symbolic size, is a factor of both zero points."""
    text = """<ir_version: 9, opset_import: ["": 20]>
        product (uint8[n, k] a, uint8[k, m] b, uint8 za, uint8 zb) => (int32[n, m] y) {
            y = MatMulInteger(a, b, za, zb)
        }"""
    model, dims = onnx.parser.parse_model(text), {"n": (1, 5), "k": (1, 19), "m": (1, 9)}
    deploykit.build(model, "embedded", dims, tmp_path / "dist", cpu=cpu)
    random = np.random.default_rng(0)
    with deploykit.open(tmp_path / "dist") as session:
        for n, k, m in ((1, 1, 1), (2, 7, 3), (5, 19, 9)):
            a, b = (random.integers(0, 256, shape).astype(np.uint8) for shape in ((n, k), (k, m)))
            y = session(a=a, b=b, za=np.uint8(200), zb=np.uint8(3))["y"]
            np.testing.assert_array_equal(y, (a.astype(int) - 200) @ (b.astype(int) - 3))
