"""README and the pages of ragged batches, streams, dynamic models and targets are right: their commands and programs
run unchanged."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from deploykit.artifact.devices import CODE
from deploykit.engines.native.adapters import adapters

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "targets").glob("*.md"))
README = ROOT / "README.md"
RAGGED = ROOT / "docs" / "ragged.md"
STREAMS = ROOT / "docs" / "streams.md"
BOARDS = ROOT / "docs" / "boards.md"
HUGGINGFACE = ROOT / "docs" / "huggingface.md"
DYNAMIC = ROOT / "docs" / "dynamic.md"
GUIDES = (README, RAGGED, STREAMS, DYNAMIC, HUGGINGFACE, BOARDS)
NOT_RUN = ("deploykit build model.onnx", "make demo")
"""Commands that are not run: one stands for the reader's own model, the other takes too long."""
SOURCES = {"c": "app.c", "js": "app.mjs", "html": "app.html", "java": "App.java", "kotlin": "app.kt", "kt": "app.kt"}
"""The files in which the commands of a page expect its programs, by language."""
HEADINGS = ["Prerequisites", "Build", "Integrate", "Run", "Limits"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_page_has_the_same_headings(page: Path) -> None:
    assert re.findall(r"^## (.*)", page.read_text(), re.MULTILINE) == HEADINGS


def test_every_target_has_a_page() -> None:
    from deploykit.targets.base import target_names

    assert [page.stem for page in PAGES] == list(target_names())


def compiler_commands(folder: Path) -> Path:
    """A folder with `cc` and `ar` from the Python package ziglang, for machines that have none."""
    folder.mkdir()
    for name in ("cc", "ar"):
        (folder / name).write_text(f'#!/bin/sh\nexec {sys.executable} -m ziglang {name} "$@"\n')
        (folder / name).chmod(0o755)
    return folder


def _asks_for_a_missing_device(text: str) -> bool:
    return any(f'"{driver}"' in text and not adapters(driver) for driver in CODE)


@pytest.mark.slow
@pytest.mark.parametrize("page", [*GUIDES, *PAGES], ids=lambda page: page.stem)
def test_the_commands_and_programs_of_a_page_work(page: Path, tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}:{compiler_commands(tmp_path / 'bin')}"
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT)}
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    for language, text in blocks:
        if language == "text" or text.startswith(NOT_RUN) or _asks_for_a_missing_device(text):
            continue
        if language in SOURCES:
            (tmp_path / SOURCES[language]).write_text(text)
            continue
        command = [sys.executable, "-c", text] if language == "python" else ["bash", "-euc", text]
        if page == BOARDS and not shutil.which("qemu-system-arm"):
            pytest.skip("needs qemu-system-arm")
        result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert result.returncode == 0, f"{text}\n{result.stdout}\n{result.stderr}"
