"""Models whose sessions take pictures: their goldens, and how transformers' processors prepare what they take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from tests.frontends.huggingface.picture_cases import pixels

NAMES = {"0": "cat", "1": "dog"}


@dataclass(frozen=True)
class AnswerCase:
    """`golden` is the name of the model's golden; `settings` are changes of its configuration. `processor` is a class
    of transformers, `entries` are what differs from its defaults."""

    golden: str
    processor: str
    entries: Mapping[str, Any]
    settings: Mapping[str, Any] = field(default_factory=dict)


ANSWER_CASES: Mapping[str, AnswerCase] = {
    "classify": AnswerCase(
        "vit-classes", "ViTImageProcessor", {"size": {"height": 12, "width": 8}}, {"id2label": NAMES}
    ),
    "classify-several": AnswerCase(
        "resnet-classes",
        "ConvNextImageProcessor",
        {"size": {"shortest_edge": 28}},
        {"problem_type": "multi_label_classification", "id2label": NAMES},
    ),
    "embed": AnswerCase("dinov2", "BitImageProcessor", {"size": {"shortest_edge": 15}, "do_center_crop": False}),
    "detect": AnswerCase("detr-objects", "DetrImageProcessor", {"size": {"shortest_edge": 24, "longest_edge": 40}}),
    "segment": AnswerCase("segformer-segments", "SegformerImageProcessor", {"size": {"height": 20, "width": 28}}),
}

LEAST_SCORE = 0.3
"""That of objects."""

FILES = ("plain.png", "turned.png", "palette.png")


def write_pictures(folder: Path) -> list[Path]:
    """Files of pictures: one without anything special, one with transparency that EXIF turns, and one with a
    palette."""
    plain, other = (Image.fromarray(pixels(number)) for number in range(2))
    paths = [folder / name for name in FILES]
    plain.save(paths[0])
    exif = Image.Exif()
    exif[0x0112] = 6
    other.putalpha(Image.fromarray(np.arange(230, dtype=np.uint8).reshape(23, 10)))
    other.save(paths[1], exif=exif)
    plain.quantize(16).save(paths[2], transparency=3)
    return paths


def objects() -> tuple[np.ndarray, np.ndarray]:
    """Random outputs of a detector of two classes: the scores with that of "no object", and boxes, each of several
    queries."""
    random = np.random.default_rng(0)
    return random.normal(0, 2, (1, 12, 3)).astype(np.float32), random.uniform(0, 1, (1, 12, 4)).astype(np.float32)


def maps() -> np.ndarray:
    """Random scores of three classes at each point."""
    return np.random.default_rng(1).standard_normal((1, 3, 5, 7)).astype(np.float32)


MAP_SIZES = ((12, 19), (4, 9), (5, 7), (1, 1))
"""Heights and widths that `maps` are resized to."""
