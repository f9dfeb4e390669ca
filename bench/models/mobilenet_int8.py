"""MobileNetV2 in 8 bits: `mobilenet` in QDQ form, calibrated on a few random images."""

from __future__ import annotations

import numpy as np
import onnx

from bench.models.mobilenet import SIDE, mobilenet
from bench.models.quantized import quantize

IMAGES = 4


def mobilenet_int8() -> onnx.ModelProto:
    images = np.random.default_rng(0).standard_normal((IMAGES, 3, SIDE, SIDE), dtype=np.float32)
    return quantize(mobilenet(), {"image": images})
