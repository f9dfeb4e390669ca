"""What `inspect` says of lengths of ragged inputs, and how it draws them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import deploykit
from deploykit.errors import UsageError
from deploykit.inspection.lengths import LengthsReport
from deploykit.inspection.lengths_picture import facts
from deploykit.inspection.reports import ArtifactReport
from tests.ragged import matrix_model, pooled_model


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> ArtifactReport:
    folder = tmp_path_factory.mktemp("ragged") / "dist"
    deploykit.build(pooled_model(), output=folder)
    found = deploykit.inspect(folder)
    assert isinstance(found, ArtifactReport)
    return found


def test_padding_wastes_what_the_formula_of_the_padded_model_says(report: ArtifactReport) -> None:
    found = report.at_lengths({"lengths": [12, 0, 20]})

    def flops(batch: int, seq: int) -> int:
        return batch * (9 * seq * seq + 20 * seq + 3)

    assert found.sizes == {"batch": 3, "tokens": 32}
    assert (found.useful, found.padded) == (flops(1, 12) + flops(1, 20), flops(3, 20))
    assert found.wasted == 1 - found.useful / found.padded
    assert found.uncounted == 0


def test_the_arena_is_that_of_a_run(report: ArtifactReport, tmp_path: Path) -> None:
    deploykit.build(pooled_model(), output=tmp_path / "dist")
    with deploykit.open(tmp_path / "dist") as session:
        for lengths in ([1], [12, 0, 20], [12] * 8):
            found = report.at_lengths({"lengths": lengths})
            assert found.arena == session.peak_bytes({"batch": len(lengths), "tokens": sum(lengths)})


def test_equal_lengths_waste_nothing(report: ArtifactReport) -> None:
    assert report.at_lengths({"lengths": [7, 7, 7]}).wasted == 0
    assert report.at_lengths({"lengths": []}).wasted is None
    assert report.at_lengths({"lengths": [0, 0]}).wasted is not None


def test_without_the_formula_the_steps_count(tmp_path: Path) -> None:
    model = pooled_model()
    model = replace(model, padded=(replace(model.padded[0], flops=None),))
    deploykit.build(model, output=tmp_path / "dist")
    found = deploykit.inspect(tmp_path / "dist")
    assert isinstance(found, ArtifactReport)
    ragged = found.at_lengths({"lengths": [12, 0, 20]})
    full = found.at_lengths({"lengths": [20, 20, 20]})
    assert (ragged.padded, full.wasted) == (full.useful, 0)
    assert 0.3 < (ragged.wasted or 0) < 0.6


def test_several_inputs_with_lengths(tmp_path: Path) -> None:
    deploykit.build(matrix_model(), output=tmp_path / "dist")
    found = deploykit.inspect(tmp_path / "dist")
    assert isinstance(found, ArtifactReport)
    lengths = {"m": [2, 3, 1], "k": [4, 1, 0]}
    assert found.at_lengths(lengths).wasted == 1 - 11 / 36
    found.draw(tmp_path / "plan.svg", lengths=lengths)
    assert ET.parse(tmp_path / "plan.svg").getroot().tag.endswith("svg")
    with pytest.raises(UsageError, match="the lengths 'k' are missing or unknown; the model has m, k"):
        found.at_lengths({"m": [1]})


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ({"lengths": [1] * 9}, r"dim 'batch' is 9, outside of 0\.\.8"),
        ({"lengths": [25]}, "the lengths 'lengths' must be at most 24, found 25"),
        ({"lengths": [24] * 5}, r"dim 'tokens' is 120, outside of 0\.\.96"),
        ({}, "the lengths 'lengths' are missing or unknown"),
        ({"lengths": [1], "n": [1]}, "the lengths 'n' are missing or unknown"),
    ],
)
def test_wrong_lengths_are_refused(report: ArtifactReport, lengths: dict[str, list[int]], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        report.at_lengths(lengths)


def test_wrong_sizes_are_refused(report: ArtifactReport) -> None:
    with pytest.raises(UsageError, match="with these lengths 'tokens' is 1, not 2"):
        report.at_lengths({"lengths": [1]}, {"tokens": 2})
    with pytest.raises(UsageError, match="the model has no dim 'rows'"):
        report.at_lengths({"lengths": [1]}, {"rows": 2})


@pytest.mark.parametrize("lengths", [[12, 0, 20], [], [0]])
def test_the_picture_shows_the_lengths(report: ArtifactReport, tmp_path: Path, lengths: list[int]) -> None:
    first, second = tmp_path / "a.svg", tmp_path / "b.svg"
    report.draw(first, lengths={"lengths": lengths})
    report.draw(second, lengths={"lengths": lengths})
    assert first.read_bytes() == second.read_bytes()
    report.draw(tmp_path / "dense.svg", {"batch": 3, "tokens": 32})
    assert 'id="axes_2"' in first.read_text()
    assert 'id="axes_2"' not in (tmp_path / "dense.svg").read_text()
    report.draw(tmp_path / "a.png", lengths={"lengths": lengths})
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_the_words_of_the_picture() -> None:
    report = LengthsReport({"lengths": (2, 6)}, {}, 0, useful=2, padded=8)
    assert facts((2, 6), report) == [
        "2 instances, 8 in total",
        "12 if padded to the longest",
        "75 % of the padded arithmetic would be wasted",
    ]
