"""A case of the zoo: an architecture with a tiny configuration, its inputs, and their sizes.

Nothing here needs PyTorch, so that cases can be listed and exported files be checked without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

ROUNDS = 4
"""Number of sizes of each dim at which a case is compared."""

TRACED = 4
"""The round whose sizes the exporters see. It is not compared."""

SIZES: Mapping[str, tuple[int, ...]] = {
    "batch": (1, 2, 3, 5, 2),
    "seq": (7, 1, 33, 16, 9),
    "target": (1, 5, 8, 17, 6),
    "past": (5, 1, 8, 19, 10),
    "images": (2, 1, 3, 4, 2),
    "height": (64, 32, 96, 128, 64),
    "width": (32, 64, 96, 64, 96),
    "samples": (800, 1000, 1603, 2400, 1200),
    "frames": (16, 33, 40, 64, 24),
    "time": (24, 16, 40, 32, 20),
}
"""The sizes of a dim by its name, one per round. The last one is for the export."""

Form: TypeAlias = Literal["plain", "past", "static"]
Size: TypeAlias = int | str
"""A number, a name in `SIZES`, or a sum of these, as in `past+seq`."""


@dataclass(frozen=True)
class Input:
    """One input of a model. `kind` is the kind of its random values:

    ids      integers from `low` to below `high`
    mask     1, then 0 from a random position of each row on
    normal   standard normal distribution
    uniform  from 0 to 1
    bool     true or false
    arange   0, 1, 2 and so on, along the last axis
    boxes    left, top, right, bottom, each from 0 to below `high`
    """

    name: str
    shape: tuple[Size, ...]
    kind: str = "normal"
    low: int = 3
    high: int = 99

    @property
    def dynamic(self) -> dict[int, str]:
        """The names of the symbolic dims, by axis."""
        return {axis: size.replace("+", "_plus_") for axis, size in enumerate(self.shape) if isinstance(size, str)}

    def sample(self, sizes: Mapping[str, int], rng: np.random.Generator) -> np.ndarray:
        shape = tuple(resolved(size, sizes) for size in self.shape)
        match self.kind:
            case "ids":
                return rng.integers(self.low, self.high, shape)
            case "mask":
                ends = rng.integers(max(1, shape[-1] // 2), shape[-1] + 1, (*shape[:-1], 1))
                return (np.arange(shape[-1]) < ends).astype(np.int64)
            case "bool":
                return rng.random(shape) < 0.5
            case "arange":
                return np.broadcast_to(np.arange(shape[-1], dtype=np.int64), shape).copy()
            case "uniform":
                return rng.random(shape, dtype=np.float32)
            case "boxes":
                corners = np.sort(rng.integers(0, self.high, (*shape[:-1], 2, 2)), axis=-2)
                return corners.reshape(shape)
            case _:
                return rng.standard_normal(shape, dtype=np.float32)


@dataclass(frozen=True)
class Case:
    """An architecture in one form. `model` names a class of transformers. `config` has the values of its configuration
    that differ from the defaults. `call` has the arguments that are not tensors. `sizes` replaces some of `SIZES`."""

    name: str
    family: str
    model: str
    config: Mapping[str, Any]
    inputs: tuple[Input, ...]
    form: Form = "plain"
    call: Mapping[str, Any] = field(default_factory=dict)
    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    """The outputs of the model that are kept; all if empty."""

    def at(self, number: int) -> dict[str, int]:
        """The sizes of a round, by the name of a dim."""
        return {name: sizes[number] for name, sizes in {**SIZES, **self.sizes}.items()}

    def samples(self, number: int, inputs: tuple[Input, ...] = ()) -> dict[str, np.ndarray]:
        """The values of `inputs` in a round, by default of the case's inputs."""
        rng = np.random.default_rng(number)
        return {one.name: one.sample(self.at(number), rng) for one in inputs or self.inputs}


def resolved(size: Size, sizes: Mapping[str, int]) -> int:
    if isinstance(size, int):
        return size
    return sum(int(part) if part.isdigit() else sizes[part] for part in size.split("+"))
