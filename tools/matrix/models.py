"""The models of the matrix: those of `bench.cases`, and the exports of others in `tests/zoo/sample`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import numpy as np
import onnx

from bench.cases import CASES, Case, Sizes
from deploykit.checks.comparison import Tolerance
from deploykit.checks.sources import RandomSource
from tests.zoo import sample
from tests.zoo.check import bounds

TRIED = 2
"""How many sizes of a model are tried: those with the fewest elements."""

Inputs: TypeAlias = Mapping[str, "np.ndarray | str"]


@dataclass(frozen=True)
class Model:
    """`make` makes the model, and `dims` the bounds of its dims. `runs` are the sizes and inputs to compare at, as
    arguments of `deploykit.verify`."""

    name: str
    make: Callable[[], onnx.ModelProto]
    dims: Callable[[], Mapping[str, tuple[int, int]]]
    runs: Callable[[], Sequence[tuple[Sizes, Inputs]]]
    tolerance: Tolerance | None = None


def _of_case(case: Case) -> Model:
    inputs = {name: _text(source) for name, source in case.sources.items()}
    chosen = sorted(case.sizes, key=lambda sizes: math.prod(size + 1 for size in sizes.values()))[:TRIED]
    return Model(case.name, case.make, lambda: case.dims, lambda: [(sizes, inputs) for sizes in chosen], case.tolerance)


def _text(source: RandomSource) -> str:
    return f"random:{source.seed}:{source.low}..{source.high}"


_read = cache(sample.read)


def _of_export(name: str) -> Model:
    def make() -> onnx.ModelProto:
        return onnx.load_from_string(_read(name).model)

    def dims() -> Mapping[str, tuple[int, int]]:
        return bounds(make(), _read(name).rounds)

    def runs() -> Sequence[tuple[Sizes, Inputs]]:
        least = sorted(_read(name).rounds, key=lambda arrays: sum(array.size for array in arrays.values()))
        return [({}, inputs) for inputs in least[:TRIED]]

    return Model(name, make, dims, runs)


MODELS: Mapping[str, Model] = {
    **{name: _of_case(case) for name, case in CASES.items()},
    **{name: _of_export(name) for name in sample.names()},
}
