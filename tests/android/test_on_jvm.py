"""The Java classes of an AAR on a JVM give what the library gives without Java, and the same messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import deploykit
from deploykit.compiler.model import ImportedModel
from deploykit.errors import DataError, DeploykitError, ShapeError, UsageError
from deploykit.targets.android import AndroidTarget
from deploykit.targets.android.running import CHOICE, JAVA
from tests.android.conftest import DIMS, needs_desktop, needs_java
from tests.frontends.running_mean import WIDTH, running_mean, weights
from tests.ragged import matrix_model, token_model

pytestmark = [needs_java, needs_desktop]


def _inputs(b: int, n: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(b * n)
    x = rng.standard_normal((b, n)).astype(np.float32) * (rng.random((b, n)) < 0.5)
    return {"x": x.astype(np.float32), "ids": rng.integers(-16, 16, b)}


@pytest.mark.slow
def test_results_are_those_of_the_library(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with deploykit.open(package) as native:
        monkeypatch.setenv(CHOICE, JAVA)
        with deploykit.open(package, threads=2) as session:
            assert session.where.startswith("the Java classes, with the library for x86_64, on ")
            assert session.peak_bytes({"b": 3, "n": 5}) == native.peak_bytes({"b": 3, "n": 5})
            for b, n in ((1, 1), (8, 64), (3, 7), (1, 33)):
                expected = native.run(_inputs(b, n))
                for name, array in session.run(_inputs(b, n)).items():
                    np.testing.assert_array_equal(array, expected[name], strict=True)


@pytest.mark.slow
def test_errors_are_those_of_the_library(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = _inputs(2, 3)
    cases: list[tuple[dict[str, np.ndarray], type[DeploykitError]]] = [
        (_inputs(2, 65), ShapeError),
        (good | {"ids": np.arange(3)}, ShapeError),
        (good | {"ids": np.array([0, 99])}, DataError),
    ]
    with deploykit.open(package) as native:
        monkeypatch.setenv(CHOICE, JAVA)
        with deploykit.open(package) as session:
            for inputs, kind in cases:
                with pytest.raises(kind) as expected:
                    native.run(inputs)
                with pytest.raises(kind) as found:
                    session.run(inputs)
                assert str(found.value) == str(expected.value)
            assert session.run(good)["scores"].shape == (2, 16)


@pytest.mark.slow
def test_functions_keep_states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deploykit.build(running_mean(weights()), AndroidTarget(["x86_64"]), output=tmp_path / "mean")
    x = np.linspace(-1, 1, 3 * WIDTH, dtype=np.float32).reshape(3, WIDTH)
    found: dict[str, list[np.ndarray]] = {}
    for choice in ("x86_64", JAVA):
        monkeypatch.setenv(CHOICE, choice)
        with deploykit.open(tmp_path / "mean") as session:
            update, read = session.functions["update"], session.functions["read"]
            with pytest.raises(ShapeError, match="is 3, but the states are made for 1"):
                update(x=x)
            session.reset({"streams": 3})
            found[choice] = [update(x=x)["samples"], update(x=x[::-1])["samples"], read(query=x[:2])["scores"]]
            session.reset()
            found[choice] += [update(x=x[:1])["samples"], read(query=x)["scores"]]
    for ours, expected in zip(found[JAVA], found["x86_64"], strict=True):
        np.testing.assert_array_equal(ours, expected, strict=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        (token_model(), {"x": [[[1, -1, 2, -2]] * 2, [], [[3, -3, 4, 4]]], "ids": [[5, 6], [], [7]]}),
        (matrix_model(), {"a": [[[1, 2, 3], [4, 5, 6]], np.zeros((0, 5), np.float32), [[7], [8]]]}),
    ],
    ids=["lengths", "shapes"],
)
def test_instances(
    model: ImportedModel, inputs: dict[str, list[Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deploykit.build(model, AndroidTarget(["x86_64"]), output=tmp_path / "ragged")
    with deploykit.open(tmp_path / "ragged") as native:
        monkeypatch.setenv(CHOICE, JAVA)
        with deploykit.open(tmp_path / "ragged") as session:
            for count in (3, 1, 0):
                batch = {name: values[:count] for name, values in inputs.items()}
                expected = native.run(batch)
                for name, found in session.run(batch).items():
                    for ours, theirs in zip(found, expected[name], strict=True):
                        np.testing.assert_array_equal(ours, theirs, strict=True)


def test_what_cannot_run_is_refused(libraries: Path, package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, JAVA)
    with pytest.raises(UsageError, match=r"DEPLOYKIT_ABI is 'java', and .* holds no AAR: build it without --format so"):
        deploykit.open(libraries)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(deploykit.errors.ToolchainError, match="to run the classes of an AAR: install a JDK"):
        deploykit.open(package)


def test_a_class_with_a_name_of_its_own(
    package: Path, model: onnx.ModelProto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deploykit.build(model, AndroidTarget(["x86_64"]), DIMS, tmp_path / "own", settings={"class": "Words"})
    with deploykit.open(package) as session:
        expected = session.run(_inputs(3, 7))
    monkeypatch.setenv(CHOICE, JAVA)
    with deploykit.open(tmp_path / "own") as session:
        np.testing.assert_array_equal(session.run(_inputs(3, 7))["scores"], expected["scores"])
