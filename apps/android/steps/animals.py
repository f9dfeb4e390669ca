"""Makes a model of pictures with random weights, as a Hugging Face folder: a small ResNet with names of animals.

Its answers mean nothing. It shows what an app does with a model of this kind, and no weights need be loaded for it.

    python steps/animals.py DIR
"""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

LABELS = ("cat", "dog", "horse", "cow", "sheep", "hen", "goose", "hedgehog", "squirrel", "bumblebee")
WIDTHS = (24, 48, 96)
SIDE = 96
"""Pictures are cropped to a square of this many pixels."""

_CONFIG = {
    "model_type": "resnet",
    "architectures": ["ResNetForImageClassification"],
    "num_channels": 3,
    "embedding_size": WIDTHS[0],
    "hidden_sizes": list(WIDTHS),
    "depths": [1] * len(WIDTHS),
    "layer_type": "basic",
    "id2label": {str(number): label for number, label in enumerate(LABELS)},
}
_PREPROCESSOR = {
    "image_processor_type": "BitImageProcessor",
    "size": {"shortest_edge": SIDE},
    "crop_size": {"height": SIDE, "width": SIDE},
}
_SCALE = 0.6
"""Of the last layer: small enough that no class takes all."""


def write_animals(folder: Path) -> Path:
    """Write the folder, the same each time."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(_CONFIG))
    (folder / "preprocessor_config.json").write_text(json.dumps(_PREPROCESSOR))
    save_file({name: _weight(name, shape) for name, shape in _shapes()}, folder / "model.safetensors")
    return folder


def _shapes() -> Iterator[tuple[str, tuple[int, ...]]]:
    yield from _convolution("embedder.embedder", 3, WIDTHS[0], 7)
    before = WIDTHS[0]
    for stage, width in enumerate(WIDTHS):
        layer = f"encoder.stages.{stage}.layers.0"
        yield from _convolution(f"{layer}.layer.0", before, width, 3)
        yield from _convolution(f"{layer}.layer.1", width, width, 3)
        if stage > 0:
            yield from _convolution(f"{layer}.shortcut", before, width, 1)
        before = width
    yield "classifier.1.weight", (len(LABELS), before)
    yield "classifier.1.bias", (len(LABELS),)


def _convolution(name: str, taken: int, given: int, kernel: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"resnet.{name}.convolution.weight", (given, taken, kernel, kernel)
    for part in ("weight", "bias", "running_mean", "running_var"):
        yield f"resnet.{name}.normalization.{part}", (given,)


def _weight(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Weights from the name, which keep values at a scale of about 1. Normalisation changes nothing."""
    if len(shape) == 1:
        return np.full(shape, name.endswith(("weight", "running_var")), np.float32)
    random = np.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape)
    if name.startswith("classifier"):
        random = _SCALE * (random - random.mean(axis=1, keepdims=True))
    return np.asarray(random * 1.4 / np.sqrt(np.prod(shape[1:])), np.float32)


if __name__ == "__main__":
    write_animals(Path(sys.argv[1]))
