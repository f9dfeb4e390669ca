"""Pictures of all kinds become red, green and blue as transformers makes them, and damaged files are named."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

from deploykit.errors import UsageError
from deploykit.sessions.tasks.picture_sources import pixels_of

PIXELS = np.random.default_rng(0).integers(0, 256, (9, 14, 4), dtype=np.uint8)
PICTURE = Image.fromarray(PIXELS)


def on_white(picture: Image.Image) -> np.ndarray:
    white = Image.new("RGBA", picture.size, (255, 255, 255, 255))
    return np.asarray(Image.alpha_composite(white, picture.convert("RGBA")).convert("RGB"))


@pytest.mark.parametrize("mode", ["RGB", "L", "1", "P", "CMYK", "YCbCr", "HSV", "LAB", "RGBX"])
def test_modes(mode: str) -> None:
    opaque = PICTURE.convert("RGB")
    picture = Image.frombytes("LAB", opaque.size, opaque.tobytes()) if mode == "LAB" else opaque.convert(mode)
    np.testing.assert_array_equal(pixels_of(picture), np.asarray(picture.convert("RGB")))


@pytest.mark.parametrize("mode", ["RGBA", "LA", "RGBa", "PA"])
def test_modes_with_transparency(mode: str) -> None:
    picture = PICTURE.convert("P").convert("PA") if mode == "PA" else PICTURE.convert(mode)
    np.testing.assert_array_equal(pixels_of(picture), on_white(picture))


@pytest.mark.parametrize("mode", ["RGB", "L", "P"])
def test_a_transparent_colour(tmp_path: Path, mode: str) -> None:
    picture = PICTURE.convert("RGB").convert(mode)
    picture.save(tmp_path / "picture.png", transparency=picture.getpixel((3, 4)))
    expected = on_white(Image.open(tmp_path / "picture.png"))
    assert (expected[4, 3] == 255).all()
    np.testing.assert_array_equal(pixels_of(tmp_path / "picture.png"), expected)


def test_a_transparent_grey_of_16_bits(tmp_path: Path) -> None:
    grey = np.array([[0, 257, 1000]], np.uint16)
    Image.fromarray(grey).save(tmp_path / "grey.png", transparency=257)
    assert pixels_of(tmp_path / "grey.png")[0, :, 0].tolist() == [0, 255, 4]


def test_a_mode_that_pillow_does_not_convert() -> None:
    with pytest.raises(UsageError, match="the picture cannot be decoded: conversion from La"):
        pixels_of(PICTURE.convert("LA").convert("La"))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_files_are_turned(tmp_path: Path, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    PICTURE.save(tmp_path / "turned.png", exif=exif)
    opened = Image.open(tmp_path / "turned.png")
    expected = on_white(ImageOps.exif_transpose(opened))
    assert expected.shape == ((9, 14, 3) if orientation < 5 else (14, 9, 3))
    np.testing.assert_array_equal(pixels_of(tmp_path / "turned.png"), expected)
    np.testing.assert_array_equal(pixels_of(opened), expected)


@pytest.mark.parametrize("kind", ["png", "tiff"])
def test_grey_pictures_of_16_bits(tmp_path: Path, kind: str) -> None:
    grey = np.arange(0, 65536, 5, dtype=np.uint16)[:13104].reshape(104, 126)
    Image.fromarray(grey).save(tmp_path / f"grey.{kind}")
    expected = np.round(grey / 257)
    np.testing.assert_array_equal(pixels_of(tmp_path / f"grey.{kind}"), np.stack([expected] * 3, axis=2))


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_points_of_32_bits(dtype: type) -> None:
    with pytest.raises(UsageError, match="the picture has points of 32 bits, whose range is unknown: scale"):
        pixels_of(Image.fromarray(np.zeros((3, 4), dtype)))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", ["png", "jpeg", "gif", "bmp", "webp", "tiff"])
def test_damaged_files(tmp_path: Path, kind: str) -> None:
    """Every file is a picture of the same size or an error that names it."""
    whole = io.BytesIO()
    PICTURE.convert("RGB").save(whole, kind)
    path, random = tmp_path / f"picture.{kind}", np.random.default_rng(1)
    messages = []
    for number in range(60):
        data = bytearray(whole.getvalue())
        if number % 2:
            data = data[: int(random.integers(0, len(data)))]
        else:
            for place in random.integers(0, len(data), 4):
                data[place] = int(random.integers(0, 256))
        path.write_bytes(data)
        try:
            assert pixels_of(path).ndim == 3
        except UsageError as error:
            messages.append(str(error))
    assert len(messages) > 15
    assert all(str(path) in message for message in messages)


@pytest.mark.parametrize("data", [b"", b"no picture at all", b"\x89PNG\r\n\x1a\n"])
def test_files_that_are_no_pictures(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "cat.png").write_bytes(data)
    with pytest.raises(UsageError, match=r"cat\.png (cannot be (read as a picture|decoded))"):
        pixels_of(tmp_path / "cat.png")


def test_files_that_are_missing(tmp_path: Path) -> None:
    for path in (tmp_path / "none.png", tmp_path):
        with pytest.raises(UsageError, match="cannot be read as a picture"):
            pixels_of(path)


def test_without_pillow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(UsageError, match=r"pip install 'deploykit\[pictures\]'"):
        pixels_of(tmp_path / "cat.png")
