"""`make near` runs the tests that are nearest to a change, and ends in time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.imports import ROOT
from tests.near import HOMES, Near, near, short_tests, within


def order(*files: str) -> list[str]:
    return [each.path for each in near(files)]


def test_tests_that_import_a_module_come_before_those_that_import_its_importers() -> None:
    found = order("deploykit/compiler/program/arena.py")
    assert {*found[:2]} == {"tests/compiler/program/test_arena.py", "tests/compiler/program/test_picture.py"}
    listing, pages = found.index("tests/compiler/program/test_listing.py"), found.index("tests/web/test_package.py")
    assert 2 <= listing < pages
    assert "tests/tasks/test_boxes.py" not in found


def test_a_test_of_the_same_name_is_near_though_it_imports_nothing() -> None:
    assert order("deploykit/frontends/onnx/ops/pooling.py")[0] == "tests/frontends/onnx/test_pooling.py"
    assert order("deploykit/cli/run.py")[0] == "tests/cli/test_run.py"


def test_a_test_that_is_changed_comes_first() -> None:
    assert order("deploykit/compiler/program/arena.py", "tests/text/test_regex.py")[0] == "tests/text/test_regex.py"


def test_a_helper_of_tests_is_reached_by_those_that_import_it() -> None:
    assert order("tests/dynamic/gates.py")[0] == "tests/dynamic/test_gates.py"


@pytest.mark.parametrize(
    ("file", "folder", "first"),
    [
        ("deploykit/runtime/js/texts.mjs", "tests/web", "test_texts.py"),
        ("deploykit/targets/android/templates/java/Texts.java.j2", "tests/android", "test_texts.py"),
        ("deploykit/runtime/batching/records.c", "tests/dynamic", "test_records.py"),
        ("deploykit/runtime/text/bpe.c", "tests/text", ""),
        ("docs/ragged.md", "tests/docs", ""),
        ("package.json", "tests/web", ""),
        (".github/ISSUE_TEMPLATE/crash.yml", "tests/docs", ""),
    ],
)
def test_files_that_nothing_imports_belong_to_a_folder(file: str, folder: str, first: str) -> None:
    assert (ROOT / file).exists()
    found = order(file)
    assert {str(Path(path).parent) for path in found} == {folder}
    assert found[0].endswith(first)


def test_a_golden_file_belongs_to_its_test() -> None:
    (file, *_) = sorted((ROOT / "tests/compiler/codegen/golden/c_kernels").iterdir())
    assert order(str(file.relative_to(ROOT))) == ["tests/compiler/codegen/test_c_kernels.py"]


def test_other_files_are_reached_by_tests_that_name_them() -> None:
    found = order("Makefile")
    assert "tests/docs/test_versions.py" in found
    assert "tests/text/test_regex.py" not in found


def test_homes_exist() -> None:
    assert [path for pair in HOMES.items() for path in pair if not (ROOT / path).exists()] == []


SUITE = """
import time
import pytest

def test_first(): time.sleep(0.4)

class TestMore:
    @pytest.mark.parametrize("case", range(3))
    def test_more(self, case): time.sleep(0.4)

@pytest.mark.slow
def test_slow(): assert False
"""


def test_modules_are_taken_until_their_short_tests_fill_the_time(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    (tmp_path / "test_all_slow.py").write_text(f"import pytest\npytestmark = [pytest.mark.slow]\n{SUITE}")
    assert short_tests(tmp_path / "test_suite.py") == 2
    found = [Near(str(tmp_path / name), 1, 0, 0, "") for name in ("test_suite.py", "test_all_slow.py", "test_suite.py")]
    assert within(found, 1) == found[:1]
    assert within(found, 1.5) == [found[0], found[2]]


def test_what_is_left_when_the_time_is_over_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    slow: takes long\n")
    script = (
        "import time, pytest; from tests.near import Deadline; start = []\n"
        "class Begin(Deadline):\n"
        "    def pytest_collection_finish(self): self.end = time.monotonic() + 0.6\n"
        "raise SystemExit(pytest.main(['-q', '-m', 'not slow', '.'], plugins=[Begin(0)]))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "The time is over: 2 tests were not run" in ran.stdout
    assert "2 passed" in ran.stdout


def test_a_file_that_does_not_exist_is_refused() -> None:
    command = [sys.executable, "-m", "tests.near", "deploykit/no_such.py"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "there is no file deploykit/no_such.py" in ran.stderr
