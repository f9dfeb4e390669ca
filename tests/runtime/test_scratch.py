"""Temporary folders: removed at once, and those of killed processes by the next build."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import deploykit
from deploykit.basics import scratch
from deploykit.basics.scratch import PREFIX, Scratch, sweep
from tests.frontends.onnx.harness import parse

OWNER = """
import time
from deploykit.basics.scratch import Scratch

folder = Scratch()
print(folder.path, flush=True)
time.sleep(600)
"""

pytestmark = pytest.mark.skipif(scratch.fcntl is None, reason="needs locks of files")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def aged(folder: Path) -> Path:
    os.utime(folder, (1, 1))
    return folder


def test_a_folder_goes_with_its_block() -> None:
    with Scratch() as name:
        (Path(name) / "file").write_text("x")
    assert not Path(name).exists()


def test_folders_of_killed_processes_are_removed_by_a_build(place: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    folder = aged(Path(process.stdout.readline().strip()))
    (folder / "file").write_text("x")
    aged(folder)
    sweep()
    assert folder.exists(), "its owner lives"
    process.send_signal(signal.SIGKILL)
    process.wait()
    young = place / f"{PREFIX}young"
    young.mkdir()
    other = place / "deploykit-other"
    other.mkdir()
    aged(other)
    link = place / f"{PREFIX}link"
    link.symlink_to(other)
    deploykit.build(parse("(float[n] x) => (float[n] y) { y = Exp(x) }"), "embedded", {"n": (1, 4)}, place / "dist")
    assert not folder.exists()
    assert young.exists()
    assert other.exists()
    assert [path for path in place.glob(f"{PREFIX}*") if path not in (young, link)] == []


def test_a_session_that_lives_keeps_its_folder(place: Path) -> None:
    deploykit.build(parse("(float[n] x) => (float[n] y) { y = Exp(x) }"), output=place / "dist")
    with deploykit.open(place / "dist", profile=True):
        (folder,) = place.glob(f"{PREFIX}*")
        aged(folder)
        sweep()
        assert folder.exists()
    assert not folder.exists()
