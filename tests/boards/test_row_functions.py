"""The functions for vectors of RISC-V: what their assembly writes, next to the same functions in plain C, for any sizes
and also for floats that are no numbers. Other code calls them with what models have (`test_rows`)."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Collection
from pathlib import Path

import pytest

from deploykit.compiler.codegen.c import rvv, rvv_floats, rvv_strips, support
from deploykit.targets.embedded.boards import find_board
from deploykit.targets.embedded.boards.image import PICOLIBC, compiler_for, emulated_build, missing

BOARD = find_board("riscv32-virt-v")
WITHOUT = find_board("riscv32-virt")
PROGRAM = Path(__file__).with_name("row_functions.c")
INCLUDES = "#include <math.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <string.h>\n"
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")

pytestmark = pytest.mark.skipif(missing(BOARD) is not None, reason="needs tools for RISC-V boards")


def functions(prefix: str, names: Collection[str]) -> str:
    """The functions with names that start with `prefix`, for other files."""
    calls = " ".join(f"{name}()" for name in sorted(names))
    text = INCLUDES + rvv.macros(calls) + support.definitions(calls)
    text = re.sub(r"^static (inline )?void", "void", text, flags=re.MULTILINE)
    return re.sub(r"\b(\w+_rvv)\(", rf"{prefix}_\1(", text)


def prototypes(text: str) -> str:
    return "".join(f"{found};\n" for found in re.findall(r"^(void \w+_rvv\([^{]+\)) {", text, re.MULTILINE))


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, of which one half is compiled for a core without vectors. There products and sums of floats are one
    instruction, as vectors have it, but not where numbers are requantised."""
    folder, build = tmp_path_factory.mktemp("rows"), emulated_build(BOARD)
    exact = rvv.NAMES | rvv_strips.NAMES
    texts = {
        "vectors": functions("vectors", exact | rvv_floats.NAMES),
        "plain": functions("plain", exact),
        "fused": functions("plain", rvv_floats.NAMES),
    }
    (folder / "functions.h").write_text("#include <stdint.h>\n" + "".join(map(prototypes, texts.values())))
    objects = []
    for name, text in texts.items():
        (folder / f"{name}.c").write_text(text)
        objects.append(folder / f"{name}.o")
        compiler = compiler_for((BOARD if name == "vectors" else WITHOUT).core)
        options = ("-O2", f"-ffp-contract={'fast' if name == 'fused' else 'off'}", *WARNINGS)
        compiler.compile(folder / f"{name}.c", objects[-1], *PICOLIBC, *options)
    objects.append(folder / "main.o")
    compiler.compile(PROGRAM, objects[-1], *PICOLIBC, "-O1", f"-I{folder}")
    build.compiler.link_program(objects, folder / "image", *build.options, *build.link)
    assert "vwmacc" in (folder / "vectors.c").read_text()
    return folder / "image"


@pytest.mark.parametrize("bits", [128, 256, 512])
def test_assembly_writes_what_plain_c_writes(image: Path, bits: int) -> None:
    command = [part.replace("vlen=128", f"vlen={bits}") for part in emulated_build(BOARD).launcher]
    found = subprocess.run([*command, image], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (0, "checked\n"), found.stdout + found.stderr
