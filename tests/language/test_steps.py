"""A model that reads texts part by part gives the scores that transformers gives for whole texts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deploykit.frontends.huggingface.generation import SCORES, import_step
from deploykit.frontends.memory import page_of
from tests.frontends.huggingface.cases import CASES
from tests.frontends.huggingface.seeds import write_folder
from tests.frontends.huggingface.test_families import Golden, close, golden
from tests.language.steps import Steps
from tests.runtimes import Runtime

NAMES = [name for name, case in CASES.items() if case.architecture.endswith(SCORES)]

EVERYWHERE = ("llama3", "mistral", "gemma2", "falcon-alibi", "lfm2")
"""Those that run on all runtimes: positions that are scaled, a window, scores with a bound, positions that are added to
scores, and states."""


def texts_of(stored: Golden) -> list[tuple[np.ndarray, np.ndarray]]:
    """Each text alone, with its scores."""
    found = []
    for inputs, expected in stored.runs():
        for ids, mask, scores in zip(
            inputs["input_ids"], inputs["attention_mask"].astype(bool), expected["logits"], strict=True
        ):
            found.append((ids[mask], scores[mask]))
    return found


def check(stored: Golden, run: Steps, seed: int) -> None:
    """Texts in parts of random lengths, several sequences in a step."""
    random = np.random.default_rng(seed)
    waiting = texts_of(stored)
    going: dict[int, tuple[np.ndarray, np.ndarray, int]] = {}
    while waiting or going:
        while waiting and len(going) < 3:
            ids, scores = waiting.pop()
            going[run.begin()] = (ids, scores, 0)
        parts = []
        for sequence, (ids, _, start) in going.items():
            parts.append((sequence, ids[start : start + int(random.integers(1, 6))]))
        for (sequence, part), found in zip(parts, run(*parts), strict=True):
            ids, scores, start = going.pop(sequence)
            close(found, scores[start : start + len(part)], stored.case)
            if start + len(part) < len(ids):
                going[sequence] = (ids, scores, start + len(part))
            else:
                run.pages.end(sequence)
    assert run.pages.unused == run.pages.count


@pytest.mark.sampled(part=16)
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_families(tmp_path: Path, name: str, runtime: Runtime) -> None:
    if runtime.name != "host" and name not in EVERYWHERE:
        pytest.skip("on the host alone")
    stored = golden(name)
    write_folder(tmp_path / "model", stored.config, stored.shapes)
    found = import_step(tmp_path / "model", {"pages": (1, 16)})
    with runtime.session(found.model) as session:
        session.reset({"pages": 8})
        size = page_of(found.memory)
        check(stored, Steps(session.run, 8, blocks=-(-found.context // size), window=found.window, size=size), 3)
