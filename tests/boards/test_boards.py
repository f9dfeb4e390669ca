"""Boards: their data, projects for them, what a model takes of one, and runs on an emulated core."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import deploykit
from deploykit.errors import ArtifactError, ShapeError, ToolchainError, UsageError
from deploykit.targets.embedded.boards import board_names, cores, find_board
from deploykit.targets.embedded.boards.footprint import BOARD, read_footprint
from deploykit.targets.embedded.boards.image import PICOLIBC, compiler_for, emulated_build, missing
from deploykit.targets.embedded.boards.measuring import sections
from tests.compiler.program.nets import mobile_net
from tests.frontends.huggingface.test_texts import folder_of
from tests.seeded import seeded

MODEL = """<ir_version: 9, opset_import: ["": 20]>
small (float[n, 3, h, 20] x) => (float[n, 10] y) {
    a = Conv<strides=[2, 2], pads=[1, 1, 1, 1]>(x, w1)
    b = Relu(a)
    c = Conv(b, w2)
    e = GlobalAveragePool(c)
    f = Flatten(e)
    g = MatMul(f, w3)
    i = Tanh(g)
    y = Softmax<axis=-1>(i)
}"""
WEIGHTS = {"w1": (8, 3, 3, 3), "w2": (12, 8, 1, 1), "w3": (12, 10)}
DIMS = {"n": (1, 3), "h": (3, 16)}

needs_arm = pytest.mark.skipif(missing(find_board("nrf52840dk")) is not None, reason="needs tools for Arm boards")


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return seeded(MODEL, WEIGHTS)


def test_every_board_is_sound() -> None:
    for name in board_names():
        board = find_board(name)
        assert board.name == name
        assert 8_000_000 <= board.clock_hz <= 1_000_000_000
        assert board.flash.bytes >= 1 << 16
        assert board.ram.bytes >= 1 << 14
        first, second = sorted((board.flash, board.ram), key=lambda region: region.origin)
        assert first.origin + first.bytes <= second.origin
    assert {find_board(name).core.name for name in board_names()} == set(cores())


@pytest.mark.parametrize("core", [name for name, core in cores().items() if core.emulator])
def test_every_core_computes_the_same(model: onnx.ModelProto, core: str, tmp_path: Path) -> None:
    boards = [find_board(name) for name in board_names()]
    board = max((board for board in boards if board.core.name == core), key=lambda board: board.ram.bytes)
    if reason := missing(board):
        pytest.skip(reason)
    deploykit.build(model, "embedded", DIMS, tmp_path / "dist", board=board.name)
    reference = ReferenceEvaluator(model)
    with deploykit.open(tmp_path / "dist") as session:
        for n, h in ((1, 3), (2, 7), (3, 16)):
            x = np.random.default_rng(n).standard_normal((n, 3, h, 20)).astype(np.float32)
            np.testing.assert_allclose(session(x=x)["y"], reference.run(None, {"x": x})[0], rtol=1e-5, atol=1e-6)
        assert np.isnan(session(x=np.full((1, 3, 5, 20), np.nan, np.float32))["y"]).all()
        with pytest.raises(ShapeError, match="axis 1"):
            session(x=np.zeros((1, 4, 9, 20), np.float32))
        assert session(x=x)["y"].shape == (3, 10)


@needs_arm
@pytest.mark.parametrize("board", ["mps2-an385", "mps2-an386", "mps3-an547"])
def test_half_precision(board: str, tmp_path: Path) -> None:
    """All numbers of 16 bits, and numbers of 32 bits near them and between them, on cores with and without instructions
    for it."""
    text = """<ir_version: 9, opset_import: ["": 20]>
        casts (float16[n] h, float[n] f) => (float[n] a, float16[n] b) { a = Cast<to=1>(h) b = Cast<to=10>(f) }"""
    model = onnx.parser.parse_model(text)
    deploykit.build(model, "embedded", {"n": (1, 16384)}, tmp_path / "dist", board=board)
    every = np.arange(65536, dtype=np.uint16).view(np.float16)
    with np.errstate(invalid="ignore", over="ignore"), deploykit.open(tmp_path / "dist") as session:
        for halves in np.split(every, 4):
            numbers = halves.astype(np.float32)
            between = ((numbers.astype(np.float64) + np.roll(numbers, -1)) / 2).astype(np.float32)
            for end in (np.nan, np.inf, -np.inf):
                f = between if np.isnan(end) else np.nextafter(between, np.float32(end))
                found = session(h=halves, f=f)
                np.testing.assert_array_equal(found["a"], numbers)
                np.testing.assert_array_equal(np.signbit(found["a"]), np.signbit(numbers))
                np.testing.assert_array_equal(found["b"], f.astype(np.float16))


@needs_arm
def test_the_project_of_a_board_builds_and_runs(model: onnx.ModelProto, tmp_path: Path) -> None:
    """The example prints the same on the emulated core and on this machine."""
    printed = {}
    for name, board in {"here": None, "board": "nrf52840dk"}.items():
        deploykit.build(model, "embedded", DIMS, tmp_path / name, **({"board": board} if board else {}))
        call = subprocess.run(["make", "-s", "run"], cwd=tmp_path / name, capture_output=True, text=True, check=False)
        assert call.returncode == 0, call.stderr
        printed[name] = call.stdout
    names = [line.split(":")[0] for line in printed["here"].splitlines()]
    assert [line.split(":")[0] for line in printed["board"].splitlines()] == names
    numbers = {name: [float(x) for x in text.split("]: ")[1].split()[:4]] for name, text in printed.items()}
    np.testing.assert_allclose(numbers["board"], numbers["here"], rtol=1e-4)


@needs_arm
def test_a_stack_that_is_too_small_is_noticed(model: onnx.ModelProto, tmp_path: Path) -> None:
    """In a build for debugging, whose results are else the same."""
    deploykit.build(model, "embedded", DIMS, tmp_path / "dist", board="nrf52840dk")
    printed = []
    for options in ([], ["DEBUG=1", "STACK=8192"], ["DEBUG=1", "STACK=160"]):
        call = ["make", "-s", "-B", "run", *options]
        printed.append(subprocess.run(call, cwd=tmp_path / "dist", capture_output=True, text=True, check=False))
    plain, roomy, small = printed
    assert (plain.returncode, roomy.returncode, roomy.stdout) == (0, 0, plain.stdout), roomy.stderr
    assert small.returncode != 0
    assert small.stdout == (
        "error 5: the stack reached its end, and what is there may be overwritten: give it more bytes\n"
    )


@needs_arm
def test_the_footprint_is_that_of_an_image(model: onnx.ModelProto, tmp_path: Path) -> None:
    """An image for the memories of the board holds what the footprint counts, and little else: the example and the C
    library."""
    deploykit.build(model, "embedded", {"n": 1, "h": (3, 16)}, tmp_path / "dist", board="bluepill")
    found = read_footprint(tmp_path / "dist")
    assert found is not None
    subprocess.run(["make", "-s", "image"], cwd=tmp_path / "dist", check=True)
    listed = subprocess.run(
        ["arm-none-eabi-nm", "-S", tmp_path / "dist/build/image.elf"], capture_output=True, text=True, check=True
    )
    symbols = [line.split() for line in listed.stdout.splitlines() if len(line.split()) == 4]
    sizes = {name: int(size, 16) for _, size, _, name in symbols}
    variables = {name: int(size, 16) for _, size, kind, name in symbols if kind in "bB"}
    assert sizes["model_small_weights"] == found.flash["weights"]
    assert variables["arena"] == found.ram["arena"] + 1
    assert variables["input_0"] + variables["output_0"] == found.ram["inputs"] + found.ram["outputs"] + 2
    assert variables["model"] == found.ram["structs"]
    own = sum(
        size
        for name, size in sizes.items()
        if name.startswith(("model_small_", "dk_")) and name != "model_small_weights"
    )
    counted = found.flash["code"] + found.flash["constants"]
    assert own <= 1.2 * counted
    assert 0 < found.ram["stack"] < 2048


@needs_arm
def test_the_footprint_of_a_model_of_texts_has_all_of_its_code(tmp_path: Path) -> None:
    """The functions for texts and the tokenizer, too, and the struct of a session."""
    folder = folder_of(tmp_path / "model", "bert-classes", problem_type="single_label_classification")
    deploykit.build(folder, "embedded", {"batch": (1, 2), "tokens": (1, 40)}, tmp_path / "dist", board="mps2-an386")
    found = read_footprint(tmp_path / "dist")
    assert found is not None
    compiler = compiler_for(find_board("mps2-an386").core)
    encoding = tmp_path / "encode.o"
    compiler.compile(tmp_path / "dist" / "encode.c", encoding, "-O2", *PICOLIBC, f"-I{tmp_path / 'dist'}")
    kernels = tmp_path / "kernels.o"
    compiler.compile(tmp_path / "dist" / "kernels.c", kernels, "-O3", *PICOLIBC, f"-I{tmp_path / 'dist'}")
    assert found.flash["code"] > sections(compiler, kernels)["text"] + sections(compiler, encoding)["text"]
    assert found.ram["structs"] > 512
    assert [what for what in found.uncounted if "WORKSPACE_BYTES" in what]


@needs_arm
def test_a_compiler_that_fails_is_told(model: onnx.ModelProto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "arm-none-eabi-gcc").write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo arm-none-eabi-gcc 1 && exit\necho "it has no picolibc" >&2; exit 1\n'
    )
    (tmp_path / "arm-none-eabi-gcc").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    deploykit.build(model, "embedded", DIMS, tmp_path / "dist", board="nrf52840dk")
    found = read_footprint(tmp_path / "dist")
    assert found is not None
    assert found.lines()[-1].strip() == "not counted: code, structs and the stack: it has no picolibc"


def test_a_model_that_does_not_fit_is_refused(model: onnx.ModelProto, tmp_path: Path) -> None:
    """With what would make it fit, which does."""
    with pytest.raises(UsageError, match="does not fit the board 'arduino-uno-r4'") as refused:
        deploykit.build(model, "embedded", {"n": (1, 64), "h": 16}, tmp_path / "dist", board="arduino-uno-r4")
    assert not (tmp_path / "dist").exists()
    advice = re.search(r"It fits with --dim n=1\.\.(\d+)", str(refused.value))
    assert advice
    most = int(advice[1])
    deploykit.build(model, "embedded", {"n": (1, most), "h": 16}, tmp_path / "fits", board="arduino-uno-r4")
    with pytest.raises(UsageError, match="RAM"):
        deploykit.build(model, "embedded", {"n": (1, most + 1), "h": 16}, tmp_path / "dist", board="arduino-uno-r4")


def test_what_fits_in_less_memory_is_told(tmp_path: Path) -> None:
    """With `--optimize memory`, and only where that is enough."""
    net = mobile_net(1)
    with pytest.raises(UsageError, match=r"It fits with --optimize memory\.$"):
        deploykit.build(net, "embedded", output=tmp_path / "dist", board="netduinoplus2")
    deploykit.build(net, "embedded", output=tmp_path / "dist", board="netduinoplus2", optimize="memory")
    large = mobile_net(1, 96)
    with pytest.raises(UsageError, match="does not fit") as refused:
        deploykit.build(large, "embedded", output=tmp_path / "large", board="arduino-uno-r4")
    assert "--optimize" not in str(refused.value)


@pytest.mark.parametrize(("dtype", "advised"), [("int8", False), ("float32", True)])
def test_a_model_of_8_bits_is_not_advised_to_be_one(dtype: str, advised: bool, tmp_path: Path) -> None:
    operator, result = ("MatMulInteger", "int32") if dtype == "int8" else ("MatMul", "float")
    text = f"""<ir_version: 9, opset_import: ["": 20]>
        wide ({dtype.removesuffix("32")}[20000, 512] x) => ({result}[20000, 512] y) {{ y = {operator}(x, w) }}"""
    model = seeded(text, {"w": (512, 512)}, np.dtype(dtype))
    with pytest.raises(UsageError, match="does not fit") as refused:
        deploykit.build(model, "embedded", output=tmp_path / "dist", board="bluepill")
    assert ("deploykit quantize" in str(refused.value)) == advised


def test_weights_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    text = '<ir_version: 9, opset_import: ["": 20]> large (float[n, 200] x) => (float[n, 100] y) { y = MatMul(x, w) }'
    large = seeded(text, {"w": (200, 100)})
    with pytest.raises(UsageError, match=r"flash 8\d,\d+ of 65,536 bytes: weights 80,000"):
        deploykit.build(large, "embedded", {"n": 1}, tmp_path / "dist", board="bluepill")


def test_boards_that_are_not_there_are_refused(model: onnx.ModelProto, tmp_path: Path) -> None:
    own = tmp_path / "mine.toml"
    with pytest.raises(UsageError, match=r"no board 'nrf53': there are .*nrf52840dk.*\.toml"):
        deploykit.build(model, "embedded", DIMS, tmp_path / "dist", board="nrf53")
    with pytest.raises(UsageError, match=r"mine\.toml cannot be read"):
        find_board(str(own))
    own.write_text("title = ")
    with pytest.raises(UsageError, match="is no TOML"):
        find_board(str(own))
    own.write_text('title = "Mine"\ncore = "cortex-m1"')
    with pytest.raises(UsageError, match=r"core 'cortex-m1', which is not known: there are .*cortex-m4"):
        find_board(str(own))
    own.write_text('title = "Mine"\ncore = "cortex-m4"\nflash = { origin = 0, bytes = 1 }')
    with pytest.raises(UsageError, match="wrong at 'clock_hz'"):
        find_board(str(own))
    with pytest.raises(UsageError, match="has no setting 'board'"):
        deploykit.build(model, "host", output=tmp_path / "dist", board="bluepill")


def test_a_board_of_ones_own(model: onnx.ModelProto, tmp_path: Path) -> None:
    text = (Path(deploykit.__file__).parent / "targets/embedded/boards/data/nrf52840dk.toml").read_text()
    (tmp_path / "mine.toml").write_text(text.replace("0x20000000", "0x30000000"))
    deploykit.build(model, "embedded", DIMS, tmp_path / "dist", board=str(tmp_path / "mine.toml"))
    found = read_footprint(tmp_path / "dist")
    assert found is not None
    assert (found.board.name, found.board.ram.origin) == ("mine", 0x30000000)
    assert "__ram=0x30000000" in (tmp_path / "dist/board.mk").read_text()


def test_its_c_runs_on_this_machine_if_asked(model: onnx.ModelProto, tmp_path: Path) -> None:
    deploykit.build(model, "embedded", DIMS, tmp_path / "dist", board="esp32")
    x = np.ones((1, 3, 9, 20), np.float32)
    with pytest.raises(ToolchainError, match=r"no emulator for the board 'esp32' .*--device cpu"):
        deploykit.open(tmp_path / "dist")(x=x)
    with deploykit.open(tmp_path / "dist", device="cpu") as session:
        expected = ReferenceEvaluator(model).run(None, {"x": x})[0]
        np.testing.assert_allclose(session(x=x)["y"], expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(ToolchainError, match=r"esp32|--device cpu"):
        emulated_build(find_board("esp32"))
    (tmp_path / "dist" / BOARD).write_text("{}")
    with pytest.raises(ArtifactError, match="does not describe a board"):
        read_footprint(tmp_path / "dist")


@needs_arm
def test_an_emulated_core_has_one_thread(model: onnx.ModelProto, tmp_path: Path) -> None:
    deploykit.build(model, "embedded", DIMS, tmp_path / "dist", board="nrf52840dk")
    with pytest.raises(UsageError, match="with one thread: --device cpu"):
        deploykit.open(tmp_path / "dist", threads=2)(x=np.ones((1, 3, 9, 20), np.float32))
