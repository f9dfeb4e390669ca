"""Every family computes what transformers computes in eager mode, padded and ragged."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deploykit
from deploykit.frontends.huggingface.importer import load_folder
from tests.frontends.huggingface.cases import CASES, SIZES, Case
from tests.frontends.huggingface.seeds import GOLDENS, Shapes, write_folder


@dataclass(frozen=True)
class Golden:
    """The stored inputs and results of a case."""

    case: Case
    config: dict[str, Any]
    shapes: Shapes
    arrays: Mapping[str, np.ndarray]

    def runs(self) -> Iterator[tuple[dict[str, np.ndarray], dict[str, np.ndarray]]]:
        """The inputs and the expected results at each size."""
        for index in range(len(SIZES)):
            yield self._part(f"{index}/in/"), self._part(f"{index}/out/")

    def _part(self, start: str) -> dict[str, np.ndarray]:
        return {key.removeprefix(start): value for key, value in self.arrays.items() if key.startswith(start)}


def golden(name: str) -> Golden:
    facts = json.loads((GOLDENS / f"{name}.json").read_text())
    with np.load(GOLDENS / f"{name}.npz") as arrays:
        return Golden(CASES[name], facts["config"], facts["shapes"], dict(arrays))


def close(found: np.ndarray, expected: np.ndarray, case: Case) -> None:
    limit = case.tolerance * max(1.0, float(np.abs(expected).max(initial=0)))
    np.testing.assert_allclose(found, expected, rtol=0, atol=limit)


@pytest.mark.sampled(part=40)
@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_padded_batches(tmp_path: Path, name: str) -> None:
    stored = golden(name)
    write_folder(tmp_path / "model", stored.config, stored.shapes)
    deploykit.build(load_folder(tmp_path / "model"), output=tmp_path / "dist")
    with deploykit.open(tmp_path / "dist") as session:
        for inputs, expected in stored.runs():
            found = session(**inputs)
            for output, value in expected.items():
                valid = inputs["attention_mask"].astype(bool) if value.shape[:2] == inputs["input_ids"].shape else ...
                close(found[output][valid], value[valid], stored.case)


@pytest.mark.sampled(part=40)
@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.ragged])
def test_ragged_batches(tmp_path: Path, name: str) -> None:
    stored = golden(name)
    write_folder(tmp_path / "model", stored.config, stored.shapes)
    deploykit.build(tmp_path / "model", output=tmp_path / "dist", generate=False)
    with deploykit.open(tmp_path / "dist") as session:
        assert "attention_mask" not in {port.name for port in session.manifest.inputs}
        for inputs, expected in stored.runs():
            mask = inputs.pop("attention_mask").astype(bool)
            texts = {key: [row[valid] for row, valid in zip(value, mask, strict=True)] for key, value in inputs.items()}
            found = session(**texts)
            for output, value in expected.items():
                if value.shape[:2] == mask.shape:
                    for text, row, valid in zip(found[output], value, mask, strict=True):
                        close(text, row[valid], stored.case)
                else:
                    close(found[output], value, stored.case)
