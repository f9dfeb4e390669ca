"""Building and opening programs on every target that runs here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

from deploykit.compiler.program.ir import Program
from deploykit.session import Session
from deploykit.targets.base import PackageOptions, find_target, write_artifact


class Opener(Protocol):
    """`run(program)` packages a program and opens it."""

    target: str

    def __call__(self, program: Program, **options: int) -> Session: ...


@pytest.fixture(autouse=True)
def strict_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """No C that is compiled here may draw a warning."""
    monkeypatch.setenv("CFLAGS", "-Wall -Wextra -Wpedantic -Werror")


@pytest.fixture(params=["host", "sanitized"])
def target(request: pytest.FixtureRequest) -> str:
    """A target; `sanitized` is embedded in an instrumented process."""
    return str(request.param)


@pytest.fixture
def run(target: str, tmp_path: Path) -> Iterator[Opener]:
    """Sessions are closed after the test."""
    with ExitStack() as sessions:
        yield ProgramOpener(target, tmp_path, sessions)


@dataclass(frozen=True)
class ProgramOpener:
    target: str
    folder: Path
    sessions: ExitStack

    def __call__(self, program: Program, **options: int) -> Session:
        folder = self.folder / program.name
        sanitize = self.target == "sanitized"
        write_artifact(program, find_target("embedded" if sanitize else self.target), folder, PackageOptions())
        return self.sessions.enter_context(Session(folder, sanitize=sanitize, **options))
