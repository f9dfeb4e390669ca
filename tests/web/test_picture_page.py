"""Pictures that a page of Chromium has: images, canvases, bitmaps and frames have the pixels that Pillow reads."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bench.browser import find_chromium, in_chromium
from deploykit.runtime import JS_MODULES
from deploykit.sessions.tasks.picture_sources import pixels_of

pytestmark = pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")


def test_pictures_of_a_page(tmp_path: Path) -> None:
    for path in (*JS_MODULES, Path(__file__).with_name("pictures.html")):
        shutil.copyfile(path, tmp_path / path.name)
    pixels = np.random.default_rng(0).integers(0, 256, (9, 14, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "plain.png")
    smooth = np.stack([np.linspace(20, 230, 16 * 24).reshape(16, 24)] * 3, axis=2).astype(np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(smooth).save(tmp_path / "turned.jpeg", exif=exif, quality=98)
    alpha = np.concatenate([pixels, np.array([0, 128, 255] * 42, np.uint8).reshape(9, 14, 1)], axis=2)
    Image.fromarray(alpha).save(tmp_path / "transparent.png")
    report = in_chromium(tmp_path, "pictures.html")
    assert report["errors"] == []
    assert report["refused"] == "ShapeError"
    found = {
        name: np.reshape(each["data"], (each["height"], each["width"], 3)) for name, each in report["pixels"].items()
    }
    for name in ("image", "canvas", "offscreen", "bitmap", "data"):
        np.testing.assert_array_equal(found[name], pixels, err_msg=name)
    np.testing.assert_allclose(found["frame"], pixels, rtol=0, atol=2)
    np.testing.assert_allclose(found["turned"], pixels_of(tmp_path / "turned.jpeg"), rtol=0, atol=3)
    expected = pixels_of(tmp_path / "transparent.png")
    np.testing.assert_allclose(found["transparent"], expected, rtol=0, atol=2)
    np.testing.assert_array_equal(found["transparent"][alpha[:, :, 3] != 128], expected[alpha[:, :, 3] != 128])
