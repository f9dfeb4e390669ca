"""`make golden` rewrites the golden files of the tests that have some, and shows the difference."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.golden import show, users
from tests.imports import ROOT

PINNED = """
def test_pinned(golden): golden("new text")

def test_other(): raise AssertionError("it is not to run")
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with a golden file that holds another text."""
    folder = tmp_path / "tests"
    (folder / "golden" / "texts").mkdir(parents=True)
    (folder / "golden" / "texts" / "pinned.txt").write_text("old text")
    (folder / "test_texts.py").write_text(PINNED)
    (folder / "test_others.py").write_text("import no_such_module")
    (folder / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nmarkers =\n    sampled(part): see conftest.py\n    slow: the same\n"
    )
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for arguments in (["init", "-q"], ["add", "."], [*identity, "commit", "-q", "-m", "all"]):
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True)
    return tmp_path


def test_only_tests_with_golden_files_are_imported_and_run(project: Path) -> None:
    found = list(users([project / "tests"]))
    assert found == [str(project / "tests" / "test_texts.py")]
    script = (
        "import sys, pytest; from tests.golden import GoldenOnly\n"
        "sys.exit(pytest.main(['-q', '--update-golden', *sys.argv[1:]], plugins=[GoldenOnly()]))"
    )
    command = [sys.executable, "-c", script, *found]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    assert "1 passed, 1 deselected" in ran.stdout, ran.stdout + ran.stderr
    assert (project / "tests" / "golden" / "texts" / "pinned.txt").read_text() == "new text"


def test_the_difference_and_new_files_are_shown(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    golden = project / "tests" / "golden" / "texts"
    (golden / "pinned.txt").write_text("new text")
    show(project)
    shown = capfd.readouterr().out
    assert "1 file changed" in shown
    assert "-old text" in shown
    assert "+new text" in shown
    assert "no new golden files" in shown
    (golden / "added.txt").touch()
    show(project)
    assert "tests/golden/texts/added.txt" in capfd.readouterr().out
