"""The model of the sample web app: its input, and how often it is right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from apps.web.model.drawings import INK, PEN, SIZE, Drawing, draw, rasterise
from apps.web.model.templates import TEMPLATES

MODEL = Path(__file__).parents[2] / "apps" / "web" / "model" / "digits.onnx"


@pytest.fixture(scope="module")
def drawings() -> list[Drawing]:
    random = np.random.default_rng(2024)
    return [draw(index % 10, random) for index in range(1000)]


def test_it_reads_drawings_that_it_was_not_trained_on(drawings: list[Drawing]) -> None:
    session = onnxruntime.InferenceSession(MODEL)
    (probabilities,) = session.run(None, {"picture": np.stack([rasterise(d) for d in drawings])[:, None]})
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
    assert (probabilities.argmax(1) == np.arange(1000) % 10).mean() > 0.985


def test_it_is_small_and_takes_any_number_of_pictures() -> None:
    assert MODEL.stat().st_size < 200_000
    session = onnxruntime.InferenceSession(MODEL)
    assert session.get_inputs()[0].shape == ["batch", 1, SIZE, SIZE]
    assert [session.run(None, {"picture": np.zeros((n, 1, SIZE, SIZE), np.float32)})[0].shape for n in (1, 7)] == [
        (1, 10),
        (7, 10),
    ]


def test_a_picture_does_not_depend_on_place_and_size(drawings: list[Drawing]) -> None:
    for drawing in drawings[:20]:
        moved = [stroke * 0.4 + 0.3 for stroke in drawing]
        np.testing.assert_allclose(rasterise(moved), rasterise(drawing), atol=1e-5)


def test_a_picture_is_centred_and_fills_its_frame() -> None:
    line = [np.array([[0.2, 0.1], [0.2, 0.9]])]
    picture = rasterise(line)
    rows, columns = np.nonzero(picture > 0.5)
    assert np.ptp(rows) + 1 == pytest.approx(INK + PEN, abs=1)
    assert (rows.mean(), columns.mean()) == pytest.approx((SIZE / 2 - 0.5,) * 2)


def test_a_dot_is_a_dot() -> None:
    picture = rasterise([np.array([[0.9, 0.9]])])
    assert picture.sum() == pytest.approx(np.pi * (PEN / 2) ** 2, rel=0.1)


def test_templates_stay_in_their_box() -> None:
    assert len(TEMPLATES) == 10
    random = np.random.default_rng(0)
    for digit in range(10):
        assert all(np.isfinite(stroke).all() and np.abs(stroke).max() < 2 for stroke in draw(digit, random))
