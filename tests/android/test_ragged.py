"""Ragged inputs and outputs in Java: batches of instances, results by instance, and the messages of Python."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import deploykit
from deploykit.compiler.model import ImportedModel
from deploykit.targets.android import AndroidTarget
from tests.android.conftest import needs_desktop, needs_java, on_desktop
from tests.ragged import matrix_model, token_model

pytestmark = [needs_java, needs_desktop]


def lines(model: ImportedModel, name: str, test: str, folder: Path) -> list[str]:
    deploykit.build(replace(model, name=name), AndroidTarget(["x86_64"]), output=folder / "dist")
    return on_desktop(folder / "dist", test, folder)("all")


@pytest.mark.slow
def test_batches_of_sequences(tmp_path: Path) -> None:
    a = "[2, 4][2.0, 0.0, 4.0, 0.0, 6.0, 0.0, 8.0, 0.0]"
    b = "[1, 4][10.0, 0.0, 12.0, 0.0]"
    assert lines(token_model(), "tokens", "Batches", tmp_path) == [
        f"{a}{b}",
        f"[0, 4][]{b}",
        "",
        f"{a}{b}",
        "ShapeException: inputs 'x' and 'ids' disagree on 'lengths' of instance 0: 2 and 1",
        "ShapeException: inputs 'x' and 'ids' have 2 and 1 instances",
        "ShapeException: input 'x' has instances of shape [lengths, 4], but instance 0 has shape [3]",
        "ShapeException: the lengths add up to 3, but there are 2 values",
        "ShapeException: a length must be at least 0, found -1 for instance 1",
        "ShapeException: there is no instance 2: there are 2",
    ]


@pytest.mark.slow
def test_instances_that_differ_in_two_extents(tmp_path: Path) -> None:
    assert lines(matrix_model(), "matrices", "Shapes", tmp_path) == [
        "FLOAT[[2, 3], [0, 5], [2, 1]][-1.0, -2.0, -3.0, -4.0, -5.0, -6.0][][-7.0, -8.0][6, 0, 2]",
        "ShapeException: input 'a' has instances of shape [m, k], but instance 0 has shape [2]",
        "ShapeException: input 'a' has 6 values, but the sizes of its instances add up to 8",
    ]
