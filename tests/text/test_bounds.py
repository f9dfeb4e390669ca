"""Memory: damaged tables, small workspaces and small arrays, under sanitizers."""

from __future__ import annotations

import json
import random
import struct
import subprocess
from functools import cache
from pathlib import Path

import pytest

from deploykit import runtime
from deploykit.basics.toolchain import find_c_compiler
from deploykit.engines.native.sanitized import SANITIZERS
from deploykit.text import pack_fields
from tests.text.designs import DESIGNS, design
from tests.text.strings import text

DAMAGED = ("bert-uncased", "clip", "llama-2", "xlm-roberta", "albert", "falcon", "qwen-2")


@cache
def tables(name: str) -> bytes:
    return pack_fields(json.loads(design(name).to_str()))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that encodes and decodes texts from its standard input, with exactly the memory that is asked for."""
    folder = tmp_path_factory.mktemp("sanitized")
    compiler = find_c_compiler()
    objects = []
    for source in (Path(__file__).with_name("bounds.c"), *(s for s in runtime.TEXT if s.suffix == ".c")):
        objects.append(folder / f"{source.stem}.o")
        compiler.compile(
            source, objects[-1], "-O1", f"-I{runtime.INCLUDE}", f"-I{runtime.TEXT_HEADER.parent}", *SANITIZERS
        )
    compiler.link_program(objects, folder / "bounds", *SANITIZERS)
    return folder / "bounds"


def run(program: Path, *blobs: bytes, texts: list[bytes]) -> list[str]:
    """One line of output for each blob and text."""
    request = struct.pack("<II", len(blobs), len(texts))
    request += b"".join(struct.pack("<I", len(data)) + data for data in (*blobs, *texts))
    result = subprocess.run([program], input=request, capture_output=True, check=False)
    assert result.returncode == 0, result.stderr.decode()[-3000:]
    return result.stdout.decode().splitlines()


def some_texts(name: str, count: int) -> list[bytes]:
    source = random.Random(name)
    special = [token.content for token in design(name).get_added_tokens_decoder().values()]
    found = [text(source, special) for _ in range(count)]
    return [given if isinstance(given, bytes) else given.encode() for given in found]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(DESIGNS))
def test_the_workspace_suffices_and_less_is_refused_or_does(program: Path, name: str) -> None:
    hard = [b"", b"a" * 3000, b"\xff" * 3000, "\ufdfa".encode() * 500, "\u0390\u0344\u1d160".encode() * 300]
    lines = run(program, tables(name), texts=[*some_texts(name, 40), *hard])
    assert len(lines) == 45
    assert not [line for line in lines if not line.startswith("ok")]


@pytest.mark.slow
@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_tables_are_not_left(program: Path, name: str) -> None:
    source = random.Random(name)
    good = tables(name)
    blobs = []
    for kind in range(30):
        blob = bytearray(good)
        if kind < 5:
            del blob[source.randrange(len(blob)) :]
        else:
            for _ in range(10 ** source.randrange(4)):
                place = source.choice([source.randrange(300), source.randrange(len(blob) - 4)])
                blob[place : place + 4] = struct.pack("<I", source.choice([0, 1, 255, 1 << 16, 0xFFFFFFFF, 0x7FFFFFFF]))
        blobs.append(bytes(blob))
    lines = run(program, *blobs, texts=some_texts(name, 12))
    assert any("weights" in line for line in lines)
