"""Ragged artifacts against the padded models that they were converted from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import deploykit
from deploykit.artifact.manifest import read_manifest
from deploykit.checks import reference
from deploykit.checks.padded import padded_form
from deploykit.checks.verify import verify_ends
from deploykit.errors import UsageError
from deploykit.inspection.reports import ArtifactReport
from tests.frontends.onnx.harness import parse
from tests.ragged import POOLED, POOLED_TOKENS, TOKENS, pooled_model, token_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.onnx"
    onnx.save(parse(POOLED), path)
    return path


@pytest.fixture(scope="module")
def artifact(model: Path) -> Path:
    deploykit.build(pooled_model(), output=model.parent / "dist")
    return model.parent / "dist"


def test_a_right_artifact_is_within_tolerance(artifact: Path, model: Path) -> None:
    report = deploykit.verify(artifact, model)
    assert report.within
    assert not any(check.skipped for check in report.checks)
    assert [(check.sizes["batch"], check.sizes["seq"]) for check in report.checks] == [
        *((1, 1), (7, 7), (8, 24)),
        *((1, 24), (8, 1)),
    ]
    assert all(check.sizes["tokens"] <= check.sizes["batch"] * check.sizes["seq"] for check in report.checks)


def test_sizes_and_lengths_can_be_chosen(artifact: Path, model: Path) -> None:
    (check,) = deploykit.verify(artifact, model, at={"batch": 3, "seq": 9}).checks
    assert (check.sizes["batch"], check.sizes["seq"]) == (3, 9)
    (check,) = deploykit.verify(artifact, model, at={"batch": 3, "tokens": 30}).checks
    assert (check.sizes["batch"], check.sizes["tokens"]) == (3, 30)
    (check,) = deploykit.verify(artifact, model, inputs={"lengths": [5, 0, 5]}).checks
    assert check.sizes == {"batch": 3, "tokens": 10, "seq": 5}
    (check,) = deploykit.verify(artifact, model, inputs={"x": [np.ones((2, 4), np.float32)]}).checks
    assert check.sizes == {"batch": 1, "tokens": 2, "seq": 2}


def test_the_ends_of_the_bounds(artifact: Path, model: Path) -> None:
    report = verify_ends(artifact, model)
    assert report.within
    assert [(check.sizes["batch"], check.sizes["seq"]) for check in report.checks] == [(1, 1), (8, 24)]


@pytest.mark.parametrize(
    ("right", "wrong", "output"),
    [
        ("y = Mul(r, two)", "y = Add(r, two)", "y"),
        ("before = Less(token, until)", "before = LessOrEqual(token, until)", "pooled"),
    ],
)
def test_a_wrong_artifact_is_found(model: Path, tmp_path: Path, right: str, wrong: str, output: str) -> None:
    assert right in POOLED_TOKENS
    deploykit.build(pooled_model(POOLED_TOKENS.replace(right, wrong)), output=tmp_path / "dist")
    report = deploykit.verify(tmp_path / "dist", model)
    assert report.wrong
    assert output in {d.name for check in report.checks for d in check.differences if d.wrong}


def test_the_real_conversion_says_how_the_model_pads(model: Path, tmp_path: Path) -> None:
    dims = {"batch": (1, 8), "seq": (1, 24)}
    artifact = deploykit.build(model, dims=dims, output=tmp_path / "dist", ragged="seq", check=True)
    assert artifact is not None
    (padded,) = artifact.manifest.padded
    assert padded.model_dump() == {
        "dim": "seq",
        "batch": "batch",
        "lengths": "lengths",
        "masks": ("mask",),
        "maximum": 24,
        "flops": "16*batch*seq",
        "squares": "squares",
    }
    assert deploykit.verify(tmp_path / "dist", model).within
    report = deploykit.inspect(tmp_path / "dist")
    assert isinstance(report, ArtifactReport)
    assert report.at_lengths({"lengths": [1, 3]}).wasted == 1 - 4 / 6


def test_a_model_that_reads_its_padding_differs(artifact: Path, tmp_path: Path) -> None:
    onnx.save(parse(POOLED.replace("kept = Mul(y, column)", "kept = Identity(y)")), tmp_path / "model.onnx")
    assert deploykit.verify(artifact, tmp_path / "model.onnx", at={"seq": 9, "batch": 1}).wrong


@pytest.mark.parametrize(("declared", "shape"), [("int64[batch,seq]", (2, 3)), ("bool[batch,1,1,seq]", (2, 1, 1, 3))])
def test_masks_have_the_type_of_the_model(
    artifact: Path, tmp_path: Path, declared: str, shape: tuple[int, ...]
) -> None:
    text = f"(float[batch,seq,4] x, {declared} mask) => (float[batch,seq,4] y) {{ y = Relu(x) }}"
    onnx.save(parse(text), tmp_path / "model.onnx")
    form = padded_form(read_manifest(artifact), tmp_path / "model.onnx")
    assert form is not None
    values = np.arange(16, dtype=np.float32).reshape(4, 4)
    found = form.inputs({"x": values, "lengths": np.array([3, 1])})
    assert found.keys() == {"x", "mask"}
    assert found["mask"].dtype == np.dtype(declared.partition("[")[0])
    assert found["mask"].shape == shape
    assert found["mask"].reshape(2, 3).tolist() == [[1, 1, 1], [1, 0, 0]]
    assert (found["x"][0] == values[:3]).all()
    assert (found["x"][1, 0] == values[3]).all()
    assert np.isin(found["x"], values).all()


def test_a_mask_of_rank_1_has_the_lengths(artifact: Path, tmp_path: Path) -> None:
    text = "(float[batch,seq,4] x, int32[batch] mask) => (float[batch,seq,4] y) { y = Relu(x) }"
    onnx.save(parse(text), tmp_path / "model.onnx")
    form = padded_form(read_manifest(artifact), tmp_path / "model.onnx")
    assert form is not None
    found = form.inputs({"x": np.zeros((4, 4), np.float32), "lengths": np.array([3, 1])})
    assert (found["mask"].dtype, found["mask"].tolist()) == (np.int32, [3, 1])


def test_a_model_without_the_mask_is_refused(artifact: Path, tmp_path: Path) -> None:
    onnx.save(parse("(float[batch,seq,4] x) => (float[batch,seq,4] y) { y = Relu(x) }"), tmp_path / "model.onnx")
    with pytest.raises(UsageError, match=r"model\.onnx has no input 'mask': it is not the model"):
        deploykit.verify(artifact, tmp_path / "model.onnx")


def test_rows_of_empty_instances_are_left_out(artifact: Path, model: Path) -> None:
    form = padded_form(read_manifest(artifact), model)
    assert form is not None
    inputs = {"x": np.ones((3, 4), np.float32), "lengths": np.array([1, 0, 2])}
    outputs = form.around(reference.load(model))(inputs)
    assert outputs["y"].shape == (3, 4)
    assert outputs["pooled"].tolist() == [[2] * 4, [4] * 4]


def test_rounding_is_measured_on_the_padded_model(artifact: Path, tmp_path: Path) -> None:
    """A difference that rounding does not explain stays wrong."""
    onnx.save(parse(POOLED.replace("y = Mul(r, two)", "d = Mul(r, two)  y = Mul(d, factor)").replace(
        "<float two", "<float factor = {1.01}, float two")), tmp_path / "model.onnx")  # fmt: skip
    report = deploykit.verify(artifact, tmp_path / "model.onnx", at={"batch": 3, "seq": 9})
    (y, pooled) = report.checks[0].differences
    assert y.wrong
    assert pooled.wrong
    assert y.roundings is not None


def test_an_artifact_that_was_ragged_from_the_start_has_no_padded_form(tmp_path: Path) -> None:
    onnx.save(parse(TOKENS), tmp_path / "model.onnx")
    deploykit.build(token_model(), output=tmp_path / "dist")
    assert padded_form(read_manifest(tmp_path / "dist"), tmp_path / "model.onnx") is None
    report = deploykit.verify(tmp_path / "dist", tmp_path / "model.onnx")
    assert report.within
    assert {check.sizes["batch"] for check in report.checks} == {0, 7, 8}
