"""Imports the ONNX operators LinearRegressor, LinearClassifier (`compiler.operators.classical.linear`)."""

from __future__ import annotations

import numpy as np

from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.classical import linear
from deploykit.frontends.onnx.attributes import ML, class_labels
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("LinearRegressor", domain=ML)
def linear_regressor(ctx: Context, node: Node, x: Value) -> Value:
    transform = node.string("post_transform", "NONE")
    return linear.linear_regressor(ctx, x, *_parameters(node), node.int("targets", 1), transform)


@operator("LinearClassifier", domain=ML)
def linear_classifier(ctx: Context, node: Node, x: Value) -> tuple[Value, Value]:
    labels, transform = class_labels(node, "classlabels_ints"), node.string("post_transform", "NONE")
    return linear.linear_classifier(ctx, x, *_parameters(node), labels, transform)


def _parameters(node: Node) -> tuple[np.ndarray, np.ndarray | None]:
    """The coefficients, and the intercepts or None."""
    coefficients = np.array(node.floats("coefficients"), np.float32)
    given = node.has("intercepts")
    return coefficients, np.array(node.floats("intercepts"), np.float32) if given else None
