"""Libraries for Arduino and PlatformIO, compiled as their builders do it: every source in `src` with the same options,
`src` as the only include path, and a library as an archive."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

import deploykit
from deploykit.targets.embedded.boards import find_board
from deploykit.targets.embedded.boards.image import emulated_build, missing
from tests.forms.conftest import Pair
from tests.frontends.onnx.harness import parse
from tests.frontends.running_mean import running_mean, weights
from tests.runtime.two_models import APP

CORE = Path(__file__).parent / "arduino"
BOUNDS = {"n": (1, 3), "x_utf8": (1, 30)}
USUAL = ("-Os", "-std=gnu11")
"""How Arduino compiles C, whatever a library says."""

needs_arm = pytest.mark.skipif(missing(find_board("mps2-an386")) is not None, reason="needs tools for Arm boards")


class Builder:
    """Builds sketches for an emulated Cortex-M4, or for this machine."""

    def __init__(self, place: Path, *, arm: bool) -> None:
        self._place = place
        build = emulated_build(find_board("mps2-an386")) if arm else None
        self._gcc = [*build.compiler.command, *build.compiler.flags] if build else ["gcc"]
        self._options = [option for option in build.options if not option.startswith("-O")] if build else []
        self._link = [*build.link] if build else []
        self._launcher = [*build.launcher] if build else []

    def run(self, sketch: Path, libraries: Sequence[Path]) -> str:
        """What a sketch prints, with the C that is beside it; `libraries` are folders of libraries."""
        include = ["-DARDUINO=10819", f"-I{CORE}", *(f"-I{library / 'src'}" for library in libraries)]
        objects = [self._compiled(CORE / "main.cpp", include, "core-"), self._compiled(sketch, include)]
        objects += [self._compiled(source, include, "sketch-") for source in sorted(sketch.parent.glob("*.c"))]
        archives = []
        for number, library in enumerate(libraries):
            sources = sorted(path for path in (library / "src").rglob("*") if path.suffix in (".c", ".cpp", ".S"))
            made = [self._compiled(source, [f"-I{library / 'src'}"], f"of{number}-") for source in sources]
            archives.append(self._place / f"lib{number}.a")
            subprocess.run(["ar", "rcs", archives[-1], *made], check=True)
        program = self._place / "sketch.elf"
        call = [*self._gcc, *self._options, *objects, *archives, *self._link, "-lm", "-o", program]
        subprocess.run([*map(str, call)], check=True)
        return subprocess.run([*self._launcher, program], check=True, capture_output=True, text=True).stdout

    def _compiled(self, source: Path, options: Sequence[str], start: str = "") -> Path:
        made = self._place / f"{start}{source.name}.o"
        compiler, flags = list(self._gcc), list(USUAL)
        if source.suffix != ".c":
            compiler[0] = compiler[0].replace("gcc", "g++")
            flags = ["-x", "c++", "-Os", "-std=gnu++11", "-fno-exceptions", "-fno-rtti", "-Wall", "-Wextra", "-Werror"]
        call = [*compiler, *self._options, *flags, *options, "-c", source, "-o", made]
        subprocess.run([*map(str, call)], check=True)
        return made


def example_in(folder: Path) -> Path:
    """The example of a library in a folder."""
    (found,) = [*folder.glob("examples/*/*.ino"), *folder.glob("examples/*/src/main.cpp")]
    return found


@needs_arm
@pytest.mark.parametrize("form", ["arduino", "platformio"])
def test_the_example_prints_what_that_of_make_does(form: str, pair: Callable[[str], Pair], tmp_path: Path) -> None:
    library, usual = pair(form).places[0], pair("c").places[0]
    found = Builder(tmp_path, arm=True).run(example_in(library), [library])
    expected = subprocess.run(["make", "-s", "-C", usual, "run"], check=True, capture_output=True, text=True).stdout
    name, numbers = found.split("]:")
    own_name, own_numbers = expected.split("]:")
    assert name.replace(" [", "[") == own_name.replace(" float32", "")
    first = [float(number) for number in own_numbers.split("...")[0].split()]
    np.testing.assert_allclose([float(number) for number in numbers.split()], first, atol=2e-6)


@needs_arm
@pytest.mark.parametrize("form", ["arduino", "platformio"])
def test_two_libraries_in_one_sketch(form: str, pair: Callable[[str], Pair], tmp_path: Path) -> None:
    """Each has the core, and one of them is linked."""
    both = pair(form)
    sketch = tmp_path / "two.cpp"
    app = APP.replace("int main(void) {", "static int app() {").replace('"tanh_net/model.h"', "<tanh_net.h>")
    sketch.write_text(f"#include <Arduino.h>\n{app}\nvoid setup() {{ (void)app(); }}\nvoid loop() {{}}\n")
    printed = Builder(tmp_path, arm=True).run(sketch, both.places)
    found = np.array([[float(number) for number in line.split()] for line in printed.splitlines()])
    np.testing.assert_allclose(found, both.expected, rtol=1e-5, atol=1e-6)


@needs_arm
def test_kernels_keep_their_bits_and_their_speed(pair: Callable[[str], Pair], tmp_path: Path) -> None:
    """Under the options of a builder, which allow the contraction of products and sums, and optimise for size."""
    build = emulated_build(find_board("mps2-an386"))
    texts = {}
    for form, options in {"arduino": USUAL, "c": ("-O3", "-std=c99"), "plain": USUAL}.items():
        folder = pair("c").places[0] if form != "arduino" else pair(form).places[0] / "src" / "tanh_net"
        made = tmp_path / f"{form}.o"
        call = [*build.compiler.command, *build.compiler.flags, *build.options, *options]
        subprocess.run([*call, "-c", folder / "kernels.c", "-o", made], check=True)
        dumped = subprocess.run(["arm-none-eabi-objdump", "-d", made], check=True, capture_output=True, text=True)
        texts[form] = [line.split("\t")[2:] for line in dumped.stdout.splitlines() if line.count("\t") > 2]
    assert any(line[0].startswith("vfma") for line in texts["plain"])
    assert not any(line[0].startswith("vfma") for line in texts["arduino"])
    assert len(texts["arduino"]) > 1.2 * len(texts["plain"])
    assert abs(len(texts["arduino"]) - len(texts["c"])) < 0.1 * len(texts["c"])


@pytest.mark.parametrize("kind", ["strings", "functions"])
def test_sketches_of_other_models(kind: str, tmp_path: Path) -> None:
    """Of strings, and of several functions with states: as the example of make, but for checksums."""
    strings = parse("(string[n] x) => (string[n] y) { y = Identity(x) }")
    model, dims = (strings, BOUNDS) if kind == "strings" else (running_mean(weights()), {})
    for form in ("arduino", "c"):
        deploykit.build(model, "embedded", dims, tmp_path / form, format=form)
    printed = Builder(tmp_path, arm=False).run(example_in(tmp_path / "arduino"), [tmp_path / "arduino"])
    call = subprocess.run(["make", "-s", "run"], cwd=tmp_path / "c", check=True, capture_output=True, text=True)
    assert [line.split()[0] for line in printed.splitlines()] == [line.split()[0] for line in call.stdout.splitlines()]
    assert "error" not in printed


def test_the_manifests(pair: Callable[[str], Pair]) -> None:
    lines = (pair("arduino").places[0] / "library.properties").read_text().splitlines()
    properties = dict(line.split("=", 1) for line in lines)
    assert {"name", "version", "author", "maintainer", "sentence", "paragraph", "category", "url"} <= set(properties)
    assert (properties["name"], properties["includes"], properties["dot_a_linkage"]) == (
        "tanh_net",
        "tanh_net.h",
        "true",
    )
    library = json.loads((pair("platformio").places[0] / "library.json").read_text())
    folder = pair("platformio").places[0]
    (example,) = library["examples"]
    assert all((folder / example["base"] / name).is_file() for name in example["files"])
    assert (folder / "src" / library["headers"]).is_file()
