"""Several models in one program: built together with one core, or each for itself."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import deploykit
from deploykit.errors import UsageError
from deploykit.targets.embedded.boards import find_board
from deploykit.targets.embedded.boards.image import emulated_build, missing
from deploykit.targets.embedded.sources import OPTIMIZED, USUAL
from tests.seeded import seeded

TEXT = '<ir_version: 9, opset_import: ["": 20]> {} (float[n, 8] x) => (float[n, 3] y) {{ a = MatMul(x, w) y = {}(a) }}'
APP = """
#include <stdio.h>
#include "tanh/model.h"
#include "tanh/weights.h"
#include "sine/model.h"
#include "sine/weights.h"

static DK_ALIGNED unsigned char arena[TANH_NET_ARENA_BYTES + SINE_NET_ARENA_BYTES + 1];
static tanh_net_model first;
static sine_net_model second;
static float x[16] = {1, 2, 3, 4, 5, 6, 7, 8, -1, -2, -3, -4, -5, -6, -7, -8}, y[6], z[6];

int main(void) {
    dk_tensor inputs[] = {{x, sizeof x, DK_FLOAT32, 2, {2, 8}}};
    dk_tensor tanhs[] = {{y, sizeof y, DK_FLOAT32, 2, {0}}}, sines[] = {{z, sizeof z, DK_FLOAT32, 2, {0}}};
    int i;
    if (tanh_net_init(&first, &tanh_net_weights, TANH_NET_WEIGHTS_BYTES, arena, sizeof arena) != DK_OK ||
        sine_net_init(&second, &sine_net_weights, SINE_NET_WEIGHTS_BYTES, arena, sizeof arena) != DK_OK ||
        tanh_net_run(&first, inputs, tanhs) != DK_OK || sine_net_run(&second, inputs, sines) != DK_OK) {
        return 1;
    }
    for (i = 0; i < 6; ++i) {
        printf("%.9g %.9g\\n", (double)y[i], (double)z[i]);
    }
    return 0;
}
""".replace('"tanh/', '"tanh_net/').replace('"sine/', '"sine_net/')
WHOLE = ("-Wl,--whole-archive", "-lsine_net", "-ltanh_net", "-ldeploykit", "-Wl,--no-whole-archive", "-lm")


def models(folder: Path) -> tuple[list[str], np.ndarray]:
    """Two files, and what they give for the app's input: an array [6, 2]."""
    x = np.stack([np.arange(1, 9), -np.arange(1, 9)]).astype(np.float32)
    files, expected = [], []
    for name, operator in {"tanh_net": "Tanh", "sine_net": "Sin"}.items():
        model = seeded(TEXT.format(name, operator), {"w": (8, 3)})
        onnx.save(model, folder / f"{name}.onnx")
        files.append(str(folder / f"{name}.onnx"))
        expected.append(ReferenceEvaluator(model).run(None, {"x": x})[0].reshape(-1))
    return files, np.stack(expected, axis=1)


def printed(*command: object) -> np.ndarray:
    output = subprocess.run([*map(str, command)], check=True, capture_output=True, text=True).stdout
    return np.array([[float(number) for number in line.split()] for line in output.splitlines()])


def test_together_they_share_one_core(tmp_path: Path) -> None:
    """Nothing is defined twice, even where all of each library is linked."""
    files, expected = models(tmp_path)
    deploykit.build(files, "embedded", {"n": (1, 2)}, tmp_path / "dist")
    subprocess.run(["make", "-s", "-C", tmp_path / "dist", "CFLAGS=-Werror"], check=True)
    (tmp_path / "app.c").write_text(APP)
    program, place = tmp_path / "app", tmp_path / "dist"
    call = ["gcc", "-std=c99", f"-I{place}", tmp_path / "app.c", f"-L{place / 'build'}", *WHOLE, "-o", program]
    subprocess.run([*map(str, call)], check=True)
    np.testing.assert_allclose(printed(program), expected, rtol=1e-5, atol=1e-6)
    for name in ("tanh_net", "sine_net"):  # each is an artifact of its own
        with deploykit.open(place / name) as session:
            assert session(x=np.zeros((1, 8), np.float32))["y"].shape == (1, 3)


@pytest.mark.skipif(not shutil.which("cmake"), reason="needs cmake")
@pytest.mark.parametrize("together", [True, False], ids=["together", "apart"])
def test_cmake_gives_them_one_core(together: bool, tmp_path: Path) -> None:
    files, expected = models(tmp_path)
    place = tmp_path / "models"
    if together:
        deploykit.build(files, "embedded", {"n": (1, 2)}, place)
    else:
        for file in files:
            deploykit.build(file, "embedded", {"n": (1, 2)}, place / Path(file).stem)
    added = ["models"] if together else ["models/tanh_net", "models/sine_net"]
    (tmp_path / "app.c").write_text(APP)
    lines = [
        "cmake_minimum_required(VERSION 3.13)",
        "project(app C)",
        "set(CMAKE_EXPORT_COMPILE_COMMANDS ON)",
        *(f"add_subdirectory({folder})" for folder in added),
        "add_executable(app app.c)",
        "target_link_libraries(app PRIVATE tanh_net sine_net)",
    ]
    (tmp_path / "CMakeLists.txt").write_text("\n".join(lines))
    for step in (["-S", tmp_path, "-B", tmp_path / "build"], ["--build", tmp_path / "build"]):
        subprocess.run(["cmake", *map(str, step)], check=True, capture_output=True)
    np.testing.assert_allclose(printed(tmp_path / "build" / "app"), expected, rtol=1e-5, atol=1e-6)
    # The project has no build type, and files are optimised all the same.
    commands = json.loads((tmp_path / "build" / "compile_commands.json").read_text())
    optimized = {Path(entry["file"]).name: re.findall(r" (-O\w*)", entry["command"])[-1:] for entry in commands}
    assert optimized.pop("app.c") == []
    assert optimized == {name: [OPTIMIZED.get(name, USUAL)] for name in optimized}
    assert {"kernels.c", "model.c", "weights.c", "deploykit.c", "errors.c"} <= set(optimized)


@pytest.mark.skipif(missing(find_board("mps2-an386")) is not None, reason="needs tools for Arm boards")
def test_together_on_a_board(tmp_path: Path) -> None:
    files, expected = models(tmp_path)
    place = tmp_path / "dist"
    deploykit.build(files, "embedded", {"n": (1, 2)}, place, board="mps2-an386")
    subprocess.run(["make", "-s", "-C", place], check=True)
    (tmp_path / "app.c").write_text(APP)
    build = emulated_build(find_board("mps2-an386"))
    compiler = [*build.compiler.command, *build.compiler.flags, *build.options, *build.link]
    call = [*compiler, f"-I{place}", tmp_path / "app.c", f"-L{place / 'build'}", *WHOLE, "-o", tmp_path / "app.elf"]
    subprocess.run([*map(str, call)], check=True)
    np.testing.assert_allclose(printed(*build.launcher, tmp_path / "app.elf"), expected, rtol=1e-5, atol=1e-6)


def test_a_core_of_another_version_does_not_link(tmp_path: Path) -> None:
    files, _ = models(tmp_path)
    place = tmp_path / "dist"
    deploykit.build(files, "embedded", {"n": (1, 2)}, place)
    for header in (place / "sine_net").glob("deploykit.h"):
        header.write_text(header.read_text().replace("dk_init_of_version_2", "dk_init_of_version_1"))
    subprocess.run(["make", "-s", "-C", place], check=True)
    (tmp_path / "app.c").write_text(APP)
    call = ["gcc", "-std=c99", f"-I{place}", tmp_path / "app.c", f"-L{place / 'build'}", *WHOLE, "-o", tmp_path / "app"]
    linked = subprocess.run([*map(str, call)], check=False, capture_output=True, text=True)
    assert linked.returncode != 0
    assert "dk_init_of_version_1" in linked.stderr


def test_a_header_of_another_version_does_not_compile(tmp_path: Path) -> None:
    files, _ = models(tmp_path)
    deploykit.build(files[0], "embedded", {"n": (1, 2)}, tmp_path / "dist")
    header = tmp_path / "dist" / "deploykit.h"
    header.write_text(header.read_text().replace("#define DK_VERSION 2", "#define DK_VERSION 1"))
    made = subprocess.run(["make", "lib"], cwd=tmp_path / "dist", check=False, capture_output=True, text=True)
    assert made.returncode != 0
    assert "deploykit.h is of another version than this model" in made.stderr


def test_two_models_of_one_name_are_refused(tmp_path: Path) -> None:
    files, _ = models(tmp_path)
    with pytest.raises(UsageError, match="two models are called 'tanh_net': rename one of the files"):
        deploykit.build([files[0], files[0]], "embedded", {"n": 1}, tmp_path / "dist")
