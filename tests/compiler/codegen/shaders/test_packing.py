"""Packed modules of SPIR-V: the C that unpacks them gives the same words, and reads no damaged file out of bounds."""

from __future__ import annotations

import ctypes
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import deploykit
from bench.models.mobilenet import mobilenet
from deploykit import runtime
from deploykit.artifact.devices import CODE
from deploykit.compiler.codegen.host.gpu import code_hash
from deploykit.compiler.codegen.shaders.spirv.numbers import Op
from deploykit.compiler.codegen.shaders.spirv.packing import pack
from deploykit.compiler.codegen.shaders.spirv.shader import spirv
from deploykit.engines.native.sanitized import SANITIZERS
from deploykit.targets.host import HostTarget
from tests.compiler.codegen.shaders.harness import program_of
from tests.compiler.codegen.shaders.spirv_tools import FUNCTIONS, texts_of
from tests.compiler.codegen.shaders.test_spirv import BODIES, MODELS, translated

HERE = Path(__file__).parent
OPTIONS = ("-std=c99", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", f"-I{runtime.GPU}")
SOURCES = [path for path in (*runtime.UNPACK, *runtime.WORK) if path.suffix == ".c"]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    path = tmp_path_factory.mktemp("unpack") / "libunpack.so"
    subprocess.run(["gcc", *OPTIONS, "-shared", "-fPIC", *SOURCES, "-o", path], check=True)
    found = ctypes.CDLL(str(path))
    found.dk_unpack.restype = ctypes.POINTER(ctypes.c_char)
    found.dk_unpack.argtypes = (ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64)
    found.dk_hash.restype = ctypes.c_uint64
    found.dk_hash.argtypes = (ctypes.c_uint64, ctypes.c_char_p, ctypes.c_size_t)
    return found


@pytest.fixture(scope="module")
def damaging(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that damages files, with sanitizers."""
    path = tmp_path_factory.mktemp("damaging") / "unpack"
    subprocess.run(["gcc", *OPTIONS, *SANITIZERS, HERE / "unpack.c", *SOURCES, "-o", path], check=True)
    return path


def unpacked(library: ctypes.CDLL, packed: bytes, size: int) -> bytes:
    found = library.dk_unpack(packed, len(packed), size)
    try:
        return found[:size]
    finally:
        ctypes.CDLL(None).free(found)


def require_same(library: ctypes.CDLL, modules: Sequence[bytes]) -> bytes:
    packed = pack(modules)
    assert unpacked(library, packed, sum(map(len, modules))) == b"".join(modules)
    return packed


def modules_of(name: str) -> list[bytes]:
    """All modules of a model."""
    _, shaders = program_of(MODELS[name]())
    return [spirv(text) for text in dict.fromkeys(text for shader in shaders for _, text in texts_of(shader))]


def test_modules_of_all_statements_and_functions(library: ctypes.CDLL) -> None:
    modules = [*map(translated, BODIES.values()), *map(spirv, FUNCTIONS.values())]
    for module in modules:
        require_same(library, [module])
    assert len(require_same(library, modules)) < sum(map(len, modules)) / 20


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_models(library: ctypes.CDLL, name: str) -> None:
    modules = modules_of(name)
    assert len(require_same(library, modules)) < sum(map(len, modules)) / 6
    assert pack(modules) == pack(modules)


_OPERATIONS = st.sampled_from([Op.CONSTANT, Op.FUNCTION, Op.VARIABLE, Op.LOAD, Op.STORE, Op.TYPE_INT, Op.LABEL, 60000])
_WORDS = st.one_of(
    st.integers(0, 2**32 - 1),
    st.integers(0, 12),
    st.builds(lambda count, operation: count << 16 | operation, st.integers(0, 20), _OPERATIONS),
)


@given(st.lists(st.lists(_WORDS, min_size=1, max_size=60), max_size=4))
@settings(max_examples=300, deadline=None)
@example([[2**32 - 1] * 60, [0] * 60, [0xFFFFFFFF, 0] * 9])
def test_any_words(library: ctypes.CDLL, modules: list[list[int]]) -> None:
    """Words that are no module, such as instructions that are longer than the rest, are packed as well."""
    require_same(library, [struct.pack(f"<{len(words)}I", *words) for words in modules])


@pytest.mark.parametrize("name", ["mlp", "halves"])
def test_damaged_files(damaging: Path, name: str, tmp_path: Path) -> None:
    """Of one byte or the end of the file: nothing is read or written out of bounds, and the code has another hash."""
    modules = modules_of(name)
    (tmp_path / "packed").write_bytes(pack(modules))
    (tmp_path / "code").write_bytes(b"".join(modules))
    command: list[str | Path] = [damaging, tmp_path / "packed", tmp_path / "code", "150"]
    done = subprocess.run(command, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    assert int(done.stdout) < 10  # the last bits may be of no importance


def test_files_of_any_bytes(damaging: Path, tmp_path: Path) -> None:
    code = bytes(range(1, 251)) * 16
    (tmp_path / "code").write_bytes(code)
    (tmp_path / "packed").write_bytes(pack([code]))
    for data in (b"", b"\xff" * 300, b"\0" * 300, bytes(range(256))):
        (tmp_path / "any").write_bytes(data)
        done = subprocess.run([damaging, tmp_path / "any", tmp_path / "code", "0"], check=False, capture_output=True)
        assert done.returncode == 1, done.stderr.decode()
    done = subprocess.run([damaging, tmp_path / "packed", tmp_path / "code", "0"], check=False, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 1000])
def test_the_hash_of_code(library: ctypes.CDLL, size: int) -> None:
    data = bytes(5 * number % 251 for number in range(size))
    assert code_hash(data) == library.dk_hash(0, data, size)


@pytest.mark.slow
def test_the_size_of_mobilenet(tmp_path: Path) -> None:
    """The least of packages that people measure: it may not grow unnoticed."""
    deploykit.build(mobilenet(), HostTarget(), {"batch": (1, 8)}, tmp_path / "dist", devices=("vulkan",))
    assert (tmp_path / "dist" / CODE["vulkan"]).stat().st_size < 12_200
