"""The network that knows words, and its training, in NumPy.

    samples [n, 1, time] -> energies of BANDS bands, one frame for HOP samples -> five convolutions along time
    -> their mean over the window -> a probability for each class

No layer pads: a result belongs to the last WINDOW samples, so the network can run as a stream.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from numpy.lib.stride_tricks import sliding_window_view
from onnx import TensorProto, helper, numpy_helper

from apps.embedded.keywords.sounds import CLASSES, RATE

SPAN, HOP = 128, 128
BINS, BANDS = 60, 16
CHANNELS = 24
WINDOW = 5888
"""Samples of a window: 46 frames, 0.74 seconds."""

LAYERS = ("spread", "first", "first_mix", "second", "second_mix")
"""Convolutions along time: over all bands; then twice over each channel for itself, and over all channels."""

KERNELS = {"spread": 3, "first": 5, "first_mix": 1, "second": 5, "second_mix": 1}
STRIDES = {"spread": 1, "first": 1, "first_mix": 1, "second": 2, "second_mix": 1}
SMALLEST = 1e-7


def bank() -> np.ndarray:
    """Filters [2 * BINS, 1, SPAN]: a cosine and a sine for each bin of a Fourier transform from the first one on, below
    a window whose ends are rounded."""
    places = 2 * np.pi * np.arange(1, BINS + 1)[:, None] * np.arange(SPAN) / SPAN
    edge = np.minimum(np.arange(SPAN) + 0.5, np.arange(SPAN)[::-1] + 0.5) / (SPAN / 4)
    rounded = np.sin(np.minimum(edge, 1) * np.pi / 2) ** 2 * 2 / SPAN
    return np.stack([np.cos(places) * rounded, np.sin(places) * rounded], 1).reshape(-1, 1, SPAN).astype(np.float32)


def mel() -> np.ndarray:
    """The shares [BANDS, BINS] of bins in bands: triangles whose corners are evenly spaced on the mel scale."""
    lowest, highest = (2595 * np.log10(1 + hertz / 700) for hertz in (60, RATE / 2))
    corners = 700 * (10 ** (np.linspace(lowest, highest, BANDS + 2) / 2595) - 1)
    bins = np.arange(1, BINS + 1) * RATE / SPAN
    rising = (bins - corners[:-2, None]) / np.diff(corners)[:-1, None]
    falling = (corners[2:, None] - bins) / np.diff(corners)[1:, None]
    return np.maximum(np.minimum(rising, falling), 0).astype(np.float32)


def energies(samples: np.ndarray) -> np.ndarray:
    """The logarithms of energies [n, BANDS, frames] of samples [n, time]."""
    frames = sliding_window_view(samples, SPAN, axis=-1)[:, ::HOP]
    parts = np.einsum("nfs,bs->nbf", frames, bank()[:, 0], optimize=True)
    powers = np.einsum("nbf,mb->nmf", parts[:, ::2] ** 2 + parts[:, 1::2] ** 2, mel(), optimize=True)
    return np.asarray(np.log(powers + SMALLEST), np.float32)


Weights = dict[str, np.ndarray]


def random_weights(random: np.random.Generator) -> Weights:
    """Weights of the convolutions and of the layer of classes, with their biases."""
    found: Weights = {}
    for name in LAYERS:
        inputs = BANDS if name == "spread" else CHANNELS if name.endswith("mix") else 1
        shape = (CHANNELS, inputs, KERNELS[name])
        found[name] = random.standard_normal(shape) * np.sqrt(2 / (inputs * KERNELS[name]))
        found[f"{name}_bias"] = np.zeros(CHANNELS)
    found["classes"] = random.standard_normal((len(CLASSES), CHANNELS)) * np.sqrt(1 / CHANNELS)
    found["classes_bias"] = np.zeros(len(CLASSES))
    return {name: array.astype(np.float32) for name, array in found.items()}


def _windows(x: np.ndarray, name: str) -> np.ndarray:
    return sliding_window_view(x, KERNELS[name], axis=2)[:, :, :: STRIDES[name]]


def _equation(weight: np.ndarray) -> str:
    return "nctk,cok->nct" if weight.shape[1] == 1 else "nitk,oik->not"


def forward(weights: Weights, x: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Probabilities [n, classes] for standardised energies, and what layers got."""
    given = {}
    for name in LAYERS:
        given[name] = x
        weight = weights[name]
        x = np.einsum(_equation(weight), _windows(x, name), weight, optimize=True)
        x += weights[f"{name}_bias"][:, None]
        if name not in ("first", "second"):
            x = np.maximum(x, 0)
    given["last"] = x
    scores = x.mean(2) @ weights["classes"].T + weights["classes_bias"]
    scores = np.exp(scores - scores.max(1, keepdims=True))
    return scores / scores.sum(1, keepdims=True), given


def gradients(weights: Weights, x: np.ndarray, classes: np.ndarray) -> tuple[float, Weights]:
    """The mean loss (cross entropy) and its gradients."""
    probabilities, given = forward(weights, x)
    rows = np.arange(len(x))
    loss = float(-np.log(probabilities[rows, classes] + 1e-9).mean())
    slope = probabilities.copy()
    slope[rows, classes] -= 1
    slope /= len(x)
    last = given["last"]
    found: Weights = {"classes": slope.T @ last.mean(2), "classes_bias": slope.sum(0)}
    behind = np.repeat((slope @ weights["classes"])[:, :, None] / last.shape[2], last.shape[2], 2)
    results = [*(given[name] for name in LAYERS[1:]), last]
    for name, result in reversed(list(zip(LAYERS, results, strict=True))):
        if name not in ("first", "second"):
            behind = behind * (result > 0)
        weight, data = weights[name], _windows(given[name], name)
        own = weight.shape[1] == 1
        found[name] = np.einsum("nctk,nct->ck" if own else "nitk,not->oik", data, behind, optimize=True).reshape(
            weight.shape
        )
        found[f"{name}_bias"] = behind.sum((0, 2))
        before = np.zeros_like(given[name])
        for tap in range(KERNELS[name]):
            stop = tap + STRIDES[name] * (behind.shape[2] - 1) + 1
            share = (
                behind * weight[:, 0, tap, None]
                if own
                else np.einsum("not,oi->nit", behind, weight[:, :, tap], optimize=True)
            )
            before[:, :, tap : stop : STRIDES[name]] += share
        behind = before
    return loss, found


def trained(
    x: np.ndarray, classes: np.ndarray, epochs: int, random: np.random.Generator, on_epoch: Callable[[float], None]
) -> Weights:
    """Train by Adam (Kingma and Ba, 2015), with a rate that falls to 0. `on_epoch` is told the loss of each epoch."""
    weights, batch = random_weights(random), 64
    means = {name: np.zeros_like(array) for name, array in weights.items()}
    squares = {name: np.zeros_like(array) for name, array in weights.items()}
    steps, step = epochs * -(-len(x) // batch), 0
    for _ in range(epochs):
        total, order = 0.0, random.permutation(len(x))
        for start in range(0, len(x), batch):
            rows = order[start : start + batch]
            loss, slopes = gradients(weights, x[rows], classes[rows])
            total += loss * len(rows)
            step += 1
            rate = 4e-3 * (1 - step / steps) * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
            for name, slope in slopes.items():
                means[name] += 0.1 * (slope - means[name])
                squares[name] += 0.001 * (slope**2 - squares[name])
                weights[name] = weights[name] - np.float32(rate) * means[name] / (np.sqrt(squares[name]) + 1e-8)
        on_epoch(total / len(x))
    return weights


def exported(weights: Weights, mean: float, spread: float) -> onnx.ModelProto:
    """The network for samples [batch, 1, WINDOW]. Energies less `mean`, divided by `spread`, are what it was trained
    on; both become part of the first convolution."""
    first = weights["spread"] / spread
    bias = weights["spread_bias"] - mean * first.sum((1, 2))
    arrays = {**weights, "spread": first, "spread_bias": bias, "bank": bank(), "smallest": np.float32(SMALLEST)}
    arrays["mel"] = np.repeat(mel(), 2, 1)[:, :, None]
    nodes = [
        helper.make_node("Conv", ["samples", "bank"], ["parts"], "bank", strides=[HOP]),
        helper.make_node("Mul", ["parts", "parts"], ["powers"], "power"),
        helper.make_node("Conv", ["powers", "mel"], ["sums"], "bands"),
        helper.make_node("Add", ["sums", "smallest"], ["energy"], "floor"),
        helper.make_node("Log", ["energy"], ["levels"], "log"),
    ]
    last = "levels"
    for name in LAYERS:
        group = CHANNELS if weights[name].shape[1] == 1 else 1
        operands = [last, name, f"{name}_bias"]
        nodes.append(
            helper.make_node("Conv", operands, [f"{name}_out"], f"{name}_conv", strides=[STRIDES[name]], group=group)
        )
        last = f"{name}_out"
        if name not in ("first", "second"):
            nodes.append(helper.make_node("Relu", [last], [f"{name}_on"], f"{name}_relu"))
            last = f"{name}_on"
    nodes += [
        helper.make_node("GlobalAveragePool", [last], ["means"], "mean"),
        helper.make_node("Flatten", ["means"], ["vector"], "flat"),
        helper.make_node("Gemm", ["vector", "classes", "classes_bias"], ["scores"], "score", transB=1),
        helper.make_node("Softmax", ["scores"], ["probabilities"], "softmax"),
    ]
    graph = helper.make_graph(
        nodes,
        "keywords",
        [helper.make_tensor_value_info("samples", TensorProto.FLOAT, ["batch", 1, WINDOW])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", len(CLASSES)])],
        [numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    return model
