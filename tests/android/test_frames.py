"""Frames of cameras in Java: their answers are those of the same pictures as red, green and blue."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import deploykit
from deploykit.artifact.manifest import read_manifest
from deploykit.artifact.tasks import PictureEntry
from deploykit.targets.android import AndroidTarget
from tests.android.conftest import needs_desktop, needs_java, on_desktop
from tests.android.natives import Natives
from tests.android.test_natives import each_abi
from tests.frontends.huggingface.answer_cases import LEAST_SCORE
from tests.frontends.huggingface.test_picture_answers import folder_of

pytestmark = [needs_java, needs_desktop, pytest.mark.slow]

YUV_420_888, JPEG = 35, 256


@dataclass(frozen=True)
class Frame:
    """A frame `[height, width]` with planes of chroma of half its size, rounded up. `point` and `gap` are the distance
    of points of chroma in memory, and the bytes between rows. The last row ends with its last point."""

    y: np.ndarray
    u: np.ndarray
    v: np.ndarray
    part: tuple[int, int, int, int]
    """Left, top, right and bottom."""
    degrees: int = 0
    point: int = 1
    gap: int = 0
    format: int = YUV_420_888
    closed: bool = False
    direct: bool = True

    @property
    def planes(self) -> list[tuple[int, int, bytes]]:
        """The strides of rows and points, and the bytes, of each plane."""
        found = []
        for plane, point in ((self.y, 1), (self.u, self.point), (self.v, self.point)):
            rows = np.full((plane.shape[0], plane.shape[1] * point + self.gap), 171, np.uint8)
            rows[:, : plane.shape[1] * point : point] = plane
            data = rows.tobytes()
            found.append((rows.shape[1], point, data[: len(data) - self.gap - point + 1]))
        return found

    @property
    def rgb(self) -> np.ndarray:
        """The part, turned: `[rows, columns, 3]` of uint8, by BT.601 with all values from 0 to 255."""
        height, width = self.y.shape
        u, v = (np.repeat(np.repeat(plane, 2, 0), 2, 1)[:height, :width] - 128.0 for plane in (self.u, self.v))
        y = self.y.astype(np.float64)
        colours = np.stack([y + 1.402 * v, y - 0.344136 * u - 0.714136 * v, y + 1.772 * u], axis=2)
        left, top, right, bottom = self.part
        shown = np.clip(np.floor(colours + 0.5), 0, 255).astype(np.uint8)[top:bottom, left:right]
        return np.ascontiguousarray(np.rot90(shown, -self.degrees // 90))

    @property
    def request(self) -> bytes:
        """The frame as `FrameAnswers` reads it."""
        numbers = (*self.y.shape[::-1], *self.part, self.degrees, self.format, self.closed, self.direct)
        parts = [struct.pack("<10i", *numbers)]
        parts += [struct.pack("<3i", row, point, len(data)) + data for row, point, data in self.planes]
        return b"".join(parts)


def frame(height: int, width: int, **options: object) -> Frame:
    random = np.random.default_rng(height * 100 + width)
    half = ((height + 1) // 2, (width + 1) // 2)
    y = random.integers(0, 256, (height, width), dtype=np.uint8)
    u, v = (random.integers(0, 256, half, dtype=np.uint8) for _ in range(2))
    return replace(Frame(y, u, v, (0, 0, width, height)), **options)  # type: ignore[arg-type]


def frames() -> list[Frame]:
    """All turns with both strides, of even and odd sizes, whole and in part."""
    turned = [
        frame(height, width, degrees=degrees, point=point, gap=gap)
        for height, width in ((30, 40), (31, 23), (1, 1), (7, 60))
        for degrees, point, gap in ((0, 1, 0), (90, 2, 0), (180, 1, 9), (270, 2, 5))
    ]
    parts = [frame(31, 24, part=(3, 5, 20, 30), degrees=degrees, point=2, gap=8) for degrees in (0, 90, 180, 270)]
    return [*turned, *parts, frame(12, 10, direct=False), frame(12, 10, direct=False, point=2, gap=3)]


REFUSED = [
    (frame(8, 8, format=JPEG), "the image has the format 256, not YUV_420_888 (35): ask the camera for that"),
    (frame(8, 8, closed=True), "the image is closed: close it after this call"),
    (frame(8, 8, degrees=45), "an image is turned by 0, 90, 180 or 270 degrees; found 45"),
    (frame(8, 8, degrees=-90), "an image is turned by 0, 90, 180 or 270 degrees; found -90"),
    (frame(8, 8, part=(4, 4, 4, 8)), "the crop rectangle of the image is empty, or not inside of it"),
    (frame(8, 8, part=(0, 0, 9, 8)), "the crop rectangle of the image is empty, or not inside of it"),
    (
        replace(frame(8, 8), u=np.zeros((3, 4), np.uint8)),
        "plane 1 of the image has 12 bytes; with its strides",
    ),
]


def numbers(line: str) -> list[float]:
    return [float(word) for word in re.findall(r"-?\d+\.\d+(?:E-?\d+)?", line)]


@pytest.mark.parametrize("kind", ["classify", "embed", "detect", "segment"])
def test_answers(tmp_path: Path, kind: str) -> None:
    dist = tmp_path / "dist"
    deploykit.build(folder_of(tmp_path / "model", kind), AndroidTarget(["x86_64"]), output=dist)
    run = on_desktop(dist, "FrameAnswers", tmp_path / "test", ["Bitmap"], declared=True)
    given = frames()
    (tmp_path / "frames").write_bytes(b"".join(each.request for each in [*given, *(each for each, _ in REFUSED)]))
    lines = run(kind, tmp_path / "frames", *([LEAST_SCORE] if kind == "detect" else []))
    for line, (_, message) in zip(lines[len(given) :], REFUSED, strict=True):
        assert line.startswith(f"DeploykitException: {message}"), line
    with deploykit.open(dist) as session:
        for line, each in zip(lines, given, strict=False):
            if kind == "classify":
                labels = session.classify(each.rgb)
                assert re.findall("cat|dog", line) == [label.name for label in labels]
                np.testing.assert_allclose(numbers(line), [label.score for label in labels], rtol=1e-3)
            elif kind == "embed":
                np.testing.assert_allclose(numbers(line), session.embed(each.rgb), rtol=0, atol=1e-3)
            elif kind == "detect":
                objects = session.detect(each.rgb, LEAST_SCORE)
                assert re.findall(r"LABEL_\d", line) == [one.label for one in objects]
                expected = [x for one in objects for x in (one.score, one.left, one.top, one.right, one.bottom)]
                np.testing.assert_allclose(numbers(line), expected, rtol=1e-2, atol=1e-2)
            else:
                classes = np.array([int(word) for word in line[1:-1].split(", ")])
                assert np.mean(classes == session.segment(each.rgb).classes.reshape(-1)) > 0.98


@each_abi
def test_native_method(abi: str, tmp_path: Path) -> None:
    """What the model receives is the picture of Python for each ABI: no point differs by more than 1 of 255."""
    package = tmp_path / "dist"
    deploykit.build(folder_of(tmp_path / "model", "classify"), AndroidTarget([abi]), output=package)
    task = read_manifest(package).task
    assert isinstance(task, PictureEntry)
    deviation = min(task.picture.deviation or (1,))
    with Natives(package, abi, tmp_path / "natives") as natives:
        for each in frames():
            expected = task.picture.prepared(each.rgb)
            planes = [np.frombuffer(data, np.uint8) for _, _, data in each.planes]
            memory = [natives.buffer(array) for array in (*planes, np.zeros_like(expected))]
            strides = [number for row, point, _ in each.planes for number in (row, point)]
            left, top, right, bottom = each.part
            described = np.array([*strides, left, top, bottom - top, right - left, each.degrees])
            assert natives("prepareFrame", memory, described) == 0
            apart = np.abs(memory[3].array - expected)
            assert apart.max() <= 1.01 / 255 / deviation
            assert np.mean(apart > 1e-6) < 0.02
        assert natives.end() == (0, "")
