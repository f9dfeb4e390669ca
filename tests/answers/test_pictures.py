"""Pictures in C: prepared to the bits of `deploykit.pictures`, with the objects and segments of Python."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from deploykit import runtime
from deploykit.artifact.tasks import PictureEntry
from deploykit.errors import UsageError
from deploykit.pictures import Edges, Picture, rgb
from deploykit.sessions.tasks.pictures import Pictures
from deploykit.sessions.tasks.segments import best_classes
from tests.answers.in_c import library, output_of, program
from tests.frontends.huggingface.answer_cases import MAP_SIZES, maps, objects
from tests.web.test_picture_models import pictures

PREPARE, PLACES = runtime.PICTURES_INCLUDE / "prepare.c", runtime.PICTURES_INCLUDE / "places.c"

PREMULTIPLIED, OPAQUE = 5, 6


@pytest.fixture(scope="module")
def prepare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return program(Path(__file__).with_name("prepared.c"), [PREPARE], tmp_path_factory.mktemp("prepare"))


def request_of(
    pixels: np.ndarray, picture: Picture, *, points: int = 0, stride: int = 0, width: int | None = None
) -> bytes:
    """A picture as `prepared.c` reads it. Bytes between rows are there, but none behind the last one."""
    height = pixels.shape[0]
    width = pixels.shape[1] if width is None else width
    channels = pixels.shape[2] if pixels.ndim == 3 else 1
    size = picture.size if isinstance(picture.size, tuple) else (0, 0)
    edges = picture.size if isinstance(picture.size, Edges) else Edges(0)
    crop = picture.crop or (0, 0)
    cubic = picture.filter == "bicubic"
    steps = (
        *size,
        edges.shortest,
        edges.longest or 0,
        *crop,
        cubic,
        picture.bgr,
        width,
        height,
        points or channels,
        stride,
    )
    mean, deviation = picture.mean or (0, 0, 0), picture.deviation or (1, 1, 1)
    values = struct.pack("<12id6f", *steps, 1 if picture.scale is None else picture.scale, *mean, *deviation)
    gap = b"\xab" * max(stride - width * channels, 0)
    data = gap.join(row.tobytes() for row in pixels)
    return values + struct.pack("<Q", len(data)) + data


def read(output: bytes) -> list[np.ndarray | str]:
    """The tensors and errors that `prepared.c` writes."""
    found: list[np.ndarray | str] = []
    while output:
        height, width = struct.unpack("<2q", output[:16])
        end = 16 + (12 * height * width if height else width)
        part, output = output[16:end], output[end:]
        found.append(np.frombuffer(part, np.float32).reshape(3, height, width) if height else part.decode())
    return found


def require_the_same(prepare: Path, cases: Sequence[tuple[np.ndarray, Picture]], **options: int) -> None:
    found = read(output_of(prepare, b"".join(request_of(*case, **options) for case in cases)))
    for ours, (pixels, picture) in zip(found, cases, strict=True):
        np.testing.assert_array_equal(ours, picture.prepared(pixels), strict=True, err_msg=str((pixels.shape, picture)))


def test_many_sizes(prepare: Path) -> None:
    require_the_same(prepare, pictures(200))


@pytest.mark.parametrize("by", ["bilinear", "bicubic"])
def test_large_small_and_long_pictures(prepare: Path, by: str) -> None:
    random, cases = np.random.default_rng(1), []
    sizes: list[tuple[tuple[int, int], tuple[int, int] | Edges | None, tuple[int, int] | None]] = [
        ((1, 1), (7, 5), None),
        ((1, 1), None, (3, 4)),
        ((1, 1), Edges(4), (2, 9)),
        ((1, 900), (8, 8), None),
        ((900, 1), (8, 8), None),
        ((700, 3), Edges(4), (4, 4)),
        ((3, 700), Edges(9, 300), None),
        ((480, 641), (224, 224), None),
        ((1000, 30), (9, 29), (5, 31)),
        ((40, 50), (40, 20), None),
        ((40, 50), (10, 50), None),
        ((40, 50), (40, 50), (10, 60)),
    ]
    for shape, size, crop in sizes:
        pixels = random.integers(0, 256, (*shape, 3), dtype=np.uint8)
        cases.append((pixels, Picture(size, by, crop, 1 / 255, (0.1, 0.5, 0.6), (0.2, 0.3, 0.4))))  # type: ignore[arg-type]
    require_the_same(prepare, cases)


def test_grey_transparency_and_rows_apart(prepare: Path) -> None:
    random = np.random.default_rng(2)
    for channels in (1, 3, 4):
        pixels = random.integers(0, 256, (31, 22, channels), dtype=np.uint8)
        for stride in (0, 22 * channels, 22 * channels + 5):
            require_the_same(prepare, [(pixels, Picture((9, 40), "bicubic")), (pixels, Picture())], stride=stride)


def test_all_transparencies(prepare: Path) -> None:
    """Of points as they are, and of points that are multiplied by it, as a bitmap of Android has them."""
    values = np.stack(np.meshgrid(np.arange(256), np.arange(256)), axis=2).astype(np.uint8)
    given = values[:, :, [0, 0, 0, 1]]
    require_the_same(prepare, [(given, Picture())])
    multiplied = given.copy()
    multiplied[:, :, :3] = np.round(given[:, :, :3] * (given[:, :, 3:] / 255))
    (found,) = read(output_of(prepare, request_of(multiplied, Picture(), points=PREMULTIPLIED)))
    np.testing.assert_array_equal(found, rgb(given).transpose(2, 0, 1))
    (found,) = read(output_of(prepare, request_of(given, Picture(), points=OPAQUE)))
    np.testing.assert_array_equal(found, given[:, :, :3].transpose(2, 0, 1))


def test_what_is_no_picture(prepare: Path) -> None:
    whole = np.zeros((4, 9, 3), np.uint8)
    cases = [
        (request_of(np.zeros((0, 4, 3), np.uint8), Picture()), "the picture is NULL"),
        (request_of(whole, Picture(), points=2), "the points of a picture are DK_GREY, DK_RGB, DK_RGBA, "),
        (request_of(whole, Picture(), points=7), "the points of a picture are"),
        (request_of(whole, Picture(), stride=26), "the stride is less than the bytes of a row"),
        (request_of(whole, Picture(), width=0), "a picture has 1 to 16777216 rows and columns"),
        (request_of(whole, Picture(), width=-4), "a picture has 1 to 16777216 rows and columns"),
        (request_of(np.zeros((1, 900, 3), np.uint8), Picture(Edges(8, 20))), "no size"),
    ]
    found = read(output_of(prepare, b"".join(given for given, _ in cases)))
    for text, (_, message) in zip(found, cases, strict=True):
        assert isinstance(text, str)
        assert text.startswith(message)
    with pytest.raises(UsageError, match="cannot become one of 0x20"):
        Picture(Edges(8, 20)).prepared(np.zeros((1, 900, 3), np.uint8))


class Object(ctypes.Structure):
    _fields_ = (
        ("label", ctypes.c_int32),
        *((name, ctypes.c_float) for name in ("score", "left", "top", "right", "bottom")),
    )


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return library([PLACES], tmp_path_factory.mktemp("places"))


@pytest.mark.parametrize("overlap", [1.0, 0.1, 0.0])
def test_objects(places: ctypes.CDLL, overlap: float) -> None:
    task = PictureEntry(
        kind="detect", pixels="x", picture=Picture(), outputs=("logits", "boxes"), labels=("LABEL_0", "LABEL_1")
    )
    random = np.random.default_rng(3)
    several = [objects(), (random.normal(0, 2, (1, 90, 3)), random.uniform(0, 0.5, (1, 90, 4)))]
    for logits, boxes in ((a.astype(np.float32), b.astype(np.float32)) for a, b in several):
        given, where = logits, boxes
        session = Pictures((), task, lambda _, a=given, b=where: {"logits": a, "boxes": b})
        for least in (0.0, 0.3, 0.9):
            (expected,) = session.detect([np.zeros((30, 40, 3), np.uint8)], least, overlap)
            found = (Object * logits.shape[1])()
            count = places.dk_find_objects(
                *(ctypes.c_void_p(array.ctypes.data) for array in (logits, boxes)),
                *(logits.shape[1], logits.shape[2], 30, 40),
                *(ctypes.c_float(least), ctypes.c_float(overlap), found),
            )
            assert [f"LABEL_{one.label}" for one in found[:count]] == [one.label for one in expected]
            for name in ("score", "left", "top", "right", "bottom"):
                numbers = [[getattr(one, name) for one in some] for some in (found[:count], expected)]
                np.testing.assert_allclose(*numbers, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("classes", [3, 300])
def test_segments(places: ctypes.CDLL, classes: int) -> None:
    scores = maps() if classes == 3 else np.random.default_rng(4).standard_normal((1, classes, 5, 7))
    scores = np.ascontiguousarray(scores[0], np.float32)
    for height, width in (*MAP_SIZES, (40, 31)):
        expected = best_classes(scores, (height, width))
        found = np.zeros_like(expected)
        memory = [None, ctypes.c_void_p(found.ctypes.data)]
        order = memory if found.dtype == np.uint16 else memory[::-1]
        places.dk_find_segments(ctypes.c_void_p(scores.ctypes.data), *scores.shape, height, width, *order)
        np.testing.assert_array_equal(found, expected)
