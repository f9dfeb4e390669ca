"""Estimators of scikit-learn as its converter writes them: the stored exports give the answers of ONNX Runtime."""

from __future__ import annotations

import pytest

import deploykit
from tests.frontends.onnx.harness import Check
from tests.zoo import estimator_files, estimators_page

MOST_BYTES = 1 << 19


def test_the_files_are_small() -> None:
    assert len(estimator_files.names()) >= 200
    assert sum(path.stat().st_size for path in estimator_files.FOLDER.iterdir()) < MOST_BYTES


def test_page_is_current() -> None:
    assert estimators_page.PAGE.read_text() == estimators_page.page()


@pytest.mark.sampled(part=24)
@pytest.mark.parametrize("file", [file for file in estimator_files.names() if file not in estimators_page.REFUSED])
def test_an_estimator_is_right(check: Check, file: str) -> None:
    stored = estimator_files.read(file)
    check(stored.model, *stored.runs, expected=[list(answer.values()) for answer in stored.answers], rtol=1e-4)


@pytest.mark.parametrize("file", estimators_page.REFUSED)
def test_an_estimator_is_refused_with_a_remedy(file: str) -> None:
    with pytest.raises(deploykit.UnsupportedModelError, match=estimators_page.REFUSED[file]):
        deploykit.load(estimator_files.read(file).model)
