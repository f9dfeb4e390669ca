"""Models of texts in node: the methods give what the session in Python gives, which tests elsewhere compare."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deploykit
from tests.frontends.huggingface.mask_cases import COUNT, MASK_CASES
from tests.frontends.huggingface.test_masks import folder_of as masks_of
from tests.frontends.huggingface.test_masks import require_tokens
from tests.frontends.huggingface.test_texts import TEXTS, folder_of
from tests.web.test_ragged import evaluated, in_node

pytestmark = pytest.mark.slow

CONTEXTS = ["the cat sat on a mat", "\U0001f600 the cat", "the mat " * 30]


class Model:
    """A case of `tests.frontends.huggingface` as an artifact for the web and as a session."""

    def __init__(self, place: Path, case: str, **settings: Any) -> None:
        folder = folder_of(place / "model", case, **settings)
        deploykit.build(folder, "webgpu", output=place / "web")
        deploykit.build(folder, output=place / "host")
        self.web, self.session = place / "web", deploykit.open(place / "host")

    def found(self, script: str) -> Any:
        return evaluated(self.web, script)


def test_classes(tmp_path: Path) -> None:
    model = Model(tmp_path, "bert-classes", id2label={"0": "bad", "1": "good"})
    found = model.found(f"await model.classify({json.dumps(TEXTS)})")
    for labels, expected in zip(found, model.session.classify(TEXTS), strict=True):
        assert [each["label"] for each in labels] == [each.name for each in expected]
        np.testing.assert_allclose([x["score"] for x in labels], [x.score for x in expected], rtol=1e-4)
    assert [each["label"] for each in model.found("await model.classify('a')")] == [each["label"] for each in found[1]]
    types = (model.web / "index.d.mts").read_text()
    assert 'label: "bad" | "good";' in types
    assert "classify(text: string, options?: CallOptions): Promise<Label[]>;" in types


def test_tokens(tmp_path: Path) -> None:
    model = Model(tmp_path, "bert-tokens")
    texts = [*TEXTS, "\U0001f600 the cat", "e\u0301a"]
    found = model.found(f"await model.tokens({json.dumps(texts)})")
    for text, spans, expected in zip(texts, found, model.session.tokens(texts), strict=True):
        assert [(span["label"], span["text"]) for span in spans] == [(span.label, span.text) for span in expected]
        units = text.encode("utf-16-le")
        assert [units[2 * s["start"] : 2 * s["end"]].decode("utf-16-le") for s in spans] == [s["text"] for s in spans]


def test_masks(tmp_path: Path) -> None:
    deploykit.build(masks_of(tmp_path / "model", "roberta-words"), "webgpu", output=tmp_path / "web")
    texts = json.dumps(MASK_CASES["roberta-words"].texts)
    found = evaluated(tmp_path / "web", f"await model.fill({texts}, {{ count: {COUNT} }})")
    require_tokens(
        "roberta-words", [[[(t["label"], t["score"]) for t in tokens] for tokens in masks] for masks in found]
    )
    (alone,) = evaluated(tmp_path / "web", "await model.fill('<mask>')")
    assert alone == found[1][0][:5]
    refused = in_node(tmp_path / "web", "await model.fill(['<mask>', 'the cat'])")
    assert (refused["error"], refused["message"].partition(",")[0]) == ("DataError", "the text has no <mask>")
    assert in_node(tmp_path / "web", "await model.fill('<mask>', { count: 0 })")["error"] == "UsageError"
    assert "fill(text: string, options?: CallOptions & { count?: number }): Promise<Label[][]>;" in (
        (tmp_path / "web" / "index.d.mts").read_text()
    )


def test_answers(tmp_path: Path) -> None:
    model = Model(tmp_path, "bert-answers")
    for context in CONTEXTS:
        found = model.found(f"await model.answer('who sat?', {json.dumps(context)})")
        expected = model.session.answer("who sat?", context)
        assert found["text"] == expected.text
        assert found["score"] == pytest.approx(expected.score, rel=1e-4)


def test_what_is_no_text(tmp_path: Path) -> None:
    model = Model(tmp_path, "bert-classes")
    for given in ("3", "[3]", "undefined", "{}"):
        assert in_node(model.web, f"await model.classify({given})")["error"] == "ShapeError"
    assert model.found("await model.classify([])") == []


def test_tables_that_are_missing(tmp_path: Path) -> None:
    model = Model(tmp_path, "bert-classes")
    (model.web / "tokenizer.bin").unlink()
    call = ["node", "--input-type=module", "-e", f"await (await import('{model.web.as_uri()}/index.mjs')).load()"]
    failed = subprocess.run(call, capture_output=True, text=True, check=False, timeout=120)
    assert "NetworkError" in failed.stderr
    assert "tokenizer.bin" in failed.stderr
