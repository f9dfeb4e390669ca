"""Runs the tests that a change is most likely to break, for at most two minutes.

    python -m tests.near [FILE...] [--list] [--seconds 120]

Without files: those that differ from the branch `main`, or from the last commit. `make near FILES="..."` does the same.

The tests that reach a file are those whose imports lead to it (`tests/imports.py`). The nearest come first: by the
number of imports in between, less one for each folder that both have in common, then those that import less else.
`HOMES` tells which folder of tests is about which folder. A test module there with the name of a file counts as if it
imported it; one that has the name in its text, as if there were one module in between. Files that nothing imports, such
as C and templates, are reached by all tests there; data of a test, by the test that has its name.

Test modules are taken until their short tests are expected to fill the time. Slow tests are left out, and of sampled
ones, those run that `make test` would run. Once the time is over, what is left is not run; the last line says how much.
"""

from __future__ import annotations

import ast
import re
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path, PurePosixPath
from subprocess import run

import pytest

from tests.imports import ROOT, imports, modules, name_of

PACKAGES = ("deploykit", "tests", "bench", "tools", "apps")

HOMES = {
    "deploykit/runtime/js": "tests/web",
    "deploykit/runtime/wasm": "tests/web",
    "deploykit/targets/webgpu": "tests/web",
    "deploykit/engines/web": "tests/web",
    "package.json": "tests/web",
    "tsconfig.json": "tests/web",
    "deploykit/runtime/android": "tests/android",
    "deploykit/targets/android": "tests/android",
    "deploykit/runtime/answers": "tests/answers",
    "deploykit/runtime/pictures": "tests/answers",
    "deploykit/runtime/sounds": "tests/answers",
    "deploykit/runtime/text": "tests/text",
    "deploykit/runtime/texts": "tests/frontends/huggingface",
    "deploykit/runtime/batching": "tests/dynamic",
    "deploykit/frontends/python": "tests/dynamic",
    "deploykit/compiler/operators": "tests/frontends/onnx",
    "deploykit/runtime/gpu": "tests/driver",
    "deploykit/targets": "tests/runtime",
    "deploykit/engines": "tests/runtime",
    "deploykit": "tests",
    "apps": "tests/apps",
    "bench": "tests/bench",
    "docs": "tests/docs",
    "README.md": "tests/docs",
    "CONTRIBUTING.md": "tests/docs",
    "CHANGELOG.md": "tests/docs",
    "SECURITY.md": "tests/docs",
    ".github": "tests/docs",
    "typings": "tests/structure",
}
"""The folder of tests for a file or a folder; what lies below goes on below, if there is such a folder."""

TESTS = PurePosixPath("tests")

SOURCES_ARE_READ = ("tests.structure.test_arrows", "tests.structure.test_circles")
"""Tests of every Python file of deploykit: they read it."""

SECONDS_A_TEST = 0.7
"""What a short test takes on average, with its share of imports."""


@dataclass(frozen=True)
class Near:
    """A test module that reaches a changed file over `distance` imports. `shared` is the number of common folders,
    `others` that of all modules that it imports."""

    path: str
    distance: int
    shared: int
    others: int
    reason: str

    @property
    def order(self) -> tuple[int, int, int, str]:
        nearness = self.distance - self.shared if self.distance else -100
        return (nearness, self.distance, self.others, self.path)


def home(file: str) -> PurePosixPath:
    """The folder of tests for a file."""
    path = PurePosixPath(file)
    if path.parts[0] == "tests":
        return next(
            parent for parent in path.parents if list((ROOT / parent).glob("test_*.py")) or parent.name == "tests"
        )
    place = next((place for place in (path, *path.parents) if str(place) in HOMES), None)
    found = TESTS if place is None else PurePosixPath(HOMES[str(place)])
    for part in path.parent.parts[len(place.parts) :] if place is not None else ():
        if not (ROOT / found / part).is_dir():
            break
        found /= part
    return found


def _names(file: str) -> set[str]:
    """The names that the tests of a file may have: its own, and for data of a test those of its folders."""
    path = PurePosixPath(file)
    parts = path.parts[1:] if path.parts[0] == "tests" else path.parts[-1:]
    return {part.partition(".")[0].lower().replace("-", "_") for part in parts}


@cache
def test_files() -> Mapping[str, str]:
    """The test modules by dotted name."""
    found = {name: str(path.relative_to(ROOT)) for name, path in modules("tests").items()}
    return {name: path for name, path in found.items() if PurePosixPath(path).name.startswith("test_")}


@cache
def _tests_by_name() -> Mapping[str, Sequence[str]]:
    found: dict[str, list[str]] = {}
    for test in test_files():
        found.setdefault(test.rpartition(".test_")[2], []).append(test)
    return found


@cache
def _importers() -> Mapping[str, AbstractSet[str]]:
    """What imports each module, or has its name."""
    found: dict[str, set[str]] = {}
    for module, others in imports(*PACKAGES).items():
        for other in others:
            found.setdefault(other, set()).add(module)
    for module, path in modules("deploykit").items():
        file = str(path.relative_to(ROOT))
        folders = (home(file), *home(file).parents)
        for test in _tests_by_name().get(path.stem, ()):
            if PurePosixPath(test_files()[test]).parent in folders:
                found.setdefault(module, set()).add(test)
    return found


def _reached(module: str) -> dict[str, tuple[int, str]]:
    """What imports a module, directly or through others: over how many imports, and the module before the last one."""
    found = {module: (0, module)}
    waiting = [module]
    for each in waiting:
        for importer in sorted(_importers().get(each, ())):
            if importer not in found:
                found[importer] = (found[each][0] + 1, each)
                waiting.append(importer)
    return found


def _by_imports(file: str) -> Iterator[Near]:
    module = name_of(ROOT / file) if file.endswith(".py") else ""
    if module not in modules(*PACKAGES):
        return
    reached = _reached(module)
    for test in reached.keys() & test_files().keys():
        distance, before = reached[test]
        about = "imports it" if module in imports(*PACKAGES)[test] else "has its name"
        yield _near(test, file, distance, ["is changed", about][distance] if distance < 2 else f"uses {before}")
    if module.startswith("deploykit"):
        yield from (_near(test, file, 1, "reads all sources") for test in SOURCES_ARE_READ)


def _by_name(file: str, *, alone: bool) -> Iterator[Near]:
    """Tests in the home of a file by its name. `alone`: no import leads from the file to a test."""
    folder = home(file)
    below = [test for test, path in test_files().items() if folder in PurePosixPath(path).parents]
    named = [test for test in below if test.rpartition(".test_")[2] in _names(file)]
    if alone and folder != TESTS:
        yield from (_near(test, file, 1, "has its name") for test in named)
        if not (named and file.startswith("tests/")):
            yield from (_near(test, file, 3, f"is in {folder}") for test in below)
    if alone or folder != TESTS:
        name = PurePosixPath(file).name if folder == TESTS else PurePosixPath(file).name.partition(".")[0]
        word = re.compile(rf"\b{re.escape(name).replace('_', '_?')}\b", re.IGNORECASE)
        texts = {test: (ROOT / test_files()[test]).read_text(encoding="utf-8") for test in below}
        yield from (_near(test, file, 2, "has its name in the text") for test in below if word.search(texts[test]))


def _near(test: str, file: str, distance: int, reason: str) -> Near:
    path = test_files()[test]
    pairs = zip(PurePosixPath(path).parent.parts[1:], home(file).parts[1:], strict=False)
    shared = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
    return Near(path, distance, shared, len(imports(*PACKAGES)[test]), reason)


def near(files: Sequence[str]) -> list[Near]:
    """The test modules that files reach, the nearest first."""
    best: dict[str, Near] = {}
    for file in files:
        imported = list(_by_imports(file))
        for each in (*imported, *_by_name(file, alone=not imported)):
            if each.path not in best or each.order < best[each.path].order:
                best[each.path] = each
    return sorted(best.values(), key=lambda each: each.order)


def short_tests(path: Path) -> int:
    """The number of test functions of a module that are not slow."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    marks = [
        node for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    ]
    if any("mark.slow" in ast.unparse(mark) for mark in marks):
        return 0
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    return sum(not any("mark.slow" in ast.unparse(mark) for mark in each.decorator_list) for each in functions)


def within(found: Sequence[Near], seconds: float) -> list[Near]:
    """The nearest test modules with short tests that are expected to fill the time."""
    taken = []
    for each in found:
        if seconds <= 0:
            break
        tests = short_tests(ROOT / each.path)
        if tests:
            taken.append(each)
            seconds -= tests * SECONDS_A_TEST
    return taken


def changed() -> list[str]:
    """The files that differ from `main`, or from the last commit where that is the same; and new ones."""
    base = _git("merge-base", "HEAD", "main") or ["HEAD"]
    return sorted(
        {*_git("diff", "--name-only", "--diff-filter=d", *base), *_git("ls-files", "-o", "--exclude-standard")}
    )


def _git(*arguments: str) -> list[str]:
    return run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()


class Deadline:
    """Runs no further test once the time is over, and says how many are left."""

    def __init__(self, end: float) -> None:
        self.end, self.left = end, 0

    def pytest_runtest_protocol(self) -> bool | None:
        if time.monotonic() < self.end:
            return None
        self.left += 1
        return True

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.left:
            terminalreporter.write_line(f"The time is over: {self.left} tests were not run; --seconds gives more time.")


def main(arguments: Sequence[str]) -> int:
    started = time.monotonic()
    parser = ArgumentParser("python -m tests.near", description="Runs the tests that are nearest to files.")
    parser.add_argument("files", nargs="*", help="by default those that differ from the branch main")
    parser.add_argument("--list", action="store_true", help="says which test modules are near, and why; runs nothing")
    parser.add_argument("--seconds", type=float, default=120)
    given = parser.parse_args(arguments)
    missing = [file for file in given.files if not Path(file).exists()]
    if missing:
        parser.error(f"there is no file {missing[0]}")
    files = [str(Path(file).resolve().relative_to(ROOT)) for file in given.files] or changed()
    found = near(files)
    taken = within(found, given.seconds)
    names = ", ".join(files[:3]) + (f" and {len(files) - 3} more files" if len(files) > 3 else "")
    print(
        f"{len(found)} test modules reach {names or 'nothing: no file has changed'}. The nearest {len(taken)} run, in:"
    )
    print("  " + ", ".join(dict.fromkeys(str(PurePosixPath(each.path).parent) for each in taken)))
    if given.list:
        for each in taken:
            print(f"{each.path}: {each.reason}")
    if given.list or not taken:
        return 0
    slice_ = _git("rev-parse", "HEAD") or ["all"]
    options = ["-q", "-m", "not slow", "--slice", *slice_, *(each.path for each in taken)]
    return int(pytest.main(options, plugins=[Deadline(started + given.seconds)]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
