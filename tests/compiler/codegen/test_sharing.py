"""`--optimize size`: kernels that differ in numbers share code, and compute the same bits as without."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest

import deploykit
from deploykit.artifact.manifest import read_manifest
from deploykit.errors import UsageError
from deploykit.targets.embedded import EmbeddedTarget
from deploykit.targets.embedded.boards import find_board
from deploykit.targets.embedded.boards.footprint import read_footprint
from deploykit.targets.embedded.boards.image import missing
from tests.compiler.program.nets import Net, mobile_net, quantized, random_net
from tests.compiler.program.test_strips import DIMS, given, results
from tests.seeded import seeded

DENSE = """<ir_version: 10, opset_import: ["" : 21]> dense (float[n0, 5] x) => (float[n0, 3] y) {
    a = Gemm(x, w0, b0)
    b = Relu(a)
    c = Gemm(b, w1, b1)
    d = Relu(c)
    y = Gemm(d, w2, b2)
}"""
SIZES = {"w0": (5, 12), "b0": (12,), "w1": (12, 40), "b1": (40,), "w2": (40, 3), "b2": (3,)}


def kernels(folder: Path) -> str:
    return (folder / "kernels.c").read_text()


def repeated_net(seed: int, batch: int | str) -> onnx.ModelProto:
    """A random net whose layers come twice more, for other numbers of channels."""
    net = Net(seed, (3, 17, 9), batch)
    for channels in (4, 8, 16):
        net.conv(channels, 3, pads=[1, 1, 1, 1])
        net.add("relu")
        net.conv(channels, 3, group=channels, pads=[1, 1, 1, 1], strides=[1 + seed % 2, 1])
        net.add(("sigmoid", "residual", "max", "average")[seed % 4])
    return net.model()


def require_same(model: onnx.ModelProto, folder: Path, optimize: str = "size", **options: object) -> str:
    """Build a model in both ways and compare the bits. Returns the kernels of the smaller one."""
    usual, _ = results(model, folder / "speed", "speed", **options)  # type: ignore[arg-type]
    small, _ = results(model, folder / "size", optimize, **options)  # type: ignore[arg-type]
    assert small == usual
    return kernels(folder / "size")


def test_layers_of_other_sizes_share_a_function(tmp_path: Path) -> None:
    """Also where the name of a dim is one that a number would get."""
    model = seeded(DENSE, SIZES)
    for optimize in ("speed", "size"):
        deploykit.build(model, "embedded", {"n0": (1, 40)}, tmp_path / optimize, optimize=optimize)  # type: ignore[arg-type]
    usual, small = (kernels(tmp_path / optimize) for optimize in ("speed", "size"))
    assert "shared" not in usual
    assert re.search(r"^DK_SHARED static void dense_shared_0\(", small, re.MULTILINE)
    assert len(re.findall(r"^    dense_shared_0\(", small, re.MULTILINE)) == 2
    assert len(small) < len(usual)
    for rows in (1, 2, 33):
        x = np.random.default_rng(rows).standard_normal((rows, 5)).astype(np.float32)
        found = []
        for optimize in ("speed", "size"):
            with deploykit.open(tmp_path / optimize, sanitize=True) as session:
                found.append(session(x=x)["y"].tobytes())
        assert found[0] == found[1]


@pytest.mark.parametrize("cpu", ["generic", "cortex-m4"])
def test_a_mobile_net_of_integers(cpu: str, tmp_path: Path) -> None:
    net = mobile_net(1)
    text = require_same(quantized(net, [given(net, 1)] * 2), tmp_path, batches=(1,), cpu=cpu)
    assert "net_shared_1(" in text


@pytest.mark.slow
@pytest.mark.sampled(part=8)
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("cpu", ["generic", "cortex-m0plus", "cortex-m4", "cortex-m55", "rv32imafcv"])
@pytest.mark.parametrize("dtype", ["float", "int8"])
def test_repeated_layers_have_the_same_bits(seed: int, cpu: str, dtype: str, tmp_path: Path) -> None:
    if dtype == "float":
        require_same(repeated_net(seed, "n"), tmp_path, cpu=cpu)
    else:
        net = repeated_net(seed, 1)
        integers = quantized(net, [given(net, 1)] * 2)
        assert "shared_0(" in require_same(integers, tmp_path, batches=(1,), cpu=cpu)


@pytest.mark.slow
@pytest.mark.sampled(part=12)
@pytest.mark.parametrize("seed", range(200, 230))
@pytest.mark.parametrize("cpu", ["generic", "cortex-m55"])
def test_random_nets_have_the_same_bits(seed: int, cpu: str, tmp_path: Path) -> None:
    require_same(random_net(seed, "n"), tmp_path, cpu=cpu)


@pytest.mark.slow
@pytest.mark.parametrize("board", ["mps2-an385", "mps2-an386", "mps3-an547", "riscv32-virt", "riscv32-virt-v"])
@pytest.mark.parametrize("dtype", ["float", "int8"])
def test_code_is_smaller_on_boards(board: str, dtype: str, tmp_path: Path) -> None:
    reason = missing(find_board(board))
    if reason is not None:
        pytest.skip(reason)
    net = mobile_net(1)
    model = net if dtype == "float" else quantized(net, [given(net, 1)] * 2)
    require_same(model, tmp_path, batches=(1,), board=board)
    usual, small = (read_footprint(tmp_path / name) for name in ("speed", "size"))
    assert usual is not None
    assert small is not None
    assert small.flash["code"] < 0.85 * usual.flash["code"]
    assert small.ram == {**usual.ram, "stack": small.ram["stack"]}


def test_both_memory_and_code_can_be_saved(tmp_path: Path) -> None:
    net = mobile_net("n")
    text = require_same(net, tmp_path, "memory,size", dims=DIMS)
    assert "shared_0(" in text
    found = read_manifest(tmp_path / "size")
    assert found.notes[0].startswith("--optimize memory: ")


def test_loops_of_kernels_are_not_written_out(tmp_path: Path) -> None:
    model = seeded(DENSE, SIZES)
    places = {
        "c": ("Makefile", r"kernels\.o: OPTIMIZE := -O(\w)"),
        "zephyr": ("zephyr/CMakeLists.txt", r"kernels\.c PROPERTIES COMPILE_OPTIONS -O(\w)"),
        "rust": ("build.rs", r"kernels\.c\", \"(\w)\""),
    }
    for form, (file, pattern) in places.items():
        for optimize, option in (("speed", "3"), ("size", "2")):
            folder = tmp_path / form / optimize
            deploykit.build(model, "embedded", {"n0": 4}, folder, optimize=optimize, format=form)  # type: ignore[arg-type]
            assert re.findall(pattern, (folder / file).read_text()) == [option], form
    deploykit.build(model, "embedded", {"n0": 4}, tmp_path / "ino", optimize="size", format="arduino")
    assert 'optimize("O2"' in (tmp_path / "ino" / "src" / "dense" / "kernels.c").read_text()


def test_machine_code_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    for target in ("host", "android", "webgpu"):
        with pytest.raises(UsageError, match=f"target {target} has machine code, not C: build without --optimize size"):
            deploykit.build(tmp_path / "missing.onnx", target, output=tmp_path / "dist", optimize="size")


def test_it_is_advised_where_it_makes_a_model_fit(tmp_path: Path) -> None:
    """A board whose flash is a little too small for the code."""
    reason = missing(find_board("mps2-an386"))
    if reason is not None:
        pytest.skip(reason)
    net = mobile_net(1)
    deploykit.build(net, "embedded", output=tmp_path / "usual", board="mps2-an386")
    usual = read_footprint(tmp_path / "usual")
    assert usual is not None
    taken = sum(usual.flash.values())
    for left, advised in ((taken - 1000, True), (taken - usual.flash["code"], False)):
        small = find_board("mps2-an386")
        small = small.model_copy(update={"flash": small.flash.model_copy(update={"bytes": left})})
        target = EmbeddedTarget(small)
        with pytest.raises(UsageError, match="does not fit the board 'mps2-an386'") as refused:
            deploykit.build(net, target, output=tmp_path / "dist")
        assert ("--optimize size" in str(refused.value)) == advised
        if advised:
            deploykit.build(net, target, output=tmp_path / "dist", optimize="size")
