"""Image processors of transformers: the class, and the entries that differ from its defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

SMALL = {"height": 8, "width": 6}

PICTURE_CASES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "vit": ("ViTImageProcessor", {"size": SMALL}),
    "vit-raw": ("ViTImageProcessor", {"size": SMALL, "resample": 3, "do_normalize": False, "rescale_factor": 0.01}),
    "vit-whole": ("ViTImageProcessor", {"do_resize": False, "do_rescale": False}),
    "deit": ("DeiTImageProcessor", {"size": SMALL, "crop_size": {"height": 5, "width": 9}}),
    "bit": ("BitImageProcessor", {"size": {"shortest_edge": 9}, "crop_size": {"height": 8, "width": 8}}),
    "clip": ("CLIPImageProcessor", {"size": {"shortest_edge": 8}, "crop_size": {"height": 8, "width": 8}}),
    "siglip": ("SiglipImageProcessor", {"size": SMALL}),
    "convnext": ("ConvNextImageProcessor", {"size": {"shortest_edge": 7}}),
    "segformer": ("SegformerImageProcessor", {"size": SMALL, "do_reduce_labels": False}),
    "detr": ("DetrImageProcessor", {"size": {"shortest_edge": 8, "longest_edge": 15}}),
}

SIZES = ((12, 19), (23, 10))
"""Heights and widths of the pictures."""


def pixels(number: int) -> np.ndarray:
    """A picture of random points."""
    return np.random.default_rng(number).integers(0, 256, (*SIZES[number], 3), dtype=np.uint8)
