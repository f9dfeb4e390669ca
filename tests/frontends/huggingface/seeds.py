"""Weights from seeds: the same for the reference, which needs PyTorch, and for tests, which do not."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from safetensors.numpy import save_file

Shapes: TypeAlias = "dict[str, list[int]]"
"""Shapes of weights by their names in a folder."""

GOLDENS = Path(__file__).with_name("goldens")


def weight(name: str, shape: list[int]) -> np.ndarray:
    """Weights that keep values at a scale of about 1."""
    random = np.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape)
    if name.endswith("running_var"):
        random = 0.5 + np.abs(random)
    elif len(shape) > 1:
        random /= np.sqrt(np.prod(shape[1:]))
    elif name.endswith("weight"):
        random = 1 + random / 10
    return np.asarray(random, np.float32)


def write_folder(folder: Path, config: dict[str, Any], shapes: Shapes) -> None:
    """A folder with this configuration and weights from seeds."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file({name: weight(name, shape) for name, shape in shapes.items()}, folder / "model.safetensors")
