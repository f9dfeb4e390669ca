"""How much a quantised model differs from the model in floats: its outputs, and the tensors that lose most.

The loss of a tensor is the ratio of its signal to the noise that quantisation adds, in decibels: 20 dB are errors of a
tenth, 40 dB of a hundredth. It is measured by ONNX Runtime's helpers for QDQ models.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnxruntime.quantization import CalibrationDataReader
from onnxruntime.quantization import qdq_loss_debug as losses

from deploykit.checks import reference as references
from deploykit.quantization.static.samples import Feed

SHOWN = 5
"""How many tensors are named."""

LOOKED_AT = 8
"""The runs from which the loss of tensors is measured: all their values are kept in memory."""


@dataclass(frozen=True)
class OutputAccuracy:
    """An output of the quantised model, compared with that of the model in floats over all runs.

    `largest` is the largest error, `magnitude` the largest number. `cosine` is the cosine similarity of all numbers,
    NaN if one side is zero. `same_argmax` is the share of rows, along the last axis, whose greatest number stands at
    the same place; None where rows have one element."""

    name: str
    largest: float
    magnitude: float
    cosine: float
    same_argmax: float | None


@dataclass(frozen=True)
class LayerLoss:
    """A tensor, the node that computes it, and its signal-to-noise ratio in decibels."""

    tensor: str
    node: str
    operator: str
    decibels: float


def outputs_accuracy(before: Path, after: Path, feeds: Sequence[Feed]) -> list[OutputAccuracy]:
    """The accuracy of each output of floats."""
    run_before, run_after = references.load(before), references.load(after)
    pairs: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    for feed in feeds:
        expected, actual = run_before(feed), run_after(feed)
        for name, value in expected.items():
            if isinstance(value, np.ndarray) and value.dtype.kind == "f":
                pairs.setdefault(name, []).append((value.astype(np.float64), actual[name].astype(np.float64)))
    return [_accuracy(name, found) for name, found in pairs.items()]


def _accuracy(name: str, pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> OutputAccuracy:
    dot = sum(float((a * b).sum()) for a, b in pairs)
    norms = [math.sqrt(sum(float((pair[side] ** 2).sum()) for pair in pairs)) for side in (0, 1)]
    rows = [a.argmax(-1) == b.argmax(-1) for a, b in pairs if a.ndim and a.shape[-1] > 1]
    return OutputAccuracy(
        name,
        largest=max(float(np.abs(a - b).max(initial=0)) for a, b in pairs),
        magnitude=max(float(np.abs(a).max(initial=0)) for a, _ in pairs),
        cosine=dot / (norms[0] * norms[1]) if all(norms) else math.nan,
        same_argmax=float(np.concatenate([np.atleast_1d(row).reshape(-1) for row in rows]).mean()) if rows else None,
    )


class Reader(CalibrationDataReader):  # type: ignore[misc]
    """Gives ONNX Runtime the inputs of one run after another. `on_run(index)` is called before each."""

    def __init__(self, feeds: Sequence[Feed], on_run: Callable[[int], None] = lambda _: None) -> None:
        self._feeds, self._at, self._on_run = feeds, 0, on_run

    def get_next(self) -> dict[str, np.ndarray] | None:
        if self._at == len(self._feeds):
            return None
        self._on_run(self._at)
        self._at += 1
        return dict(self._feeds[self._at - 1])


def layers_that_lose_most(before: Path, after: Path, feeds: Sequence[Feed], folder: Path) -> list[LayerLoss]:
    """The tensors with the lowest ratios, the worst first. Those that are all zeros, as masks may be, are left out.
    `folder` is for files of the measurement."""
    values = []
    for index, model in enumerate((before, after)):
        marked = folder / f"with_tensors_{index}.onnx"
        losses.modify_model_output_intermediate_tensors(str(model), str(marked))
        values.append(losses.collect_activations(str(marked), Reader(feeds[:LOOKED_AT])))
    matched = losses.create_activation_matching(values[1], values[0])
    errors = losses.compute_activation_error(matched)
    nodes = {name: node for node in onnx.load(before, load_external_data=False).graph.node for name in node.output}
    found = [
        LayerLoss(name, nodes[name].name, nodes[name].op_type, float(error["xmodel_err"]))
        for name, error in errors.items()
        if name in nodes and "xmodel_err" in error and any(np.any(part) for part in matched[name]["float"])
    ]
    return sorted(found, key=lambda loss: loss.decibels)[:SHOWN]
