"""Small generated models with seeded weights and symbolic dims; nothing is downloaded.

    python -m bench.models NAME FILE.onnx

`MODELS` lists them. Each function makes the same model on every machine; `mobilenet_int8` needs ONNX Runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import onnx

from bench.models.cnn import cnn
from bench.models.cora import cora
from bench.models.dscnn import dscnn
from bench.models.encoder import encoder
from bench.models.gpt2 import gpt2
from bench.models.lstm import lstm
from bench.models.minilm import minilm
from bench.models.mlp import mlp
from bench.models.mobilenet import mobilenet
from bench.models.mobilenet_int8 import mobilenet_int8
from bench.models.tcn import tcn
from bench.models.unet import unet
from bench.models.vit import vit

MODELS: Mapping[str, Callable[[], onnx.ModelProto]] = {
    "cnn": cnn,
    "cora": cora,
    "dscnn": dscnn,
    "encoder": encoder,
    "gpt2": gpt2,
    "lstm": lstm,
    "minilm": minilm,
    "mlp": mlp,
    "mobilenet": mobilenet,
    "mobilenet_int8": mobilenet_int8,
    "tcn": tcn,
    "unet": unet,
    "vit": vit,
}

__all__ = ["MODELS"]
