"""`pytest --slice` selects cases of sampled tests; known failures of runtimes must fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SUITE = """
import pytest

@pytest.mark.sampled(part=4)
@pytest.mark.parametrize("case", range(400))
def test_sampled(case): pass

@pytest.mark.slow
@pytest.mark.parametrize("case", range(300))
def test_slow(case): pass

def test_always(): pass
"""


def pytest_of(folder: Path, suite: str, *options: str, conftest: str = "") -> str:
    """The output of pytest for a suite beside the conftest of these tests, to which `conftest` is appended."""
    (folder / "test_suite.py").write_text(suite)
    (folder / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text() + conftest)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    sampled(part): see conftest.py\n    slow: the same\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options]
    path = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=path, capture_output=True, text=True, check=False).stdout


def collected(folder: Path, *options: str) -> set[str]:
    return {line for line in pytest_of(folder, SUITE, "--collect-only", "-q", *options).splitlines() if "::" in line}


@pytest.mark.slow
def test_the_name_alone_selects_the_cases_of_a_slice(tmp_path: Path) -> None:
    whole = collected(tmp_path)
    first, again, second = (collected(tmp_path, "--slice", name) for name in ("abc", "abc", "def"))
    assert len(whole) == 701
    assert first == again
    assert first != second
    for part in (first, second):
        assert "test_suite.py::test_always" in part
        assert part < whole
        assert 60 < sum("test_sampled" in case for case in part) < 140
        assert 8 < sum("test_slow" in case for case in part) < 50


def test_the_header_says_how_to_run_a_slice_again(tmp_path: Path) -> None:
    assert "--slice abc" in pytest_of(tmp_path, "def test_nothing(): pass", "--slice", "abc")


def test_known_failures_of_a_runtime_must_fail(tmp_path: Path) -> None:
    suite = """
import pytest

@pytest.mark.parametrize("size", [1, 2])
def test_each(runtime, size): assert (runtime.name, size) != ("embedded", 2)
"""
    (tmp_path / "embedded.txt").write_text("test_suite.py::test_each[2]: it is too small\n")
    (tmp_path / "host.txt").write_text("test_suite.py::test_each[1]: nobody knows\n")
    listed = f"import tests.runtimes\ntests.runtimes.EXCEPTIONS = Path({str(tmp_path)!r})\n"
    printed = pytest_of(tmp_path, suite, "-rA", conftest=f"\nfrom pathlib import Path\n{listed}")
    assert "XFAIL test_suite.py::test_each[embedded-2] - it is too small" in printed
    assert "PASSED test_suite.py::test_each[embedded-1]" in printed
    assert "FAILED test_suite.py::test_each[host-1]" in printed, "a known failure passes"
