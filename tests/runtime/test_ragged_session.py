"""Ragged inputs and outputs of a session."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deploykit import Ragged
from deploykit.artifact.manifest import PaddedEntry, read_manifest
from deploykit.compiler.model import Padded
from deploykit.errors import ShapeError
from deploykit.sessions.session import Session
from tests.ragged import function_model, matrix_model, token_model
from tests.runtimes import HOST

A, B, C = (np.random.default_rng(n).standard_normal((n, 4), dtype=np.float32) for n in (3, 1, 2))
X = [A, B, C]
IDS = [[1, 2, 3], [4], [5, 6]]
LENGTHS = [3, 1, 2]


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with HOST.session(token_model()) as opened:
        yield opened


@pytest.fixture(scope="module")
def matrices() -> Iterator[Session]:
    with HOST.session(matrix_model()) as opened:
        yield opened


RAW = np.concatenate(X)


@pytest.mark.parametrize(
    "inputs",
    [
        {"x": X, "ids": IDS},
        {"x": tuple(X), "ids": [np.array(ids, np.int64) for ids in IDS]},
        {"x": [each.tolist() for each in X], "ids": IDS},
        {"x": Ragged.of(X), "ids": Ragged(np.arange(1, 7), LENGTHS)},
        {"x": X, "ids": IDS, "lengths": LENGTHS},
        {"x": X, "ids": np.arange(1, 7)},
        {"x": RAW, "ids": IDS},
        {"x": RAW, "ids": np.arange(1, 7), "lengths": np.array(LENGTHS)},
        {"x": RAW.tolist(), "ids": [1, 2, 3, 4, 5, 6], "lengths": LENGTHS},
    ],
)
def test_a_ragged_input_has_several_forms(session: Session, inputs: dict[str, Any]) -> None:
    outputs: dict[str, Any] = session(**inputs)
    assert isinstance(outputs["y"], Ragged)
    for found, given in zip(outputs["y"], X, strict=True):
        np.testing.assert_array_equal(found, 2 * np.maximum(given, 0))
    assert [each.tolist() for each in outputs["next"]] == [[2, 3, 4], [5], [6, 7]]
    assert outputs["doubled"].tolist() == [6, 2, 4]


@pytest.mark.parametrize(
    ("inputs", "lengths"),
    [
        ({"x": [], "ids": []}, []),
        ({"x": Ragged.of([]), "ids": []}, []),
        ({"x": np.zeros((0, 4), np.float32), "ids": [], "lengths": []}, []),
        ({"x": [[], []], "ids": [[], []]}, [0, 0]),
        ({"x": [[], B], "ids": [[], [4]]}, [0, 1]),
        ({"x": [np.zeros((0, 4), np.float32), B], "ids": [[], [4]]}, [0, 1]),
        ({"x": np.zeros((0, 4), np.float32), "ids": [], "lengths": [0, 0]}, [0, 0]),
    ],
)
def test_batches_and_instances_may_be_empty(session: Session, inputs: dict[str, Any], lengths: list[int]) -> None:
    outputs: dict[str, Any] = session(**inputs)
    assert outputs["y"].lengths.tolist() == outputs["next"].lengths.tolist() == lengths
    assert outputs["y"].values.shape == (sum(lengths), 4)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (
            {"x": X, "ids": [[1, 2, 3], [4, 5], [6]]},
            "inputs 'x' and 'ids' disagree on 'lengths' of instance 1: 1 and 2",
        ),
        ({"x": X, "ids": IDS[:2]}, "inputs 'x' and 'ids' have 3 and 2 instances"),
        (
            {"x": X, "ids": IDS, "lengths": [3, 2, 2]},
            "inputs 'lengths' and 'x' disagree on 'lengths' of instance 1: 2 and 1",
        ),
        ({"x": RAW, "ids": np.arange(6)}, r"input 'lengths' is missing; give 'x' as a list of arrays \[lengths, 4\]"),
        ({"x": RAW, "ids": np.arange(6), "lengths": [3, 1]}, "input 'x' has 6 values, but 'lengths' add up to 4"),
        ({"x": X, "ids": np.arange(5)}, "input 'ids' has 5 values, but 'lengths' add up to 6"),
        ({"x": RAW, "ids": np.arange(6), "lengths": [7, -1]}, "input 'lengths': a length must be at least 0, found -1"),
        ({"x": RAW, "ids": np.arange(6), "lengths": [2.5]}, "input 'lengths': lengths must be whole numbers"),
        ({"x": [A, B[:, :3]], "ids": IDS[:2]}, r"input 'x': instance 1 has shape \(1, 3\), expected \[length, 4\]"),
        ({"x": [A[:, :3]], "ids": IDS[:1]}, r"input 'x' .* \[lengths, 4\], but instance 0 has shape \[3, 3\]"),
        ({"x": [A[0]], "ids": IDS[:1]}, r"input 'x' has instances of shape \[lengths, 4\], found Ragged\("),
        ({"x": [A, B.astype(np.float64)], "ids": IDS[:2]}, "input 'x': instance 1 has dtype float64, expected float32"),
        ({"x": X, "ids": [[1, 2, 3], [0.5], [5, 6]]}, "input 'ids': instance 1 has fractional numbers"),
        ({"x": Ragged.of(X), "ids": Ragged.of([[1.0], [2.0]])}, "have 3 and 2 instances"),
        ({"x": X, "ids": Ragged(np.arange(6.0), LENGTHS)}, "input 'ids': expected dtype int64, found float64"),
        ({"x": X, "ids": Ragged(np.arange(6), [[3], [1], [2]])}, r"input 'ids' has instances of shape \[lengths\]"),
        ({"x": X, "ids": 3}, "input 'ids' is ragged, found int; give 'ids' as a list of arrays"),
        ({"x": X, "ids": None}, "input 'ids' is ragged, found NoneType"),
        ({"x": np.zeros((3, 3, 4), np.float32), "ids": IDS}, r"input 'x': expected rank 2"),
        ({"x": X}, "input 'ids' is missing"),
        ({"x": X, "ids": IDS, "mask": 1}, "there is no input 'mask'"),
    ],
)
def test_what_does_not_fit_is_refused(session: Session, inputs: dict[str, Any], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        session.run(inputs)


M = [np.ones((2, 3), np.float32), np.zeros((0, 5), np.float32), np.full((4, 1), 2, np.float32)]


@pytest.mark.parametrize(
    "inputs",
    [
        {"a": M},
        {"a": Ragged.of(M, flat=True)},
        {"a": np.concatenate([each.reshape(-1) for each in M]), "m": [2, 0, 4], "k": [3, 5, 1]},
        {"a": M, "m": [2, 0, 4]},
    ],
)
def test_several_extents_may_be_ragged(matrices: Session, inputs: dict[str, Any]) -> None:
    outputs: dict[str, Any] = matrices(**inputs)
    assert outputs["y"].shapes.tolist() == [[2, 3], [0, 5], [4, 1]]
    for found, given in zip(outputs["y"], M, strict=True):
        np.testing.assert_array_equal(found, -given)
    assert outputs["size"].tolist() == [6, 0, 4]


def test_empty_matrices(matrices: Session) -> None:
    assert len(matrices(a=[])["y"]) == 0
    assert matrices(a=[[], M[0]])["size"].tolist() == [0, 6]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"a": np.zeros(6, np.float32), "m": [2]}, "input 'k' is missing; give 'a' as a list of arrays"),
        ({"a": np.zeros(6, np.float32), "m": [2], "k": [4]}, "input 'a' has 6 values, but the sizes of its instances"),
        ({"a": M, "k": [3, 5, 2]}, "inputs 'k' and 'a' disagree on 'k' of instance 2: 2 and 1"),
        ({"a": [np.zeros((2, 2), np.float32), np.zeros(2, np.float32)]}, r"instance 1 has shape \(2,\), expected"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(matrices: Session, inputs: dict[str, Any], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        matrices.run(inputs)


def test_the_manifest_says_how_the_model_pads(tmp_path: Path) -> None:
    padded = Padded("seq", "batch", "lengths", ("mask",), 512)
    HOST.build(replace(token_model(), padded=(padded,)), tmp_path / "dist")
    assert read_manifest(tmp_path / "dist").padded == (
        PaddedEntry(dim="seq", batch="batch", lengths="lengths", masks=("mask",), maximum=512),
    )


def test_the_manifest_of_another_model_has_nothing_of_it(session: Session) -> None:
    assert session.manifest.padded == ()
    assert "padded" not in session.manifest.to_json()


def test_one_of_several_functions_may_be_ragged() -> None:
    with HOST.session(function_model()) as session:
        outputs: dict[str, Any] = session.functions["negate"](x=X)
        assert [each.tolist() for each in outputs["y"]] == [(-each).tolist() for each in X]
        assert outputs["doubled"].tolist() == [6, 2, 4]
        assert session.functions["double"](x=np.ones(3, np.float32))["z"].tolist() == [2, 2, 2]
