"""The base of dynamic models: a class whose annotations name its weights."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from deploykit.dynamic.tensors import TensorType
from deploykit.errors import UsageError


class Model:
    """A dynamic model. Its weights are the annotations of the class, such as `embedding: Tensor[1000, 64]`; its
    method `main` runs one instance.

    An object of it has arrays as weights and runs in Python. `weights` gives an array for each name; without it, they
    are random numbers that follow from `seed`. Raises `UsageError` for a weight that is missing, unknown, or of
    another shape.
    """

    def __init__(self, weights: Mapping[str, np.ndarray] | None = None, *, seed: int = 0) -> None:
        shapes = self.weight_shapes()
        found = (
            random_weights(shapes, seed) if weights is None else checked_weights(type(self).__name__, shapes, weights)
        )
        for name, array in found.items():
            setattr(self, name, array)

    @classmethod
    def weight_shapes(cls) -> dict[str, tuple[int, ...]]:
        """The shape of each weight, in the order of the class."""
        shapes: dict[str, tuple[int, ...]] = {}
        for base in reversed(cls.__mro__):
            annotations: dict[str, Any] = inspect.get_annotations(base, eval_str=True) if base is not object else {}
            for name, kind in annotations.items():
                if isinstance(kind, TensorType):
                    shapes[name] = tuple(extent for extent in kind.shape if isinstance(extent, int))
                    if shapes[name] != kind.shape:
                        raise UsageError(f"'{cls.__name__}': weight '{name}' has an extent that is no number")
        return shapes

    def weights(self) -> dict[str, np.ndarray]:
        """The array of each weight."""
        return {name: getattr(self, name) for name in self.weight_shapes()}


def random_weights(shapes: Mapping[str, tuple[int, ...]], seed: int) -> dict[str, np.ndarray]:
    """Normal numbers, divided by the square root of the first extent, so that products stay of the same size."""
    random = np.random.default_rng(seed)
    return {
        name: (random.standard_normal(shape) / max(shape[0] if len(shape) > 1 else 4, 1) ** 0.5).astype(np.float32)
        for name, shape in shapes.items()
    }


def checked_weights(
    model: str, shapes: Mapping[str, tuple[int, ...]], weights: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The weights as float32. Raises `UsageError` for one that is missing, unknown, or of another shape."""
    missing, unknown = shapes.keys() - weights.keys(), weights.keys() - shapes.keys()
    if missing or unknown:
        texts = [f"there is no weight for {', '.join(sorted(missing))}" if missing else ""]
        texts.append(f"the model has no {', '.join(sorted(unknown))}" if unknown else "")
        raise UsageError(f"'{model}': {'; '.join(filter(None, texts))}")
    for name, shape in shapes.items():
        if tuple(weights[name].shape) != shape:
            raise UsageError(
                f"'{model}': weight '{name}' has shape {tuple(weights[name].shape)}, the model says {shape}"
            )
    return {name: np.ascontiguousarray(weights[name], np.float32) for name in shapes}
