"""`deploykit try` of models of pictures and sound: a prompt that takes paths, and pages that take files."""

from __future__ import annotations

import base64
import json
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import deploykit as dk
from bench.browser import find_chromium
from deploykit.cli.prompt import _path
from tests.apps.devtools import Page, chromium
from tests.cli.test_try import piped, serving
from tests.frontends.huggingface.answer_cases import LEAST_SCORE
from tests.frontends.huggingface.sound_cases import sound
from tests.frontends.huggingface.test_matches import folder_of as matches_of
from tests.frontends.huggingface.test_picture_answers import folder_of as pictures_of
from tests.frontends.huggingface.test_sound_answers import folder_of as sounds_of
from tests.tasks.test_sound_sources import write

in_a_page = pytest.mark.skipif(find_chromium() is None or shutil.which("node") is None, reason="needs Chromium, node")
CAMERA = ("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")
"""Chromium's picture of a camera and its microphone, without asking."""


def built(place: Path, kind: str, target: str = "host") -> Path:
    """An artifact of a tiny model of pictures, perhaps with texts, or of one that transcribes."""
    makers = {"transcribe": sounds_of, "match": partial(matches_of, name="clip")}
    folder = makers.get(kind, partial(pictures_of, name=kind))(place / "model")
    dk.build(folder, target, output=place / "dist")
    return place / "dist"


def pictures(place: Path) -> list[Path]:
    """Two pictures in files."""
    random = np.random.default_rng(0)
    paths = [place / name for name in ("one.png", "two with spaces.png")]
    for path, size in zip(paths, ((40, 60, 3), (50, 30, 3)), strict=True):
        Image.fromarray(random.integers(0, 256, size, dtype=np.uint8)).save(path)
    return paths


@pytest.mark.slow
def test_pictures_with_texts(tmp_path: Path) -> None:
    folder, paths = built(tmp_path, "match"), pictures(tmp_path)
    lines = piped(folder, "\n".join(["a cat; the", *map(str, paths)]).encode())
    with dk.open(folder) as session:
        best = [labels[0] for labels in session.match(paths, ["a cat", "the"])]
    assert lines == [f"{label.score:.3f}\t{label.name}" for label in best]


def said(path: Path, count: int, rate: int) -> None:
    """A wave file of so many samples."""
    samples = sound(count)
    write(path, samples / np.abs(samples).max() * 30000, channels=1, width=2, rate=rate)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classify", "detect", "segment", "embed"])
def test_paths_of_pictures(tmp_path: Path, kind: str) -> None:
    folder, paths = built(tmp_path, kind), pictures(tmp_path)
    lines = piped(folder, "".join(f"{path}\n" for path in paths).encode())
    with dk.open(folder) as session:
        if kind == "classify":
            best = [labels[0] for labels in session.classify(paths)]
            assert lines == [f"{label.score:.3f}\t{label.name}" for label in best]
        elif kind == "detect":
            for line, objects in zip(lines, session.detect(paths), strict=True):
                assert len(line.split("\t")) == max(1, len(objects))
                assert line.startswith(f"{objects[0].score:.3f} {objects[0].label} " if objects else "-\t")
        elif kind == "segment":
            shares = [segments.shares for segments in session.segment(paths)]
            assert lines == ["\t".join(f"{share:.3f} {name}" for name, share in each.items()) for each in shares]
        else:
            a, b = session.embed(paths)
            likeness = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
            assert lines == ["-\t(the first file)", f"{likeness:.3f}\t{paths[0]}"]


@pytest.mark.slow
def test_paths_of_sounds(tmp_path: Path) -> None:
    folder = built(tmp_path, "transcribe")
    said(tmp_path / "said.wav", 400, 16000)
    with dk.open(folder) as session:
        expected = session.transcribe(tmp_path / "said.wav")
    assert piped(folder, f"{tmp_path / 'said.wav'}\n".encode()) == [expected]


def test_paths_as_they_are_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    path = pictures(tmp_path)[1]
    for line in (f" {path} ", f"'{path}'", str(path).replace(" ", "\\ ")):
        assert _path(line) == str(path)
    assert _path("~/it's.png") == "/home/me/it's.png"


def give(page: Page, *paths: Path) -> str:
    """Drop files onto the page; its answer, or its error."""
    files = [[path.name, base64.b64encode(path.read_bytes()).decode()] for path in paths]
    page.evaluate("error.textContent = state.textContent = ''")
    page.evaluate(f"""(async () => {{
        const dataTransfer = new DataTransfer();
        for (const [name, data] of {json.dumps(files)}) {{
            dataTransfer.items.add(new File([await (await fetch('data:;base64,' + data)).blob()], name));
        }}
        document.body.dispatchEvent(new DragEvent('drop', {{ dataTransfer, bubbles: true, cancelable: true }}));
    }})()""")
    page.wait("state.textContent.startsWith('Answered in') || error.textContent")
    found: str = page.evaluate("error.textContent || document.querySelector('#answer, #pictures').innerText")
    return found


@in_a_page
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classify", "detect", "segment", "embed", "match"])
def test_a_page_takes_pictures(tmp_path: Path, kind: str) -> None:
    folder, paths = built(tmp_path, kind, "webgpu"), pictures(tmp_path)
    (tmp_path / "no.png").write_bytes(paths[0].read_bytes()[:100])
    with serving(folder) as address, chromium(*CAMERA) as page, dk.open(folder) as session:
        page.resize(400, 800)
        page.open(address)
        page.wait("state.textContent.startsWith('Choose')")
        if kind == "classify":
            labels = session.classify(paths[0])
            assert give(page, paths[0]).split() == [x for label in labels for x in (label.name, f"{label.score:.3f}")]
        elif kind == "detect":
            page.evaluate(f"least.value = {LEAST_SCORE}, least.dispatchEvent(new Event('input'))")
            objects = session.detect(paths[0], LEAST_SCORE)
            assert objects
            assert give(page, paths[0]).split() == [x for one in objects for x in (one.label, f"{one.score:.3f}")]
            assert page.evaluate("[overlay.width, overlay.height]") == [60, 40]
            assert page.evaluate("overlay.getContext('2d').getImageData(0, 0, 60, 40).data.some(Boolean)")
        elif kind == "match":
            page.evaluate("texts.value = 'a cat\\nthe', texts.dispatchEvent(new Event('input'))")
            labels = session.match(paths[0], ["a cat", "the"])
            shown = give(page, paths[0]).replace("a cat", "a_cat").split()
            assert shown == [x for label in labels for x in (label.name.replace(" ", "_"), f"{label.score:.3f}")]
        elif kind == "segment":
            shares = session.segment(paths[0]).shares
            expected = [x for name, share in shares.items() for x in (name, f"{100 * share:.1f}", "%")]
            assert give(page, paths[0]).split() == expected
            assert page.evaluate("overlay.getContext('2d').getImageData(0, 0, 60, 40).data[3]") == 255
        else:
            a, b = session.embed(paths)
            likeness = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
            assert give(page, *paths).split()[::2] == ["1.000", f"{likeness:.3f}"]
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        assert give(page, tmp_path / "no.png") == "no.png is no picture that this browser can read, or it is damaged."
        page.evaluate("error.textContent = state.textContent = '', live.click()")
        page.wait("live.textContent === 'Stop the camera' && video.videoWidth")
        if kind == "embed":
            page.evaluate("shoot.click()")
            page.wait("pictures.children.length === 3")
        page.wait("state.textContent.startsWith('Answered in')")
        page.evaluate("state.textContent = '', live.click()")
        page.wait("live.textContent === 'Camera' && video.srcObject === null")
        if kind != "embed":
            page.wait("state.textContent.startsWith('Answered in') && !picture.hidden && picture.width > 60")
        assert page.errors() == []


@in_a_page
@pytest.mark.slow
def test_a_page_takes_sounds(tmp_path: Path) -> None:
    folder = built(tmp_path, "transcribe", "webgpu")
    said(tmp_path / "said.wav", 4000, 11025)
    (tmp_path / "no.wav").write_bytes(b"RIFF")
    with serving(folder) as address, chromium(*CAMERA) as page, dk.open(folder) as session:
        page.open(address)
        page.wait("state.textContent.startsWith('Choose')")
        assert give(page, tmp_path / "said.wav") == session.transcribe(tmp_path / "said.wav")
        assert page.evaluate("!document.getElementById('sound').hidden && player.src.startsWith('blob:')")
        assert give(page, tmp_path / "no.wav") == "no.wav is no sound that this browser can read, or it is damaged."
        page.evaluate("error.textContent = state.textContent = '', live.click()")
        page.wait("live.textContent === 'Stop' && parseFloat(state.textContent.slice(11)) > 0.2")
        page.evaluate("live.click()")
        page.wait("state.textContent.startsWith('Answered in') || error.textContent")
        assert page.evaluate("error.textContent") == ""
        assert page.errors() == []


@in_a_page
@pytest.mark.slow
def test_a_damaged_model_is_said(tmp_path: Path) -> None:
    folder = built(tmp_path, "classify", "webgpu")
    (weights, *_) = sorted((folder / "weights").iterdir())
    weights.write_bytes(b"\1" * weights.stat().st_size)
    with serving(folder) as address, chromium() as page:
        page.open(address)
        page.wait("error.textContent")
        assert page.evaluate("error.textContent").startswith("IntegrityError: ")
        assert "is not the file that was built" in page.evaluate("error.textContent")
        assert page.evaluate("state.textContent") == "The model is not loaded."
        assert page.evaluate("progress.hidden && !devices.disabled")
