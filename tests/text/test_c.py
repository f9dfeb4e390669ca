"""The C of tokenizers: strict compilers, its size, and what it needs of the C library."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from deploykit import runtime
from deploykit.text import pack_fields
from tests.runtime.test_c_sources import STRICT, compilers
from tests.text.designs import ROOT, design

SOURCES = [source for source in runtime.TEXT if source.suffix == ".c"]
MOST_CODE = 25_000
"""Bytes."""


def objects(compiler: str, folder: Path, *options: str) -> list[Path]:
    made = []
    for source in SOURCES:
        made.append(folder / f"{source.stem}.o")
        include = [f"-I{runtime.INCLUDE}"]
        subprocess.run([compiler, *STRICT, *options, *include, "-c", source, "-o", made[-1]], check=True)
    return made


@compilers
def test_code_is_small_and_needs_little(compiler: str, tmp_path: Path) -> None:
    made = objects(compiler, tmp_path, "-Os", "-ffreestanding", "-Wconversion", "-Wshadow", "-Wcast-qual", "-Wvla")
    subprocess.run(["ld", "-r", "-o", tmp_path / "text.o", *made], check=True)
    sizes = subprocess.run(["size", tmp_path / "text.o"], check=True, capture_output=True, text=True).stdout
    code, data, zeros = map(int, sizes.splitlines()[1].split()[:3])
    assert code < MOST_CODE
    assert zeros == 0
    assert data < 200
    symbols = subprocess.run(["nm", tmp_path / "text.o"], check=True, capture_output=True, text=True).stdout
    assert set(re.findall(r" U (\w+)", symbols)) - {"_GLOBAL_OFFSET_TABLE_"} <= {"memcpy", "memset", "strlen"}
    assert all(name.startswith("dk_text_") for name in re.findall(r" T (\w+)", symbols))


def test_the_program_of_the_page(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "text.md").read_text("utf-8")
    (tmp_path / "tokenizer.bin").write_bytes(pack_fields(json.loads(design("bert-uncased").to_str())))
    body = re.search(r"```c\n(.*?)```", page, re.DOTALL)
    assert body
    source = f"""
        #include "text.h"
        #include <stdio.h>
        #include <stdlib.h>
        int main(void) {{
            static double room[1 << 17];
            static unsigned char tables[1 << 20] __attribute__((aligned(8)));
            int32_t ids[128], types[128];
            void* workspace = room;
            size_t workspace_bytes = sizeof room;
            FILE* file = fopen("tokenizer.bin", "rb");
            size_t tables_bytes = fread(tables, 1, sizeof tables, file);
            {body[1]}
            for (int32_t i = 0; i < tokens.count; ++i) {{
                printf("%d ", ids[i]);
            }}
            return 0;
        }}
    """
    (tmp_path / "app.c").write_text(source)
    made = objects("cc", tmp_path)
    includes = [f"-I{runtime.INCLUDE}", f"-I{runtime.TEXT_HEADER.parent}"]
    subprocess.run(["cc", *STRICT, tmp_path / "app.c", *made, *includes, "-o", tmp_path / "app"], check=True)
    printed = subprocess.run([tmp_path / "app"], check=True, capture_output=True, text=True, cwd=tmp_path).stdout
    assert list(map(int, printed.split())) == design("bert-uncased").encode("A sentence.").ids


@pytest.mark.slow
def test_properties_are_those_of_the_library() -> None:
    from tools.unicode_properties import OUTPUT, text_of_tables

    assert OUTPUT.read_text("utf-8") == text_of_tables()
