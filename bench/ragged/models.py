"""The models of `python -m bench.ragged`, and random values of their inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import onnx

from bench.models.cora import LAYERS, VOCABULARY, WIDTH, cora
from bench.models.minilm import LAYERS as MINILM_LAYERS
from bench.models.minilm import VOCABULARY as MINILM_VOCABULARY
from bench.models.minilm import minilm
from deploykit.checks.comparison import Tolerance

MASK = "attention_mask"
TOLERANCE = Tolerance(1e-3, 1e-4)

Values = Callable[[np.random.Generator, int], np.ndarray]
"""Makes the values of an input for a number of tokens, one after the other."""


@dataclass(frozen=True)
class Model:
    """An encoder with the dims `batch` and `seq`, the input `MASK`, and one output [batch, seq, width]. `make` takes
    the number of layers, `inputs` are the other inputs."""

    name: str
    make: Callable[[int], onnx.ModelProto]
    layers: int
    inputs: Mapping[str, Values]
    output: str = "last_hidden_state"


def _normal(width: int) -> Values:
    return lambda rng, tokens: rng.standard_normal((tokens, width), dtype=np.float32)


def _integers(below: int) -> Values:
    return lambda rng, tokens: rng.integers(0, below, tokens)


MODELS: Mapping[str, Model] = {
    model.name: model
    for model in (
        Model("cora", cora, LAYERS, {"embeddings": _normal(WIDTH)}),
        Model("cora-ids", partial(cora, ids=True), LAYERS, {"input_ids": _integers(VOCABULARY)}),
        Model(
            "minilm",
            minilm,
            MINILM_LAYERS,
            {"input_ids": _integers(MINILM_VOCABULARY), "token_type_ids": _integers(2)},
        ),
    )
}
DEFAULT = ("cora", "minilm")
