"""What is kept between processes: never another result, never more than its bound, and nothing if nothing can be."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest

import deploykit
from deploykit.basics import caches
from deploykit.basics.caches import compiled_files, keeping, kept
from deploykit.basics.toolchain import find_c_compiler
from tests.seeded import seeded

NET = '<ir_version: 10, opset_import: ["" : 21]> net (float[n, 8] x) => (float[n, 5] y) { y = MatMul(x, w) }'


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))


class Maker:
    """Makes bytes, and counts how often."""

    def __init__(self, data: bytes) -> None:
        self.data, self.calls = data, 0

    def __call__(self) -> bytes:
        self.calls += 1
        return self.data


def test_it_is_made_once() -> None:
    maker = Maker(b"abc")
    assert [kept(["a", b"b"], maker) for _ in range(3)] == [b"abc"] * 3
    assert maker.calls == 1
    assert kept(["ab"], Maker(b"other")) == b"other"
    assert kept(["a", "b", ""], Maker(b"third")) == b"third"


@pytest.mark.parametrize("damaged", [b"", b"abc", bytes(40)])
def test_a_damaged_file_is_made_again(damaged: bytes) -> None:
    maker = Maker(b"abc")
    kept(["a"], maker)
    ((_, _, path),) = compiled_files()
    path.write_bytes(damaged)
    assert kept(["a"], maker) == b"abc"
    assert kept(["a"], maker) == b"abc"
    assert maker.calls == 2


def test_not_used() -> None:
    maker = Maker(b"abc")
    with keeping(False):
        assert kept(["a"], maker) == kept(["a"], maker) == b"abc"
    assert (maker.calls, compiled_files()) == (2, [])


def test_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HOME")
    assert kept(["a"], Maker(b"abc")) == b"abc"
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/none")
    assert kept(["a"], Maker(b"abc")) == b"abc"


def test_a_full_disk_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", full)
    assert kept(["a"], Maker(b"abc")) == b"abc"
    assert compiled_files() == []


def test_what_a_file_is_made_from_is_asked_for_only_where_it_may_be_kept() -> None:
    def made_from() -> Iterator[str]:
        raise AssertionError
        yield ""

    with keeping(False):
        assert kept(made_from(), Maker(b"abc")) == b"abc"
    with pytest.raises(AssertionError):
        kept(made_from(), Maker(b"abc"))


def test_the_oldest_files_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caches, "MOST_BYTES", 5 * 132)
    for number in range(5):
        kept([str(number)], Maker(bytes(100)))
        for _, _, path in compiled_files():
            state = path.stat()
            os.utime(path, (state.st_atime - 10, state.st_mtime - 10))
    kept(["0"], Maker(b"never called"))  # used again, so it is not the oldest
    kept(["5"], Maker(bytes(100)))
    assert len(compiled_files()) == 3
    again = Maker(bytes(100))
    kept(["0"], again)
    assert again.calls == 0


def test_builds_have_the_same_bytes(tmp_path: Path) -> None:
    model = seeded(NET, {"w": (8, 5)})
    deploykit.build(model, output=tmp_path / "none", reuse=False)
    assert compiled_files() == []
    deploykit.build(model, output=tmp_path / "first")
    before = {path: path.stat().st_ino for _, _, path in compiled_files()}
    assert before
    deploykit.build(model, output=tmp_path / "second")
    assert before == {path: path.stat().st_ino for _, _, path in compiled_files()}
    files = [
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir() if path.name != "manifest.json"}
        for name in ("none", "first", "second")
    ]
    assert files[0] == files[1] == files[2]


def test_constants_that_differ_in_their_last_bit_are_not_confused(tmp_path: Path) -> None:
    text = '<ir_version: 10, opset_import: ["" : 21]> net (double[n] x) => (double[n] y) { y = Mul(x, c) }'
    x = np.array([1.0])
    for number, value in enumerate((0.1, float(np.nextafter(0.1, 1)), 1 / 3, float(np.nextafter(1 / 3, 0)))):
        model = onnx.parser.parse_model(text)
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([value]), "c"))
        deploykit.build(model, output=tmp_path / str(number))
        with deploykit.open(tmp_path / str(number)) as session:
            assert session.run({"x": x})["y"][0] == value


def test_a_changed_header_is_compiled_again(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text('#include "a.h"\nint f(void) { return A; }\n')
    compiler, objects = find_c_compiler(), []
    for number in (1, 2, 1):
        (tmp_path / "a.h").write_text(f"#define A {number}\n")
        compiler.compile_kept(tmp_path / "a.c", tmp_path / "a.o", "-O1")
        objects.append((tmp_path / "a.o").read_bytes())
    assert objects[0] == objects[2] != objects[1]
    compiler.compile_kept(tmp_path / "a.c", tmp_path / "a.o", "-O1", "-DB")
    compiler.compile_kept(tmp_path / "a.c", tmp_path / "a.o", "-O0")
    assert (tmp_path / "a.o").read_bytes() != objects[0]
