"""Small models with seeded weights and symbolic dims, made on the spot: nothing is downloaded.

    python -m bench.models NAME FILE.onnx

`MODELS` lists them. Each function gives the same bytes on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import onnx

from bench.models.cnn import cnn
from bench.models.encoder import encoder
from bench.models.mlp import mlp

MODELS: Mapping[str, Callable[[], onnx.ModelProto]] = {"cnn": cnn, "encoder": encoder, "mlp": mlp}

__all__ = ["MODELS", "cnn", "encoder", "mlp"]
