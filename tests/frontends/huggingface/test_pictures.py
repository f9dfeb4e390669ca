"""`preprocessor_config.json` says what transformers' image processors do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deploykit.errors import UnsupportedModelError, UsageError
from deploykit.frontends.huggingface.folder import read_folder
from deploykit.frontends.huggingface.pictures import prepared_size, read_picture
from deploykit.pictures import Edges, Picture
from tests.frontends.huggingface.picture_cases import PICTURE_CASES, SIZES, pixels
from tests.frontends.huggingface.seeds import GOLDENS, write_folder


def read(
    folder: Path, entries: dict[str, Any], file: str = "preprocessor_config.json", model_type: str = "vit"
) -> Picture | None:
    write_folder(folder, {"model_type": model_type}, {"x": [1]})
    (folder / file).write_text(json.dumps(entries))
    return read_picture(read_folder(folder))


@pytest.mark.parametrize("name", PICTURE_CASES)
def test_results(tmp_path: Path, name: str) -> None:
    entries = json.loads((GOLDENS / "pictures.json").read_text())[name]
    picture = read(tmp_path, entries)
    assert picture is not None
    with np.load(GOLDENS / "pictures.npz") as results:
        for number in range(len(SIZES)):
            np.testing.assert_array_equal(picture.prepared(pixels(number)), results[f"{name}/{number}"])


def test_folders_that_say_nothing(tmp_path: Path) -> None:
    write_folder(tmp_path, {"model_type": "vit"}, {"x": [1]})
    assert read_picture(read_folder(tmp_path)) is None


@pytest.mark.parametrize(
    ("entries", "size"),
    [
        ({}, (224, 224)),
        ({"size": {"height": 30, "width": 40}}, (30, 40)),
        ({"image_processor_type": "CLIPImageProcessor", "crop_size": 50}, (50, 50)),
        ({"image_processor_type": "DetrImageProcessor"}, (800, 800)),
        ({"image_processor_type": "DPTImageProcessor", "size": {"shortest_edge": 70}}, (70, 70)),
        (
            {"image_processor_type": "DPTImageProcessor", "size": 70, "crop_size": {"height": 6, "width": 8}},
            (6, 8),
        ),
        ({"image_processor_type": "DPTImageProcessor", "size": {"longest_edge": 70}}, None),
        ({"image_processor_type": "DPTImageProcessor"}, None),
    ],
)
def test_sizes_that_an_export_is_compared_at(
    tmp_path: Path, entries: dict[str, Any], size: tuple[int, int] | None
) -> None:
    write_folder(tmp_path, {"model_type": "vit"}, {"x": [1]})
    assert prepared_size(read_folder(tmp_path)) is None
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(entries))
    assert prepared_size(read_folder(tmp_path)) == size


def test_entries_of_older_and_newer_folders(tmp_path: Path) -> None:
    square = read(tmp_path, {"feature_extractor_type": "ViTFeatureExtractor", "size": 99, "do_rescale": None})
    assert square is not None
    assert (square.size, square.scale) == ((99, 99), 1 / 255)
    clip = read(tmp_path, {"feature_extractor_type": "CLIPFeatureExtractor", "size": 99, "crop_size": 88})
    assert clip is not None
    assert (clip.size, clip.crop) == (Edges(99), (88, 88))
    detr = read(tmp_path, {"image_processor_type": "DetrImageProcessorFast", "size": 99, "max_size": 150})
    assert detr is not None
    assert detr.size == Edges(99, 150)
    large = read(tmp_path, {"image_processor_type": "ConvNextImageProcessor", "size": {"shortest_edge": 384}})
    assert large is not None
    assert (large.size, large.crop) == ((384, 384), None)
    (tmp_path / "preprocessor_config.json").unlink()
    newer = read(tmp_path, {"image_processor": {"image_processor_type": "ViTImageProcessor"}}, "processor_config.json")
    assert newer is not None
    assert newer.size == (224, 224)


def test_files_that_name_no_processor(tmp_path: Path) -> None:
    vit = read(tmp_path, {"size": 99})
    assert vit is not None
    assert (vit.size, vit.filter, vit.mean) == ((99, 99), "bilinear", (0.5, 0.5, 0.5))
    detr = read(tmp_path, {}, model_type="detr")
    assert detr is not None
    assert detr.size == Edges(800, 1333)
    with pytest.raises(UnsupportedModelError, match="names no image processor; there are ViTImageProcessor"):
        read(tmp_path, {"size": 99}, model_type="mystery")


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (
            {"image_processor_type": "FlavaImageProcessor"},
            "names the processor FlavaImageProcessor; there are ViTImage",
        ),
        (
            {"image_processor_type": "ViTImageProcessor", "resample": 1},
            "says resample=1; there are 2 [(]bilinear[)], 3",
        ),
        ({"image_processor_type": "ViTImageProcessor", "do_thumbnail": True}, "says do_thumbnail=True, a step"),
        ({"image_processor_type": "DetrImageProcessor", "pad_size": {"height": 9, "width": 9}}, "says pad_size="),
        ({"image_processor_type": "CLIPImageProcessor", "size": {"longest_edge": 9}}, "it must have height and width"),
        ({"image_processor_type": "LevitImageProcessor", "size": {"height": 9, "width": 8}}, "one size, of the short"),
        ({"image_processor_type": "PoolFormerImageProcessor", "crop_pct": 1.5}, "crop_pct up to 1"),
        ({"image_processor_type": "ViTImageProcessor", "do_flip_channel_order": True}, "order=True, a step that"),
    ],
)
def test_what_is_unknown(tmp_path: Path, entries: dict[str, Any], message: str) -> None:
    with pytest.raises(UnsupportedModelError, match=message):
        read(tmp_path, entries)


@pytest.mark.parametrize(
    ("entry", "value"),
    [("size", {"height": 0, "width": 4}), ("size", [4]), ("image_mean", [0.5, 0.5]), ("image_std", "1")],
)
def test_entries_that_make_no_sense(tmp_path: Path, entry: str, value: object) -> None:
    with pytest.raises(UsageError, match=f"says {entry}="):
        read(tmp_path, {"image_processor_type": "ViTImageProcessor", entry: value})
