"""Names of the kinds of products and convolutions (`operators.anchors`), for messages."""

from __future__ import annotations

from deploykit.compiler.decisions import Declined
from deploykit.compiler.operators.anchors.annotation import ANCHOR
from deploykit.compiler.schedules.kernel.stages import Stage

_WORDS = {
    "matmul": "a matrix product",
    "panels": "a convolution with its weights in panels",
    "winograd": "a convolution in transformed tiles",
    "winograd_points": "a transform of the tiles of a convolution",
    "winograd_outputs": "a transform of the tiles of a convolution",
    "depthwise": "a depthwise convolution",
    "grouped": "a product with weights in groups of few bits",
    "integer_matmul": "a product of integers",
    "integer_conv": "a convolution of integers",
    "bf16_matmul": "a product of bfloat16",
    "bf16_conv": "a convolution of bfloat16",
    "integer_depthwise": "a depthwise convolution of integers",
    "attention": "a part of attention",
    "share": "a part of a softmax",
}


def another_kind(stage: Stage, *kinds: str) -> Declined | None:
    """What a stage is instead of one of `kinds`, as a reason; `None` if it is one of them."""
    kind = stage.annotations.get(ANCHOR)
    if kind in kinds:
        return None
    return Declined("it is no product or convolution" if kind is None else f"it is {_WORDS[str(kind)]}")
