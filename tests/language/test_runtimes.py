"""Answers are the same on every runtime, in several texts at once."""

from __future__ import annotations

from pathlib import Path

import pytest

import deploykit
from tests.language.models import write_language_model
from tests.runtimes import HOST, Runtime


def answers(runtime: Runtime, path: Path) -> list[str]:
    with runtime.session(deploykit.load(path)) as session:
        session.reset({"pages": 6})
        asked = [session.generate(prompt, max_tokens=4, ignore_end=True) for prompt in ("hello", "w1 ab", "q")]
        return [answer.read() for answer in asked]


@pytest.mark.sampled(part=6)
@pytest.mark.slow
def test_answers(tmp_path: Path, runtime: Runtime) -> None:
    path = write_language_model(tmp_path / "model.gguf")
    assert answers(runtime, path) == answers(HOST, path)
