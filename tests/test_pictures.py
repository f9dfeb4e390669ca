"""Pictures are resized to the bits of Pillow."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from deploykit.errors import UsageError
from deploykit.pictures import Edges, Filter, Picture, centre, resized, rgb

PILLOW = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


@pytest.mark.parametrize("by", PILLOW)
def test_many_sizes(by: Filter) -> None:
    random = np.random.default_rng(0)
    for number in range(400):
        height, width, new_height, new_width = (int(n) for n in random.integers(1, 90, 4))
        pixels = random.integers(0, 256, (height, width, 3), dtype=np.uint8)
        if number % 2:
            pixels = np.where(pixels > 127, 255, 0).astype(np.uint8)  # steps overshoot the range of a byte most
        expected = np.asarray(Image.fromarray(pixels).resize((new_width, new_height), PILLOW[by]))
        found = resized(pixels, (new_height, new_width), by)
        np.testing.assert_array_equal(found, expected, err_msg=f"{height}x{width} -> {new_height}x{new_width}")


@pytest.mark.parametrize("by", PILLOW)
@pytest.mark.parametrize("size", [(1, 700), (700, 1), (311, 224), (224, 300)])
def test_large_pictures(by: Filter, size: tuple[int, int]) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (1080, 720, 3), dtype=np.uint8)
    expected = np.asarray(Image.fromarray(pixels).resize(size[::-1], PILLOW[by]))
    np.testing.assert_array_equal(resized(pixels, size, by), expected)


def test_transparent_points_are_white() -> None:
    pixels = np.random.default_rng(2).integers(0, 256, (40, 50, 4), dtype=np.uint8)
    white = Image.new("RGBA", (50, 40), (255, 255, 255, 255))
    expected = np.asarray(Image.alpha_composite(white, Image.fromarray(pixels)).convert("RGB"))
    np.testing.assert_array_equal(rgb(pixels), expected)
    opaque = pixels.copy()
    opaque[:, :, 3] = 255
    np.testing.assert_array_equal(rgb(opaque), pixels[:, :, :3])


def test_grey_pictures_have_three_channels() -> None:
    grey = np.arange(6, dtype=np.uint8).reshape(2, 3)
    np.testing.assert_array_equal(rgb(grey), np.stack([grey] * 3, axis=2))


@pytest.mark.parametrize(
    ("picture", "message"),
    [
        (np.zeros((4, 4, 3), np.uint16), r"8-bit integers \(uint8\); this one has uint16: scale it"),
        (np.zeros((4, 4, 3), np.float32), "this one has float32"),
        (np.zeros((3, 4, 4, 3), np.uint8), r"this one is \[3, 4, 4, 3\]"),
        (np.zeros((4, 4, 2), np.uint8), r"this one is \[4, 4, 2\]"),
        (np.zeros((0, 4, 3), np.uint8), "not empty"),
    ],
)
def test_what_is_no_picture(picture: np.ndarray, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Picture().prepared(picture)


def test_a_size_without_points() -> None:
    with pytest.raises(UsageError, match="4x9 points cannot become one of 0x2"):
        resized(np.zeros((4, 9, 3), np.uint8), (0, 2), "bilinear")


def test_the_centre() -> None:
    pixels = np.arange(5 * 4 * 3, dtype=np.uint8).reshape(5, 4, 3)
    np.testing.assert_array_equal(centre(pixels, (2, 3)), pixels[1:3, 0:3])
    around = centre(pixels, (8, 4))
    np.testing.assert_array_equal(around, np.pad(pixels, [(2, 1), (0, 0), (0, 0)]))


def test_sizes_that_keep_the_aspect_ratio() -> None:
    assert Edges(224).of(480, 640) == (224, 298)
    assert Edges(224).of(640, 480) == (298, 224)
    assert Edges(800, 1333).of(480, 640) == (800, 1066)
    assert Edges(800, 1333).of(3000, 1000) == (1333, 444)
    assert Edges(444, 1333).of(1400, 444) == (1333, 423)
    assert Edges(444, 1333).of(444, 800) == (444, 800)
