"""Several models in one program: built together with one core, or each for itself."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import deploykit
from deploykit.errors import UsageError
from deploykit.targets.embedded.boards import find_board
from deploykit.targets.embedded.boards.image import emulated_build, missing
from deploykit.targets.embedded.sources import OPTIMIZED, USUAL
from tests.runtime.two_models import APP, models, printed

needs_arm = pytest.mark.skipif(missing(find_board("mps2-an386")) is not None, reason="needs tools for Arm boards")
WHOLE = ("-Wl,--whole-archive", "-lsine_net", "-ltanh_net", "-ldeploykit", "-Wl,--no-whole-archive", "-lm")


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


@needs_arm
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


@pytest.mark.parametrize("board", [None, pytest.param("mps2-an386", marks=needs_arm)])
def test_built_apart_from_files_of_one_name(board: str | None, tmp_path: Path) -> None:
    """Every symbol and every macro has the name that the build gave. One core serves both, also where all of each
    library is linked."""
    files, expected = models(tmp_path)
    place = tmp_path / "dist"
    for file in files:
        model = tmp_path / f"of-{Path(file).stem}" / "model.onnx"
        model.parent.mkdir()
        shutil.copyfile(file, model)
        name = Path(file).stem
        deploykit.build(
            model, "embedded", {"n": (1, 2)}, place / name, name=name, **({"board": board} if board else {})
        )
        subprocess.run(["make", "-s", "lib", "-C", place / name], check=True)
        symbols = public_symbols(place / name / "build" / f"lib{name}.a")
        assert symbols
        assert all(symbol.startswith(f"{name}_") for symbol in symbols)
        assert all(symbol.startswith("dk_") for symbol in public_symbols(place / name / "build" / "libdeploykit.a"))
        for header in ("model.h", "weights.h"):
            macros = re.findall(r"#define (\w+)", (place / name / header).read_text())
            assert macros
            assert all(macro.startswith(f"{name.upper()}_") for macro in macros)
    (tmp_path / "app.c").write_text(APP)
    build = emulated_build(find_board(board)) if board else None
    compiler = [*build.compiler.command, *build.compiler.flags, *build.options, *build.link] if build else ["gcc"]
    folders = [f"-L{place / name / 'build'}" for name in ("sine_net", "tanh_net")]
    call = [*compiler, "-std=c99", f"-I{place}", tmp_path / "app.c", *folders, *WHOLE, "-o", tmp_path / "app"]
    subprocess.run([*map(str, call)], check=True)
    launcher = build.launcher if build else ()
    np.testing.assert_allclose(printed(*launcher, tmp_path / "app"), expected, rtol=1e-5, atol=1e-6)


def public_symbols(library: Path) -> list[str]:
    call = subprocess.run(["nm", "-g", "--defined-only", library], check=True, capture_output=True, text=True)
    return [line.split()[-1] for line in call.stdout.splitlines() if len(line.split()) == 3]


def test_kernels_have_options_of_their_own(tmp_path: Path) -> None:
    """Of make, for one model and for several, and of CMake: no other file is compiled with them."""
    files, _ = models(tmp_path)
    deploykit.build(files[0], "embedded", {"n": 1}, tmp_path / "one")
    deploykit.build(files, "embedded", {"n": 1}, tmp_path / "several")
    for folder in ("one", "several"):
        call = ["make", "-n", "KERNEL_CFLAGS=-ffp-contract=fast"]
        lines = subprocess.run(
            call, cwd=tmp_path / folder, check=True, capture_output=True, text=True
        ).stdout.splitlines()
        compiled = [line for line in lines if " -c " in line]
        assert len(compiled) >= 6
        assert all(("-ffp-contract=fast" in line) == ("kernels.c" in line) for line in compiled)
    if shutil.which("cmake"):
        options = ["-DDEPLOYKIT_KERNEL_OPTIONS=-ffp-contract=fast", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"]
        subprocess.run(
            ["cmake", "-S", tmp_path / "one", "-B", tmp_path / "b", *options], check=True, capture_output=True
        )
        commands = json.loads((tmp_path / "b" / "compile_commands.json").read_text())
        assert all(("-ffp-contract=fast" in each["command"]) == ("kernels.c" in each["file"]) for each in commands)


def test_the_example_has_nothing_that_is_not_called(tmp_path: Path) -> None:
    """With make and with CMake."""
    files, _ = models(tmp_path)
    deploykit.build(files[0], "embedded", {"n": 1}, tmp_path / "one")
    subprocess.run(["make", "-s", "-C", tmp_path / "one"], check=True)
    examples = [tmp_path / "one" / "build" / "example"]
    if shutil.which("cmake"):
        for step in (["-S", tmp_path / "one", "-B", tmp_path / "b"], ["--build", tmp_path / "b"]):
            subprocess.run(["cmake", *map(str, step)], check=True, capture_output=True)
        examples.append(tmp_path / "b" / "example")
    assert "dk_crc32" in public_symbols(tmp_path / "one" / "build" / "libdeploykit.a")
    for example in examples:
        symbols = public_symbols(example)
        assert "dk_crc32" not in symbols
        assert "tanh_net_run" in symbols


@pytest.mark.parametrize(
    ("count", "name", "message"),
    [
        (2, "one", "--name takes a name for each of 2 models, found 1: 'one'"),
        (1, "one,two", "--name takes a name for each of 1 models, found 2: 'one,two'"),
        (2, "one,", "--name takes names of at least one letter, found 'one,'"),
        (1, " ", "--name takes names of at least one letter, found ' '"),
        (2, "one,one", "two models are called 'one': give each its own with --name"),
        (2, "a b,a-b", "two models are called 'a_b': give each its own with --name"),
    ],
)
def test_names_that_cannot_be_are_refused(count: int, name: str, message: str, tmp_path: Path) -> None:
    files, _ = models(tmp_path)
    given = files if count == 2 else files[0]
    with pytest.raises(UsageError, match=re.escape(message)):
        deploykit.build(given, "embedded", {"n": 1}, tmp_path / "dist", name=name)


def test_names_of_several(tmp_path: Path) -> None:
    files, _ = models(tmp_path)
    deploykit.build([files[0], files[0]], "embedded", {"n": 1}, tmp_path / "dist", name="first, Zweites Netz")
    subprocess.run(["make", "-s", "-C", tmp_path / "dist"], check=True)
    for name in ("first", "Zweites_Netz"):
        assert f"{name}_run" in public_symbols(tmp_path / "dist" / "build" / f"lib{name}.a")


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
    with pytest.raises(UsageError, match="two models are called 'tanh_net': give each its own with --name"):
        deploykit.build([files[0], files[0]], "embedded", {"n": 1}, tmp_path / "dist")
