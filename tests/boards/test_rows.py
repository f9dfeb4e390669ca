"""Kernels that call functions on rows, for Helium and for vectors of RISC-V: the bits of their assembly on emulated
cores, next to those of the same functions in plain C and of kernels for any CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import which

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnxruntime import InferenceSession
from onnxruntime.quantization import QuantType

import deploykit
from deploykit.targets.embedded.boards import find_board
from deploykit.targets.embedded.boards.image import PICOLIBC, compiler_for, missing
from tests.compiler.program.nets import mobile_net
from tests.compiler.program.nets import quantized as in_integers
from tests.compiler.program.test_strips import given
from tests.runtime.test_embedded_cpus import quantized
from tests.seeded import seeded

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Vectors:
    """Vectors of the core of a board. `integers` are instructions for products of 8-bit integers, and `floats` are
    functions for floats. An emulated core of RISC-V may have vectors of `bits`."""

    board: str
    integers: tuple[str, ...]
    floats: tuple[str, ...]
    bits: int = 128

    @property
    def ways(self) -> dict[str, dict[str, str]]:
        """Builds: of kernels for any CPU, of those for the vectors in plain C, and of those on a core that has them."""
        core = find_board(self.board).core.name
        return {"generic": {"cpu": "generic"}, "plain": {"cpu": core}, "emulated": {"board": self.board}}


HELIUM = Vectors(
    "mps3-an547", ("vmladava.s8", "vmullb.s16"), ("multiply_outputs", "multiply_taps_float", "at_least_f32x4")
)
RVV = Vectors(
    "riscv32-virt-v",
    ("vwmacc.vx", "vwmacc.vv"),
    ("multiply_outputs_rvv", "multiply_taps_float_rvv", "at_least_f32_same_rvv"),
)


@pytest.fixture(params=[HELIUM, RVV, replace(RVV, bits=256)], ids=["helium", "rvv", "rvv-256"])
def vectors(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Vectors:
    """Vectors whose core is emulated here. Those of another length are an option of the emulator."""
    found: Vectors = request.param
    board = find_board(found.board)
    if reason := missing(board):
        pytest.skip(reason)
    if found.bits != RVV.bits and board.core.emulator is not None:
        program = board.core.emulator.program
        wrapper = tmp_path / "bin" / program
        wrapper.parent.mkdir()
        longer = f'"${{@/vlen={RVV.bits}/vlen={found.bits}}}"'
        wrapper.write_text(f"#!/bin/bash\nexec {which(program)} {longer}\n")
        wrapper.chmod(0o755)
        monkeypatch.setenv("PATH", str(wrapper.parent), prepend=":")
    return found


CHANNELS = (1, 3, 16, 17, 31, 64, 70)


def quantised(nodes: Sequence[str], inputs: str, outputs: str, weights: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    """A model of integers. The scales `s` and zero points `z` are those of activations, `t` that of weights."""
    text = f"""<ir_version: 9, opset_import: ["": 20]>
        quantised ({inputs}) => ({outputs}) <
            float s = {{0.021}}, float t = {{0.0093}}, float big = {{0.7}}, int8 zero = {{0}}, int8 zi = {{-7}},
            int8 zo = {{5}}, uint8 zu = {{131}}, uint8 zv = {{17}}
        > {{ {" ".join(nodes)} }}"""
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    return model


def limit(dtype: str) -> int:
    """The size of right factors whose products with left ones of `dtype` ONNX Runtime adds exactly on every CPU."""
    return 64 if dtype == "uint8" else 127


def weight(dtype: str, *shape: int) -> np.ndarray:
    """Right factors of left ones of `dtype`."""
    most = limit(dtype)
    return np.random.default_rng(sum(shape)).integers(-most, most + 1, shape).astype(np.int8)


def scales(channels: int) -> np.ndarray:
    return np.random.default_rng(channels).uniform(0.002, 0.02, channels).astype(np.float32)


def bias(channels: int) -> np.ndarray:
    return np.random.default_rng(channels).integers(-9000, 9000, channels).astype(np.int32)


def compare(
    vectors: Vectors,
    model: onnx.ModelProto,
    dims: Mapping[str, tuple[int, int]],
    sizes: Sequence[Mapping[str, int]],
    to: Path,
) -> None:
    """The bits of all outputs at all sizes, on the emulated core, in plain C and of a build for any CPU; and whether
    ONNX Runtime is at most one step away, which rounds biases."""
    sessions = {}
    for name, options in vectors.ways.items():
        deploykit.build(model, "embedded", dims, to / name, check=False, **options)
        sessions[name] = deploykit.open(to / name)
    text = (to / "emulated" / "kernels.c").read_text()
    assert any(instruction in text for instruction in vectors.integers)
    reference = InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for number, size in enumerate(sizes):
        random = np.random.default_rng(number)
        given = {}
        for port in model.graph.input:
            shape = [size[d.dim_param] if d.dim_param else d.dim_value for d in port.type.tensor_type.shape.dim]
            dtype = onnx.helper.tensor_dtype_to_np_dtype(port.type.tensor_type.elem_type)
            most = limit("uint8") if port.name == "w" else np.iinfo(dtype).max
            given[port.name] = random.integers(max(np.iinfo(dtype).min, -most - 1), most + 1, shape).astype(dtype)
        found = {name: session(**given) for name, session in sessions.items()}
        expected = dict(zip((port.name for port in model.graph.output), reference.run(None, given), strict=True))
        for output, values in expected.items():
            for name in ("plain", "emulated"):
                np.testing.assert_array_equal(found[name][output], found["generic"][output], f"{output} {name} {size}")
            steps = np.abs(found["emulated"][output].astype(int) - values.astype(int)).max(initial=0)
            assert steps <= (1 if values.dtype.itemsize == 1 else 0), (output, size)
    for session in sessions.values():
        session.close()


@pytest.mark.parametrize("sign", ["int8", "uint8"])
def test_products(vectors: Vectors, sign: str, tmp_path: Path) -> None:
    """Of any number of rows with depths that fill vectors, do not, and are copied in parts; with one scale and many."""
    depths = ((1, 2), (15, 5), (16, 4), (33, 9), (64, 70), (1100, 3))
    zero, to = ("zi", "zo") if sign == "int8" else ("zu", "zv")
    nodes, weights = [], {}
    for depth, columns in depths:
        weights |= {f"w{depth}": weight(sign, depth, columns), f"v{depth}": scales(columns)}
        weights[f"q{depth}"] = np.zeros(columns, np.int8)
        nodes += [
            f"y{depth} = QLinearMatMul(x{depth}, s, {zero}, w{depth}, t, zero, big, {to})",
            f"p{depth} = QLinearMatMul(x{depth}, s, {zero}, w{depth}, v{depth}, q{depth}, big, {to})",
            f"i{depth} = MatMulInteger(x{depth}, w{depth}, {zero}, zero)",
        ]
    inputs = ", ".join(f"{sign}[n, {depth}] x{depth}" for depth, _ in depths)
    outputs = ", ".join(
        f"{kind}[n, {columns}] {name}{depth}"
        for depth, columns in depths
        for kind, name in ((sign, "y"), (sign, "p"), ("int32", "i"))
    )
    model = quantised(nodes, inputs, outputs, weights)
    compare(vectors, model, {"n": (1, 5)}, [{"n": n} for n in (1, 2, 5)], tmp_path)


@pytest.mark.parametrize("sign", ["int8", "uint8"])
def test_products_of_two_inputs(vectors: Vectors, sign: str, tmp_path: Path) -> None:
    """Of symbolic depth and columns, in batches, of which the right one is packed in a run."""
    zero = "zi" if sign == "int8" else "zu"
    inputs, outputs = f"{sign}[n, m, k] x, int8[n, k, c] w, {sign}[m, k] u", "int32[n, m, c] y, int32[n, m, c] v"
    nodes = [f"y = MatMulInteger(x, w, {zero}, zero)", f"v = MatMulInteger(u, w, {zero}, zero)"]
    dims = {"n": (1, 2), "m": (1, 5), "k": (1, 1100), "c": (1, 9)}
    sizes = [{"n": 1, "m": 1, "k": 1, "c": 1}, {"n": 2, "m": 5, "k": 1100, "c": 9}, {"n": 2, "m": 4, "k": 15, "c": 6}]
    compare(vectors, quantised(nodes, inputs, outputs, {}), dims, sizes, tmp_path)


@pytest.mark.parametrize("sign", ["int8", "uint8"])
def test_convolutions(vectors: Vectors, sign: str, tmp_path: Path) -> None:
    """With channels that fill vectors and do not, strides, dilation and padding."""
    zero, to = ("zi", "zo") if sign == "int8" else ("zu", "zv")
    forms = (
        ("3, 3", "pads=[1, 1, 1, 1]"),
        ("3, 2", "strides=[2, 1], pads=[0, 1, 2, 0]"),
        ("1, 1", "strides=[1, 2]"),
        ("2, 3", "dilations=[2, 2], pads=[2, 2, 2, 2]"),
        ("1, 3", "pads=[0, 1, 0, 1]"),
    )
    nodes, weights, outputs = [], {}, []
    for index, channels in enumerate(CHANNELS):
        kernel, attributes = forms[index % len(forms)]
        columns = CHANNELS[-1 - index]
        weights |= {
            f"w{channels}": weight(sign, columns, channels, *map(int, kernel.split(", "))),
            f"t{channels}": scales(columns),
            f"z{channels}": np.zeros(columns, np.int8),
            f"b{channels}": bias(columns),
        }
        rest = f"t{channels}, z{channels}" if index % 2 else "t, zero"
        operands = f"x{channels}, s, {zero}, w{channels}, {rest}, big, {to}, b{channels}"
        nodes.append(f"y{channels} = QLinearConv<{attributes}>({operands})")
        outputs.append(f"{sign}[n, {columns}, a{channels}, c{channels}] y{channels}")
    inputs = ", ".join(f"{sign}[n, {channels}, h, w] x{channels}" for channels in CHANNELS)
    model = quantised(nodes, inputs, ", ".join(outputs), weights)
    dims = {"n": (1, 2), "h": (3, 7), "w": (3, 6)}
    compare(
        vectors, model, dims, [{"n": 1, "h": 3, "w": 3}, {"n": 2, "h": 7, "w": 6}, {"n": 1, "h": 4, "w": 5}], tmp_path
    )


@pytest.mark.parametrize("sign", ["int8", "uint8"])
def test_depthwise_convolutions(vectors: Vectors, sign: str, tmp_path: Path) -> None:
    """With channels that fill vectors and do not, over one and two axes, with strides, dilation and padding."""
    zero, to = ("zi", "zo") if sign == "int8" else ("zu", "zv")
    forms = ("pads=[1, 1, 1, 1]", "strides=[2, 1], pads=[0, 1, 2, 0]", "", "dilations=[2, 2], pads=[2, 2, 2, 2]")
    nodes, weights, outputs = [], {}, []
    channels_of = (3, 16, 31, 130)
    for index, channels in enumerate(channels_of):
        kernel = (3, 2) if index % 3 == 1 else (3, 3)
        weights |= {
            f"w{channels}": weight(sign, channels, 1, *kernel),
            f"t{channels}": scales(channels),
            f"z{channels}": np.zeros(channels, np.int8),
            f"b{channels}": bias(channels),
        }
        rest = f"t{channels}, z{channels}" if index % 2 else "t, zero"
        operands = f"x{channels}, s, {zero}, w{channels}, {rest}, big, {to}, b{channels}"
        attributes = ", ".join(part for part in (f"group={channels}", forms[index % len(forms)]) if part)
        nodes.append(f"y{channels} = QLinearConv<{attributes}>({operands})")
        outputs.append(f"{sign}[n, {channels}, a{channels}, c{channels}] y{channels}")
    weights["w1d"] = weight(sign, 17, 1, 5)
    nodes.append(f"y1d = QLinearConv<group=17, pads=[2, 2]>(x1d, s, {zero}, w1d, t, zero, big, {to})")
    outputs.append(f"{sign}[n, 17, w] y1d")
    inputs = ", ".join(f"{sign}[n, {channels}, h, w] x{channels}" for channels in channels_of)
    model = quantised(nodes, f"{inputs}, {sign}[n, 17, w] x1d", ", ".join(outputs), weights)
    dims = {"n": (1, 2), "h": (3, 7), "w": (3, 6)}
    compare(
        vectors, model, dims, [{"n": 1, "h": 3, "w": 3}, {"n": 2, "h": 7, "w": 6}, {"n": 1, "h": 4, "w": 5}], tmp_path
    )


@pytest.mark.sampled(part=3)
@pytest.mark.parametrize(
    ("kind", "per_channel"),
    [(QuantType.QInt8, True), (QuantType.QUInt8, False), (QuantType.QInt16, True), (QuantType.QInt16, False)],
)
def test_nets(vectors: Vectors, kind: QuantType, per_channel: bool, tmp_path: Path) -> None:
    """Sums that are requantised, for all channels alike and for each."""
    path = quantized(tmp_path, kind, QuantType.QInt8, per_channel=per_channel)
    found = []
    for name in ("generic", "emulated"):
        deploykit.build(path, "embedded", {"n": (1, 3), "h": (5, 11)}, tmp_path / name, **vectors.ways[name])
        with deploykit.open(tmp_path / name) as session:
            inputs = [np.random.default_rng(n).standard_normal((n, 3, h, 9), np.float32) for n, h in ((1, 5), (3, 8))]
            found.append([session(x=x)["y"] for x in inputs])
    assert "requantize_rows" in (tmp_path / "emulated" / "kernels.c").read_text()
    for emulated, generic in zip(found[1], found[0], strict=True):
        np.testing.assert_array_equal(emulated, generic)


def test_floats(vectors: Vectors, tmp_path: Path) -> None:
    """Convolutions and products with sizes that fill vectors and do not, of numbers and of what is none."""
    text = """<ir_version: 9, opset_import: ["": 20]>
        floats (float[n, 3, h, 7] x, float[n, 40] u) => (
            float[n, 20, a, 7] c, float[n, 20, b, 4] e, float[n, 9, a, 7] g, float[n, 40] r, float[n, 10] v
        ) {
            c0 = Conv<pads=[1, 1, 1, 1]>(x, w0, b0) c = Relu(c0)
            e0 = Conv<group=20, pads=[2, 1, 2, 1], strides=[1, 2]>(c, w1, b1) e = Relu(e0)
            g = Conv(c, w2) r0 = MatMul(u, w3) r1 = Add(r0, u) r = Relu(r1) v = MatMul(r, w4)
        }"""
    shapes = {"w0": (20, 3, 3, 3), "w1": (20, 1, 5, 3), "w2": (9, 20, 1, 1), "w3": (40, 40), "w4": (40, 10)}
    model = seeded(text, shapes | {"b0": (20,), "b1": (20,)})
    dims = {"n": (1, 4), "h": (1, 5)}
    sessions = []
    for name, options in vectors.ways.items():
        deploykit.build(model, "embedded", dims, tmp_path / name, **options)
        sessions.append(deploykit.open(tmp_path / name))
    text = (tmp_path / "emulated" / "kernels.c").read_text()
    assert all(name in text for name in vectors.floats)
    for n, h in ((1, 1), (3, 5), (4, 2)):
        random = np.random.default_rng(n)
        x, u = (random.standard_normal(shape, np.float32) for shape in ((n, 3, h, 7), (n, 40)))
        x[0, 0, 0, 5:], u[-1, -1] = (np.inf, -np.inf), np.nan
        generic, *others = [session(x=x, u=u) for session in sessions]
        assert all(np.isnan(generic[name]).any() for name in ("c", "r"))
        for found in others:
            for output, values in generic.items():
                np.testing.assert_allclose(found[output], values, rtol=1e-5, atol=1e-5, err_msg=output)
    for session in sessions:
        session.close()


@pytest.mark.parametrize("dtype", ["float", "int8"])
def test_assembly_has_registers_at_any_level(vectors: Vectors, dtype: str, tmp_path: Path) -> None:
    """Compilers take registers for other things, at some levels and for some options more."""
    net = mobile_net(1)
    model = net if dtype == "float" else in_integers(net, [given(net, 1)] * 2)
    deploykit.build(model, "embedded", output=tmp_path / "dist", board=vectors.board)
    compiler = compiler_for(find_board(vectors.board).core)
    for level in ("-O1", "-O2", "-O3", "-Os", "-Og"):
        for options in ((), ("-fno-omit-frame-pointer",), ("-fstack-protector-all",), ("-fno-tree-ch",)):
            chosen = (*PICOLIBC, level, *options, f"-I{tmp_path / 'dist'}")
            compiler.compile(tmp_path / "dist" / "kernels.c", tmp_path / "kernels.o", *chosen)


def test_weights_of_16_bits(vectors: Vectors, tmp_path: Path) -> None:
    """Also with numbers below the normal ones, and with what is none."""
    text = """<ir_version: 9, opset_import: ["": 20]>
        halves (float[n, 40] x) => (float[n, 40] y, float[n, 24] z) {
            y0 = MatMul(x, w0) y = Relu(y0) z = MatMul(y, w1)
        }"""
    model = seeded(text, {"w0": (40, 40), "w1": (40, 24)})
    for tensor in model.graph.initializer:
        values = numpy_helper.to_array(tensor).copy()
        values.ravel()[::7] *= 1e-6
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    sessions = []
    for name, options in vectors.ways.items():
        deploykit.build(model, "embedded", {"n": (1, 5)}, tmp_path / name, quantize="fp16", **options)
        sessions.append(deploykit.open(tmp_path / name))
    used = "multiply_outputs_half(" in (tmp_path / "emulated" / "kernels.c").read_text()
    assert used == (vectors.board == HELIUM.board)
    for n in (1, 2, 3, 5):
        x = np.random.default_rng(n).standard_normal((n, 40), np.float32)
        x[-1, -3:] = (np.inf, np.nan, -0.0) if n == 5 else 0
        generic, *others = [session(x=x) for session in sessions]
        for found in others:
            for output, values in generic.items():
                np.testing.assert_allclose(found[output], values, rtol=1e-5, atol=1e-5, err_msg=output)
    for session in sessions:
        session.close()


def test_conversions_on_a_condition_assemble(vectors: Vectors, tmp_path: Path) -> None:
    """Which compilers make of the number of elements of a range."""
    text = """<ir_version: 13, opset_import: ["": 27]>
        ranges (float16 begin, float16 end, float16 step) => (float16[n] y) { y = Range(begin, end, step) }"""
    model = onnx.parser.parse_model(text)
    deploykit.build(model, "embedded", output=tmp_path / "dist", board=vectors.board)
    compiler = compiler_for(find_board(vectors.board).core)
    for level in ("-O1", "-O2", "-O3", "-Os"):
        chosen = (*PICOLIBC, level, "-fif-conversion2", f"-I{tmp_path / 'dist'}")
        compiler.compile(tmp_path / "dist" / "kernels.c", tmp_path / "kernels.o", *chosen)
    with deploykit.open(tmp_path / "dist") as session:
        for begin, end, step in ((1, 5, 2), (10, 4, -3), (0.5, 0.5, 1), (1, 0, 1)):
            given = np.array([begin, end, step], np.float16)
            found = session(begin=given[0], end=given[1], step=given[2])["y"]
            np.testing.assert_array_equal(found, np.arange(begin, end, step, np.float16))
