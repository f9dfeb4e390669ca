"""The cases of benchmarks: models, the bounds of their dims, and the sizes at which they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import onnx

from bench.models import MODELS, light
from deploykit.checks.comparison import Tolerance
from deploykit.checks.sources import RandomSource

Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Case:
    """A model and how to run it. `dims` are the bounds of the artifact's symbolic dims, `sizes` the sizes of the runs.
    `sources` are for the inputs that are not normal floats or integers 0 and 1.
    """

    name: str
    make: Callable[[], onnx.ModelProto]
    dims: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    sizes: tuple[Sizes, ...] = ({},)
    sources: Mapping[str, RandomSource] = field(default_factory=dict)
    tolerance: Tolerance | None = None

    @property
    def single(self) -> Sizes:
        """The first sizes, with a batch of 1."""
        return {**self.sizes[0], **({"batch": 1} if "batch" in self.dims else {})}


def _sizes(dims: str, *choices: tuple[int, ...]) -> tuple[Sizes, ...]:
    names = dims.split()
    return tuple(dict(zip(names, choice, strict=True)) for choice in choices)


def _generated(
    name: str,
    dims: Mapping[str, tuple[int, int]],
    sizes: tuple[Sizes, ...],
    sources: Mapping[str, RandomSource] | None = None,
    tolerance: Tolerance | None = None,
) -> Case:
    return Case(name, MODELS[name], dims, sizes, sources or {}, tolerance)


_BATCH = {"batch": (1, 16)}
_TEXT = {**_BATCH, "seq": (1, 512)}

GENERATED = (
    _generated(
        "minilm",
        _TEXT,
        _sizes("batch seq", *((batch, seq) for batch in (1, 8) for seq in (16, 77, 128, 500))),
        {"input_ids": RandomSource(0, 0, 4095)},
        Tolerance(1e-3, 1e-4),
    ),
    _generated(
        "gpt2",
        {"batch": (1, 4), "seq": (1, 128), "past": (0, 895)},
        _sizes("batch seq past", (1, 128, 0), (1, 1, 32), (1, 1, 128), (1, 1, 512), (4, 1, 128)),
        {"input_ids": RandomSource(0, 0, 8191)},
        Tolerance(1e-3, 1e-4),
    ),
    _generated("cora", _TEXT, _sizes("batch seq", (8, 43), (8, 366)), tolerance=Tolerance(1e-3, 1e-4)),
    _generated("vit", _BATCH, _sizes("batch", (1,), (4,)), tolerance=Tolerance(1e-3, 1e-4)),
    _generated("mobilenet", _BATCH, _sizes("batch", (1,), (4,)), tolerance=Tolerance(1e-3, 1e-4)),
    # A value close to the border between two integers may round either way, in any implementation.
    _generated("mobilenet_int8", _BATCH, _sizes("batch", (1,), (4,)), tolerance=Tolerance(0, 0.2)),
    _generated(
        "unet",
        {"batch": (1, 4), "height": (16, 512), "width": (16, 512)},
        _sizes("batch height width", (1, 128, 128), (1, 256, 256), (1, 192, 320)),
    ),
    _generated("tcn", {**_BATCH, "time": (1, 512)}, _sizes("batch time", (1, 1), (1, 100), (8, 100))),
    _generated("lstm", _TEXT, _sizes("batch seq", (1, 32), (1, 128), (8, 32)), {"ids": RandomSource(0, 0, 9999)}),
    _generated("dscnn", _BATCH, _sizes("batch", (1,), (8,))),
    _generated("encoder", {**_BATCH, "seq": (1, 128)}, _sizes("batch seq", (4, 64)), {"ids": RandomSource(0, 0, 999)}),
    _generated("cnn", _BATCH, _sizes("batch", (8,))),
    _generated("mlp", {"batch": (1, 64)}, _sizes("batch", (1,), (64,))),
)
"""Models of `bench.models`, with symbolic dims."""

LIGHT = tuple(Case(name, partial(light.with_random_weights, name)) for name in light.names())
"""The models in the onnx package with random weights; their dims are fixed."""

CASES: Mapping[str, Case] = {case.name: case for case in (*LIGHT, *GENERATED)}


def named(texts: Sequence[str] | None) -> list[Case]:
    """The cases whose name contains one of `texts`; all cases if there are no texts."""
    return [case for case in CASES.values() if not texts or any(text in case.name for text in texts)]
