"""`pytest --slice`: the cases of sampled tests that run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SUITE = """
import pytest

@pytest.mark.sampled(part=4)
@pytest.mark.parametrize("case", range(400))
def test_sampled(case): pass

def test_always(): pass
"""


def collected(folder: Path, *options: str) -> set[str]:
    (folder / "test_suite.py").write_text(SUITE)
    (folder / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = sampled(part): see conftest.py\n")
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return {line for line in done.stdout.splitlines() if "::" in line}


def test_a_slice_is_a_part_that_its_name_alone_selects(tmp_path: Path) -> None:
    whole = collected(tmp_path)
    first, again, second = (collected(tmp_path, "--slice", name) for name in ("abc", "abc", "def"))
    assert len(whole) == 401
    assert first == again
    assert first != second
    for part in (first, second):
        assert "test_suite.py::test_always" in part
        assert part < whole
        assert 60 < len(part) < 150


def test_the_header_says_how_to_run_a_slice_again(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (tmp_path / "test_nothing.py").write_text("def test_nothing(): pass\n")
    command = [sys.executable, "-m", "pytest", "--slice", "abc", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "--slice abc" in done.stdout
