"""Functions in C that copy and fill memory, at all sizes and alignments up to a few words."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest

from deploykit.compiler.codegen.c.support import definitions

_CALLS = """
void copied(void *to, const void *from, int32_t bytes) {
    copy_words(to, from, bytes);
}

void filled(void *to, int32_t number, int32_t bits, int32_t bytes) {
    fill_words(to, number, bits, bytes);
}
"""
ROOM = 96


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder: Path = tmp_path_factory.mktemp("copies")
    declared = "void copied(void *, const void *, int32_t);\nvoid filled(void *, int32_t, int32_t, int32_t);\n"
    includes = "#include <stddef.h>\n#include <stdint.h>\n#include <string.h>\n"
    (folder / "k.c").write_text(f"{includes}{declared}{definitions(_CALLS)}{_CALLS}")
    flags = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsanitize=undefined", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, "-o", str(folder / "k.so"), str(folder / "k.c")], check=True)
    return ctypes.CDLL(str(folder / "k.so"))


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 6, 8, 12, 15, 16, 17, 30, 32, 63, 64])
def test_copies(library: ctypes.CDLL, size: int) -> None:
    source = np.arange(ROOM, dtype=np.uint8)
    for at in range(5):
        for place in range(5):
            target = np.full(ROOM, 255, np.uint8)
            library.copied(ctypes.c_void_p(target.ctypes.data + place), ctypes.c_void_p(source.ctypes.data + at), size)
            expected = np.full(ROOM, 255, np.uint8)
            expected[place : place + size] = source[at : at + size]
            np.testing.assert_array_equal(target, expected)


@pytest.mark.parametrize(("dtype", "number"), [("int8", -128), ("uint8", 200), ("int16", -1500), ("int16", 77)])
def test_fills(library: ctypes.CDLL, dtype: str, number: int) -> None:
    width = np.dtype(dtype).itemsize
    for count in (0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 31):
        for place in range(4):
            target = np.zeros(ROOM // width, dtype)
            at = ctypes.c_void_p(target.ctypes.data + place * width)
            library.filled(at, number, 8 * width, count * width)
            expected = np.zeros(ROOM // width, dtype)
            expected[place : place + count] = number
            np.testing.assert_array_equal(target, expected)
