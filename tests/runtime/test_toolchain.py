"""Which compiler is found, and the errors when there is none or it fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import deploykit.sessions.session
from deploykit.artifact.folder import artifact_folder
from deploykit.basics import toolchain
from deploykit.errors import ToolchainError, UsageError
from deploykit.pipeline import write_artifact
from deploykit.targets.base import PackageOptions, find_target
from tests.runtime.programs import mlp

GCC = shutil.which("gcc")


def test_the_variable_cc_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", f"{GCC} -pipe")
    monkeypatch.setenv("CFLAGS", "-g1 -DX='a b'")
    compiler = toolchain.find_c_compiler()
    assert (compiler.command, compiler.flags) == ((GCC, "-pipe"), ("-g1", "-DX=a b"))
    assert compiler.family == "gcc"
    assert "gcc" in compiler.version


def test_path_then_ziglang(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert toolchain.find_c_compiler().command[:4] == (sys.executable, "-m", "ziglang", "cc")
    (tmp_path / "gcc").symlink_to(GCC or "")
    assert toolchain.find_c_compiler().command == (str(tmp_path / "gcc"),)
    (tmp_path / "cc").symlink_to(GCC or "")
    assert toolchain.find_c_compiler().command == (str(tmp_path / "cc"),)


def test_ziglang_compiles_for_any_cpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CC", f"{sys.executable} -m ziglang cc")
    (tmp_path / "cpu.c").write_text("#if defined __AVX__ || defined __ARM_FEATURE_DOTPROD\n#error\n#endif\nint x;\n")
    toolchain.find_c_compiler().compile(tmp_path / "cpu.c", tmp_path / "cpu.o")


def test_no_compiler_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(toolchain.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ToolchainError, match="no C compiler found: install one"):
        toolchain.find_c_compiler()


def test_a_compiler_that_fails(tmp_path: Path) -> None:
    (tmp_path / "broken.c").write_text("int main(void) { return x; }\n")
    with pytest.raises(ToolchainError, match=r"broken\.c[\s\S]*failed with exit code 1[\s\S]*undeclared"):
        toolchain.find_c_compiler().compile(tmp_path / "broken.c", tmp_path / "broken.o")
    gone = toolchain.Compiler((str(tmp_path / "gone"),), "gcc", "")
    with pytest.raises(ToolchainError, match="gone cannot be started"):
        gone.compile(tmp_path / "broken.c", tmp_path / "broken.o")


def test_undefined_symbols_are_errors(tmp_path: Path) -> None:
    (tmp_path / "calls.c").write_text("void missing(void);\nvoid f(void) { missing(); }\n")
    compiler = toolchain.find_c_compiler()
    compiler.compile(tmp_path / "calls.c", tmp_path / "calls.o", "-fPIC")
    with pytest.raises(ToolchainError, match="missing"):
        compiler.link_shared([tmp_path / "calls.o"], tmp_path / "libcalls.so")


@pytest.mark.slow
@pytest.mark.parametrize("target", ["host", "embedded"])
def test_ziglang_builds_artifacts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, target: str) -> None:
    monkeypatch.setenv("CC", f"{sys.executable} -m ziglang cc")
    program, reference = mlp()
    write_artifact([program], find_target(target), tmp_path / "dist", PackageOptions())
    x = np.ones((3, 8), np.float32)
    with deploykit.sessions.session.open(tmp_path / "dist") as session:
        np.testing.assert_allclose(session(x=x)["y"], reference(x), rtol=1e-5)


def test_the_library_exports_only_its_interface(tmp_path: Path) -> None:
    write_artifact([mlp()[0]], find_target("host"), tmp_path / "dist", PackageOptions())
    symbols = os.popen(f"nm -D --defined-only {tmp_path}/dist/libmlp.so").read().split()[2::3]
    assert {symbol for symbol in symbols if not symbol.startswith("dk_")} == {
        *("mlp_init", "mlp_bind", "mlp_run", "mlp_arena_bytes", "mlp_output_shape", "mlp_last_error"),
        "mlp_descriptor",
    }


@pytest.mark.parametrize("home", [None, "/proc/nothing"])
def test_a_compiler_without_a_home_keeps_its_cache_elsewhere(home: str | None, tmp_path: Path) -> None:
    """In containers, for instance, neither HOME nor the cache folder may be writable."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("HOME", "XDG_", "ZIG_", "TMPDIR"))
    }
    environment = kept | {"TMPDIR": str(tmp_path)} | ({} if home is None else {"HOME": home})
    script = "from deploykit.basics.toolchain import find_wasm_compiler as f; print(f().family)"
    found = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert found.stdout == "zig\n", found.stderr
    assert list(tmp_path.glob("deploykit-zig-*"))
    environment["TMPDIR"] = "/proc"
    script = "import tempfile; tempfile.tempdir = '/proc'; " + script
    found = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert "set ZIG_GLOBAL_CACHE_DIR to one" in found.stderr


def test_a_full_disk_is_not_blamed_on_the_compiler(tmp_path: Path) -> None:
    script = tmp_path / "cc"
    script.write_text("#!/bin/sh\necho 'error: unable to write: No space left on device' >&2\nexit 1\n")
    script.chmod(0o755)
    compiler = toolchain.Compiler((str(script),), "gcc", "1")
    with pytest.raises(UsageError, match="the disk is full"), artifact_folder(tmp_path / "dist"):
        compiler.compile(tmp_path / "a.c", tmp_path / "a.o")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cc"]
