"""Image processors of transformers: the class, and the entries that differ from its defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

SMALL = {"height": 8, "width": 6}
EDGE = {"shortest_edge": 8}
SQUARE = {"height": 8, "width": 8}

PICTURE_CASES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "vit": ("ViTImageProcessor", {"size": SMALL}),
    "vit-raw": ("ViTImageProcessor", {"size": SMALL, "resample": 3, "do_normalize": False, "rescale_factor": 0.01}),
    "vit-whole": ("ViTImageProcessor", {"do_resize": False, "do_rescale": False}),
    "deit": ("DeiTImageProcessor", {"size": SMALL, "crop_size": {"height": 5, "width": 9}}),
    "bit": ("BitImageProcessor", {"size": {"shortest_edge": 9}, "crop_size": SQUARE}),
    "clip": ("CLIPImageProcessor", {"size": EDGE, "crop_size": SQUARE}),
    "siglip": ("SiglipImageProcessor", {"size": SMALL}),
    "convnext": ("ConvNextImageProcessor", {"size": {"shortest_edge": 7}}),
    "segformer": ("SegformerImageProcessor", {"size": SMALL, "do_reduce_labels": False}),
    "detr": ("DetrImageProcessor", {"size": {"shortest_edge": 8, "longest_edge": 15}}),
    "beit": ("BeitImageProcessor", {"size": SMALL}),
    "beit-crop": (
        "BeitImageProcessor",
        {"size": SMALL, "do_center_crop": True, "crop_size": {"height": 5, "width": 9}},
    ),
    "blip": ("BlipImageProcessor", {"size": SMALL}),
    "chinese-clip": ("ChineseCLIPImageProcessor", {"size": EDGE, "crop_size": SQUARE}),
    "levit": ("LevitImageProcessor", {"size": EDGE, "crop_size": SQUARE}),
    "mobilenet-v1": ("MobileNetV1ImageProcessor", {"size": {"shortest_edge": 9}, "crop_size": SQUARE}),
    "mobilenet-v2": ("MobileNetV2ImageProcessor", {"size": {"shortest_edge": 9}, "crop_size": SQUARE}),
    "mobilevit": ("MobileViTImageProcessor", {"size": {"shortest_edge": 9}, "crop_size": SQUARE}),
    "mobilevit-rgb": (
        "MobileViTImageProcessor",
        {"size": EDGE, "do_center_crop": False, "do_flip_channel_order": False, "resample": 2},
    ),
    "poolformer": ("PoolFormerImageProcessor", {"size": EDGE, "crop_size": SQUARE}),
    "poolformer-95": (
        "PoolFormerImageProcessor",
        {"size": {"shortest_edge": 13}, "crop_size": SQUARE, "crop_pct": 0.95},
    ),
    "pvt": ("PvtImageProcessor", {"size": SMALL}),
    "conditional-detr": ("ConditionalDetrImageProcessor", {"size": {"shortest_edge": 8, "longest_edge": 15}}),
    "deformable-detr": ("DeformableDetrImageProcessor", {"size": {"shortest_edge": 8, "longest_edge": 15}}),
    "rt-detr": ("RTDetrImageProcessor", {"size": SMALL}),
}

SIZES = ((12, 19), (23, 10))
"""Heights and widths of the pictures."""


def pixels(number: int) -> np.ndarray:
    """A picture of random points."""
    return np.random.default_rng(number).integers(0, 256, (*SIZES[number], 3), dtype=np.uint8)
