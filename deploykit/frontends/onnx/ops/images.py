"""ONNX: ImageDecoder, which is refused: an artifact holds no decoder of compressed images.

Apps decode with what their platform has, and feed the pixels.
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
