"""Files of dynamic models: their weights, and samples of instances."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from deploykit.errors import UsageError


def read_weights(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a .safetensors or .npz file by their names. Raises `UsageError` if it cannot be read."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                return {name: np.asarray(arrays[name]) for name in arrays.files}
        if path.suffix == ".safetensors":
            return dict(load_file(path))
    except (OSError, ValueError, SafetensorError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    raise UsageError(f"{path} is no file of weights: there are .safetensors and .npz")


def read_samples(path: Path) -> list[Any]:
    """The instances in a .json file, a list. Raises `UsageError` if it cannot be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    if not isinstance(found, list):
        raise UsageError(f"{path} is no list of instances")
    return found
