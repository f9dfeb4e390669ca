"""Imports the ONNX operators SVMRegressor, SVMClassifier (`compiler.operators.classical.support_vectors`).

A classifier of one class is refused, and so is one of two classes without support vectors, whose label ONNX does not
define.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.classical import support_vectors as machines
from deploykit.frontends.onnx.attributes import ML, class_labels
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator

_KINDS = ("LINEAR", "POLY", "RBF", "SIGMOID")


@operator("SVMRegressor", domain=ML)
def svm_regressor(ctx: Context, node: Node, x: Value) -> Value:
    supports = node.int("n_supports", 0)
    return machines.svm_regressor(
        ctx,
        x,
        _kernel(node),
        _numbers(node, "support_vectors").reshape(supports, -1) if supports else None,
        _numbers(node, "coefficients"),
        float(_numbers(node, "rho")[0]),
        node.string("post_transform", "NONE"),
        one_class=bool(node.int("one_class", 0)),
    )


@operator("SVMClassifier", domain=ML)
def svm_classifier(ctx: Context, node: Node, x: Value) -> tuple[Value, Value]:
    labels = class_labels(node, "classlabels_ints")
    counts, transform = node.ints("vectors_per_class", []), node.string("post_transform", "NONE")
    coefficients, rho = _numbers(node, "coefficients"), _numbers(node, "rho")
    if len(labels) < (2 if sum(counts) else 3):
        raise Unsupported(f"{len(labels)} classes and {sum(counts)} support vectors")
    if not sum(counts):
        return machines.linear_machine(ctx, x, coefficients.reshape(len(labels), -1), float(rho[0]), labels, transform)
    pairs = len(labels) * (len(labels) - 1) // 2
    if not (len(counts), len(rho)) == (len(labels), pairs):
        raise Unsupported(f"{len(counts)} numbers of vectors and {len(rho)} offsets for {len(labels)} classes")
    return machines.svm_classifier(
        ctx,
        x,
        _kernel(node),
        _numbers(node, "support_vectors").reshape(sum(counts), -1),
        counts,
        coefficients.reshape(len(labels) - 1, -1),
        rho,
        labels,
        transform,
        (_numbers(node, "prob_a"), _numbers(node, "prob_b")) if node.floats("prob_a", []) else None,
    )


def _kernel(node: Node) -> machines.KernelFunction:
    kind = cast("machines.KernelKind", node.choice("kernel_type", _KINDS, "LINEAR"))
    gamma, offset, degree = node.floats("kernel_params", [0.0, 0.0, 0.0]) or [0.0, 0.0, 0.0]
    return machines.KernelFunction(kind, gamma, offset, degree)


def _numbers(node: Node, name: str) -> np.ndarray:
    return np.array(node.floats(name), np.float32)
