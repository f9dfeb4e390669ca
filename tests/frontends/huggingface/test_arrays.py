"""Every architecture of pictures and sound computes what transformers computes in eager mode."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deploykit
from tests.frontends.huggingface.array_cases import ARRAY_CASES
from tests.frontends.huggingface.seeds import GOLDENS, Shapes, write_folder


@dataclass(frozen=True)
class Golden:
    """The configuration, the shapes of the weights, and the results by the number of the run and their names."""

    config: dict[str, Any]
    shapes: Shapes
    results: Mapping[str, np.ndarray]


def golden(name: str) -> Golden:
    facts = json.loads((GOLDENS / f"{name}.json").read_text())
    with np.load(GOLDENS / f"{name}.npz") as arrays:
        return Golden(facts["config"], facts["shapes"], dict(arrays))


@pytest.mark.sampled(part=8)
@pytest.mark.parametrize("name", ARRAY_CASES)
def test_results(tmp_path: Path, name: str) -> None:
    case, stored = ARRAY_CASES[name], golden(name)
    write_folder(tmp_path / "model", stored.config, stored.shapes)
    deploykit.build(tmp_path / "model", output=tmp_path / "dist")
    with deploykit.open(tmp_path / "dist") as session:
        for run in range(3):
            found = session(**case.inputs(run))
            for output in case.outputs:
                value = stored.results[f"{run}/out/{output}"]
                limit = case.tolerance * max(1.0, float(np.abs(value).max()))
                np.testing.assert_allclose(found[output], value, rtol=0, atol=limit, err_msg=output)
