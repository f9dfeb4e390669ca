"""Building and opening programs on every target that runs here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import onnx
import pytest

from deploykit.compiler.program.ir import Program
from deploykit.pipeline import write_artifact
from deploykit.session import Session
from deploykit.targets.base import PackageOptions, find_target
from tests.seeded import seeded

MODEL = """<ir_version: 9, opset_import: ["": 20]>
small (float[n, 3, h, 20] x) => (float[n, 10] y) {
    a = Conv<strides=[2, 2], pads=[1, 1, 1, 1]>(x, w1)
    b = Relu(a)
    c = Conv(b, w2)
    d = MaxPool<kernel_shape=[2, 2], strides=[2, 2]>(c)
    e = GlobalAveragePool(d)
    f = Flatten(e)
    g = MatMul(f, w3)
    i = Tanh(g)
    k = MatMul(i, w4)
    y = Softmax<axis=-1>(k)
}"""
WEIGHTS = {"w1": (24, 3, 3, 3), "w2": (40, 24, 1, 1), "w3": (40, 70), "w4": (70, 10)}


class Opener(Protocol):
    """`run(program)` packages a program and opens it."""

    target: str

    def __call__(self, program: Program, **options: int) -> Session: ...


@pytest.fixture(scope="session")
def model() -> onnx.ModelProto:
    """A network of convolutions and products with symbolic batch and height."""
    return seeded(MODEL, WEIGHTS)


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
        write_artifact([program], find_target("embedded" if sanitize else self.target), folder, PackageOptions())
        return self.sessions.enter_context(Session(folder, sanitize=sanitize, **options))
