"""Models with positions that are added to scores: caches of fewer bits, and texts longer than the context."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import deploykit
from deploykit.frontends.huggingface.generation import import_step
from tests.frontends.huggingface.seeds import write_folder
from tests.frontends.huggingface.test_families import golden
from tests.language.carrying import write_carrying_model
from tests.language.steps import Steps
from tests.language.test_steps import texts_of
from tests.language.windows import without_oldest
from tests.runtimes import Runtime


@pytest.mark.sampled(part=8)
@pytest.mark.slow
@pytest.mark.parametrize(("cache", "most"), [("float16", 2e-3), ("int8", 5e-2)])
def test_caches(tmp_path: Path, cache: str, most: float, runtime: Runtime) -> None:
    stored = golden("bloom")
    write_folder(tmp_path / "model", stored.config, stored.shapes)
    found = import_step(tmp_path / "model", {"pages": (1, 4), "context": (1, 64)}, cache)
    with runtime.session(found.model) as session:
        session.reset({"pages": 4})
        run = Steps(session.run, 4, blocks=2)
        for ids, expected in texts_of(stored):
            number = run.begin()
            scores = np.concatenate([run((number, part))[0] for part in (ids[:1].tolist(), ids[1:].tolist()) if part])
            assert np.abs(scores - expected).max() < most * np.abs(expected).max()
            run.pages.end(number)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bloom", "falcon-alibi"])
def test_a_text_goes_on_without_its_oldest_tokens(tmp_path: Path, name: str) -> None:
    folder = write_carrying_model(tmp_path / "model", name)
    deploykit.build(folder, output=tmp_path / "dist", dims={"context": (1, 40)})
    with deploykit.open(tmp_path / "dist") as session:
        tokens = [int(token) for token in session.language.tokenizer.encode("abcdefgh" * 4).ids]
        expected = without_oldest(session, tokens, 60, 4)
        answer = session.generate(tokens, max_tokens=60, ignore_end=True, overflow="window", sinks=4)
        answer.read()
        assert (answer.tokens, answer.reason) == (expected, "length")
