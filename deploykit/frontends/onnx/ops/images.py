"""Refuses the ONNX operator ImageDecoder, because an artifact has no decoder for compressed images.

Apps decode images with their platform's decoder, and feed the pixels.
"""

from __future__ import annotations

from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("ImageDecoder")
def image_decoder(ctx: Context, node: Node, data: Value) -> Value:
    raise Unsupported("compressed images are not decoded in the artifact; decode before the model and feed the pixels")
