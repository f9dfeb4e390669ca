"""The app that knows words: its network, its stream next to windows, and the app on emulated cores."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import deploykit
from apps.embedded.keywords.build import MODEL, NEW, SEED, build, heard
from apps.embedded.keywords.network import BANDS, WINDOW, energies, gradients, random_weights
from apps.embedded.keywords.sounds import CLASSES
from apps.embedded.keywords.train import KINDS, window
from deploykit.targets.embedded.boards import find_board
from deploykit.targets.embedded.boards.image import missing
from tests.forms.test_sketches import Builder


def test_it_knows_words_that_it_was_not_trained_on() -> None:
    random, session = np.random.default_rng(2024), onnxruntime.InferenceSession(MODEL)
    made = [window(index % KINDS, random) for index in range(240)]
    samples = np.stack([samples for samples, _ in made]).astype(np.float32)[:, None]
    (found,) = session.run(None, {"samples": samples})
    assert (found.argmax(1) == [kind for _, kind in made]).mean() > 0.98


def test_gradients_are_slopes() -> None:
    random = np.random.default_rng(0)
    weights = {name: array.astype(np.float64) for name, array in random_weights(random).items()}
    x, classes = random.standard_normal((3, BANDS, 25)), np.array([0, 2, 1])
    _, found = gradients(weights, x, classes)
    for name, slopes in found.items():
        place = np.unravel_index(np.abs(slopes).argmax(), slopes.shape)
        ends = []
        for step in (-1e-5, 1e-5):
            moved = weights[name].copy()
            moved[place] += step
            ends.append(gradients({**weights, name: moved}, x, classes)[0])
        assert (ends[1] - ends[0]) / 2e-5 == pytest.approx(slopes[place], rel=1e-3), name


def test_energies_are_those_of_the_network() -> None:
    """Training computes energies in NumPy; the network computes them of samples."""
    model = onnx.load(MODEL)
    model.graph.output.append(onnx.helper.make_tensor_value_info("levels", onnx.TensorProto.FLOAT, None))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    samples = np.stack([window(kind, np.random.default_rng(9))[0] for kind in range(KINDS)]).astype(np.float32)
    (levels,) = session.run(["levels"], {"samples": samples[:, None]})
    np.testing.assert_allclose(energies(samples), levels, rtol=1e-3, atol=1e-3)


def test_its_stream_gives_what_windows_give(tmp_path: Path) -> None:
    deploykit.build(MODEL, "host", {"batch": 1}, tmp_path / "out", stream="samples:2", check=False)
    samples = heard(3).samples[: 40 * NEW].astype(np.float32)[None, None]
    whole = onnxruntime.InferenceSession(MODEL)
    with deploykit.open(tmp_path / "out") as session:
        for end in range(NEW, samples.shape[2] + 1, NEW):
            found = session(samples=samples[:, :, end - NEW : end])["probabilities"]
            assert len(found) == (end >= WINDOW)
            if len(found):
                (expected,) = whole.run(None, {"samples": samples[:, :, end - WINDOW : end]})
                np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("board", "seed"), [("nrf52840dk", 5), ("mps2-an385", 6), ("esp32c3", 7)])
def test_the_app_hears_all_words_and_no_others(board: str, seed: int, tmp_path: Path) -> None:
    if reason := missing(find_board(board)):
        pytest.skip(reason)
    build(board, tmp_path / "keywords", seed)
    call = subprocess.run(
        ["make", "-s", "-C", tmp_path / "keywords", "run"], capture_output=True, text=True, check=False
    )
    assert call.returncode == 0, call.stdout + call.stderr
    assert "8 of 8 words, 0 other sounds taken for words" in call.stdout
    said = [CLASSES[kind] for _, kind in heard(seed).ends if kind]
    assert [line.split()[2] for line in call.stdout.splitlines() if " s  " in line] == said


@pytest.mark.slow
@pytest.mark.parametrize("form", ["arduino", "zephyr"])
def test_other_forms_hear_the_same(form: str, tmp_path: Path) -> None:
    board = "nrf52840dk"
    if reason := missing(find_board(board)):
        pytest.skip(reason)
    folder, work = tmp_path / "keywords", tmp_path / "work"
    build(board, folder, form=form)
    work.mkdir()
    if form == "arduino":
        printed = Builder(work, arm=True).run(folder / "examples" / "keywords" / "keywords.ino", [folder])
    else:
        sources = [*(folder / "src" / "keywords").glob("*.c"), folder / "samples" / "keywords" / "src" / "main.c"]
        options = ["-D__ZEPHYR__=1", "-std=c99", "-O2", f"-I{folder / 'src'}", "-o", work / "app"]
        subprocess.run(["gcc", *map(str, [*options, *sources, "-lm"])], check=True)
        printed = subprocess.run([work / "app"], check=True, capture_output=True, text=True).stdout
    said = [CLASSES[kind] for _, kind in heard(SEED).ends if kind]
    assert [line.split()[2] for line in printed.splitlines() if " s  " in line] == said
    assert "8 of 8 words, 0 other sounds taken for words" in printed
