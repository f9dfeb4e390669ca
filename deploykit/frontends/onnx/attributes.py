"""Attributes that several ONNX operators share: those of sliding windows (convolution, pooling) and of classifiers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from deploykit.compiler.operators.building import windows as sliding
from deploykit.compiler.operators.building.errors import Unsupported

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr
    from deploykit.compiler.operators.building.context import Context
    from deploykit.frontends.onnx.node import Node

ML = "ai.onnx.ml"
"""The domain of classical machine-learning operators."""

MICROSOFT = "com.microsoft"
"""The domain of the operators that ONNX Runtime adds to the standard."""

AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", "")
SAME: Mapping[str, sliding.Same] = {"SAME_UPPER": "SAME_UPPER", "SAME_LOWER": "SAME_LOWER"}


def windows(
    ctx: Context, node: Node, sizes: Sequence[IntExpr], kernel: Sequence[IntExpr], *, ceil_mode: bool = False
) -> sliding.Windows:
    """The windows that a node's `strides`, `dilations`, `pads` and `auto_pad` describe."""
    rank = len(sizes)
    strides, dilations = axis_attribute(node, "strides", rank, 1), axis_attribute(node, "dilations", rank, 1)
    automatic = node.choice("auto_pad", AUTO_PADS, "NOTSET")
    pads: Sequence[int] | sliding.Same = SAME[automatic] if automatic in SAME else explicit_pads(node, rank)
    return sliding.windows(ctx, sizes, kernel, strides, dilations, pads, ceil_mode=ceil_mode)


def explicit_pads(node: Node, rank: int) -> list[int]:
    """The attribute `pads`, of `rank` axes; zeros where `auto_pad` says otherwise."""
    automatic = node.choice("auto_pad", AUTO_PADS, "NOTSET")
    return axis_attribute(node, "pads", 2 * rank, 0) if automatic in ("NOTSET", "") else [0] * (2 * rank)


def axis_attribute(node: Node, name: str, count: int, default: int) -> list[int]:
    """An attribute of `count` integers. Raises `Unsupported` if it has another length."""
    values = node.ints(name, [default] * count)
    if len(values) != count:
        raise Unsupported(f"'{name}' has {len(values)} entries, expected {count}")
    return values


def class_labels(node: Node, integers: str) -> np.ndarray:
    """The labels of the classes: strings, or else integers, whose attribute is called `integers`.

    Raises `Unsupported` if there are neither."""
    strings = node.strings("classlabels_strings", [])
    labels = np.array(strings, object) if strings else np.array(node.ints(integers, []), np.int64)
    if not labels.size:
        raise Unsupported(f"no labels: give classlabels_strings or {integers}")
    return labels
