"""Building and opening programs on every target that runs here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from deploykit.compiler.program.ir import Program
from deploykit.session import Session
from deploykit.targets.base import PackageOptions, find_target, write_artifact

Opener = Callable[..., Session]


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
    """`run(program)` packages a program and opens it; sessions are closed after the test."""
    with ExitStack() as sessions:

        def open_program(program: Program, **options: int) -> Session:
            folder = tmp_path / program.name
            sanitize = target == "sanitized"
            write_artifact(program, find_target("embedded" if sanitize else target), folder, PackageOptions())
            return sessions.enter_context(Session(folder, sanitize=sanitize, **options))

        yield open_program
