"""Building and opening programs on every target that runs here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import onnx
import pytest

from deploykit.compiler.program.ir import ALIGNMENT, Step
from deploykit.compiler.program.variants import joined
from deploykit.pipeline import write_artifact
from deploykit.sessions.session import Session
from deploykit.targets.base import PackageOptions
from tests.runtime.programs import Draft
from tests.runtimes import Runtime
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


@pytest.fixture(scope="session")
def model() -> onnx.ModelProto:
    """A network of convolutions and products with symbolic batch and height."""
    return seeded(MODEL, WEIGHTS)


@pytest.fixture(autouse=True)
def strict_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """C code that is compiled here must give no warnings."""
    monkeypatch.setenv("CFLAGS", "-Wall -Wextra -Wpedantic -Werror")


@dataclass(frozen=True)
class Opener:
    """Packages the program of a draft for a runtime and opens it."""

    runtime: Runtime
    folder: Path
    sessions: ExitStack

    @property
    def alignment(self) -> int:
        """The alignment of buffers, in bytes."""
        gpus = [variant.gpu for variant in self.runtime.target().variants(self.runtime.cpu, self.runtime.devices)]
        return max(ALIGNMENT if gpu is None else gpu.alignment for gpu in gpus)

    def __call__(self, draft: Draft, *steps: Step) -> Session:
        target = self.runtime.target()
        options = PackageOptions(cpu=self.runtime.cpu, devices=self.runtime.devices)
        variants = target.variants(options.cpu, options.devices)
        programs = joined([replace(draft.program(*steps, gpu=v.gpu), cpu=v.cpu) for v in variants])
        write_artifact(programs, target, self.folder / draft.name, options)
        return self.sessions.enter_context(self.runtime.open(self.folder / draft.name))


@pytest.fixture
def run(runtime: Runtime, tmp_path: Path) -> Iterator[Opener]:
    """Sessions are closed after the test."""
    with ExitStack() as sessions:
        yield Opener(runtime, tmp_path, sessions)
