"""Damaged GGUF files are refused with a message that says what is wrong; no edit of a file is more than that."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from deploykit.errors import DeploykitError, UsageError
from deploykit.frontends.gguf.formats import blocks
from deploykit.frontends.gguf.importer import read_model
from deploykit.frontends.gguf.reader import read_gguf
from tests.frontends.gguf.files import write_model
from tests.frontends.gguf.test_importer import folder_of


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "model.gguf"
    write_model(path, *folder_of("llama"))
    return path


def refused(path: Path, data: bytes, message: str) -> None:
    path.write_bytes(data)
    with pytest.raises(UsageError, match=message):
        read_gguf(path, blocks())


def tensor(name: str, shape: tuple[int, ...], form: int, offset: int) -> bytes:
    text = name.encode()
    return struct.pack(f"<Q{len(text)}sI{len(shape)}QIQ", len(text), text, len(shape), *shape, form, offset)


def with_tensors(*tensors: bytes, body: int = 64) -> bytes:
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), 0) + b"".join(tensors)
    return head.ljust(-(-len(head) // 32) * 32, b"\0") + bytes(body)


def test_files_that_are_none(tmp_path: Path) -> None:
    refused(tmp_path / "a", b"", "is cut off within its header: it has 0 bytes")
    refused(tmp_path / "b", b"\x08\x07onnx", "is no GGUF file")
    refused(tmp_path / "c", b"GGUF" + struct.pack(">I", 3), "its numbers are big-endian")
    refused(tmp_path / "d", b"GGUF" + struct.pack("<I", 1), r"its version is 1; there are \(2, 3\)")
    with pytest.raises(UsageError, match=r"cannot read .*: No such file"):
        read_gguf(tmp_path / "missing", blocks())


def test_tensors_that_cannot_be(tmp_path: Path) -> None:
    path = tmp_path / "model"
    good = with_tensors(tensor("a", (4, 2), 0, 0), tensor("b", (8,), 0, 32))
    path.write_bytes(good)
    assert {name: found.shape for name, found in read_gguf(path, blocks()).tensors.items()} == {"a": (2, 4), "b": (8,)}
    refused(
        path, with_tensors(tensor("a", (4, 2), 0, 0), tensor("b", (8,), 0, 16)), "'b' begins at byte 16 .*within 'a'"
    )
    refused(path, with_tensors(tensor("a", (4,), 0, 0), tensor("a", (4,), 0, 32)), "two tensors 'a'")
    refused(path, with_tensors(tensor("a", (4,), 99, 0)), "'a' in .* has the unknown format 99")
    refused(path, with_tensors(tensor("a", (33,), 2, 0)), "rows of 'a' have 33 elements, no blocks of 32")
    refused(path, with_tensors(tensor("a", (1 << 40,), 0, 0)), "is cut off: 'a' ends at byte")
    refused(path, with_tensors(tensor("a", (1, 1, 1, 1, 1), 0, 0)), "'a' has 5 axes")


def test_a_file_that_was_cut_off(file: Path, tmp_path: Path) -> None:
    data = file.read_bytes()
    for end in (*range(0, 64, 7), 1000, len(data) // 2, len(data) - 1):
        (tmp_path / "cut.gguf").write_bytes(data[:end])
        with pytest.raises(UsageError, match="is cut off"):
            read_gguf(tmp_path / "cut.gguf", blocks())


def test_random_edits_are_read_or_refused(file: Path, tmp_path: Path) -> None:
    data = file.read_bytes()
    head = data.index(b"blk.1.ffn_up") + 200
    random = np.random.default_rng(0)
    refusals = 0
    for number in range(300):
        edited = bytearray(data)
        for at in random.integers(4, head, 1 + number % 3):
            edited[at] = random.integers(0, 256)
        (tmp_path / "edited.gguf").write_bytes(edited)
        try:
            folder = read_model(tmp_path / "edited.gguf")
            for name in folder.weights:
                assert folder.weights[name].size
        except DeploykitError:
            refusals += 1
    assert 100 < refusals < 300
