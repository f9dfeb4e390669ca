"""Exports a model by the first exporter whose file computes what the model computes.

Exporters may write sizes of the traced inputs into the file as numbers, so that it is wrong at other sizes. So every
file is run by ONNX Runtime at other sizes, the smallest among them, and compared with the model.

Some models choose, as detectors choose queries, and jump where two scores are nearly equal. Elements of results that
jump when all layers round a little differently are left out of a comparison.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir
import onnxruntime
import torch

from deploykit.frontends.torch.flat import Flat
from deploykit.frontends.torch.inputs import IDS, MASK, TYPES, Input
from deploykit.frontends.torch.loading import first

TOLERANCE = 1e-3
"""The largest difference, relative to the largest value of an output."""

NOISE, TRIALS = 1e-6, 8
"""What is added to the results of layers, relative to their values, and how often."""

OPSET = 18
"""What the older exporter writes; it knows no newer one well."""

LARGE = 1 << 30
"""Bytes of weights from which they are written to a file of their own: a protobuf message has at most 2 GiB."""

Sizes = Mapping[str, int]


class NotExportedError(Exception):
    """An exporter failed, or its file computes something else."""


def by_dynamo(flat: Flat, inputs: Sequence[Input], traced: tuple[torch.Tensor, ...], path: Path) -> None:
    """The exporter on top of torch.export."""
    weights = sum(parameter.nbytes for parameter in flat.parameters())
    shapes = (tuple(one.dims() or None for one in inputs),)
    options = {"dynamic_shapes": shapes, "external_data": weights > LARGE, "verbose": False}
    _by_torch(flat, inputs, traced, path, dynamo=True, **options)


def by_tracing(flat: Flat, inputs: Sequence[Input], traced: tuple[torch.Tensor, ...], path: Path) -> None:
    """The older exporter, on top of TorchScript."""
    axes = {one.name: one.dims() for one in inputs if one.dims()}
    _by_torch(flat, inputs, traced, path, dynamo=False, dynamic_axes=axes, opset_version=OPSET)


def _by_torch(
    flat: Flat, inputs: Sequence[Input], traced: tuple[torch.Tensor, ...], path: Path, **options: Any
) -> None:
    names = [one.name for one in inputs]
    torch.onnx.export(flat, traced, path, input_names=names, output_names=list(flat.outputs), **options)


def by_transformers(flat: Flat, inputs: Sequence[Input], traced: tuple[torch.Tensor, ...], path: Path) -> None:
    """The exporter of transformers, on top of torch.export with replacements for what that cannot export. Results have
    the names of a `Flat` if there are as many."""
    from transformers.exporters import exporter_onnx

    given = dict(zip((one.name for one in inputs), traced, strict=True))
    dims = {one.name: dict.fromkeys(one.dims(), torch.export.Dim.AUTO) or None for one in inputs}
    made = exporter_onnx.OnnxExporter().export(
        flat.model, {**given, **flat.fixed}, config=exporter_onnx.OnnxConfig(dynamic_shapes=dims)
    )
    graph = made.program.graph
    shapes = {one.name: one.dims() for one in inputs}
    for value in graph.inputs:
        for axis, name in shapes[value.name].items():
            if not isinstance(value.shape[axis], int):
                value.shape[axis] = name
    if len(graph.outputs) != len(flat.outputs):
        raise NotExportedError(f"it has {len(graph.outputs)} results, and the model {len(flat.outputs)}")
    for value, name in zip(graph.outputs, flat.outputs, strict=True):
        value.name = name
    onnx_ir.save(made.program, path, external_data=f"{path.name}.data")


EXPORTERS: Mapping[str, Callable[[Flat, Sequence[Input], tuple[torch.Tensor, ...], Path], None]] = {
    "torch.export": by_dynamo,
    "TorchScript": by_tracing,
    "transformers": by_transformers,
}
"""In the order in which they are tried."""


@dataclass(frozen=True)
class Round:
    """Inputs of some sizes, and what the model `flat` computes with them."""

    flat: Flat
    sizes: Sizes
    inputs: tuple[torch.Tensor, ...]
    expected: Mapping[str, np.ndarray]

    @cached_property
    def steady(self) -> Mapping[str, np.ndarray]:
        """Which elements of the results stay the same when layers round differently: none of a result of which most do
        not."""
        random = torch.Generator().manual_seed(0)

        def noisy(_module: Any, _given: Any, result: Any) -> Any:
            if not isinstance(result, torch.Tensor) or not result.is_floating_point():
                return None
            return result * (1 + NOISE * torch.randn(result.shape, generator=random))

        found = {name: np.ones(value.shape, bool) for name, value in self.expected.items()}
        for _ in range(TRIALS):
            hook = torch.nn.modules.module.register_module_forward_hook(noisy)
            try:
                with torch.no_grad():
                    results = self.flat(*self.inputs)
            finally:
                hook.remove()
            for (name, expected), value in zip(self.expected.items(), results, strict=True):
                most = TOLERANCE * _scale(expected) / 10
                found[name] &= np.isclose(value.numpy(), expected, rtol=0, atol=most, equal_nan=True)
        return {name: calm & (2 * calm.sum() > calm.size) for name, calm in found.items()}


def run_rounds(flat: Flat, inputs: Sequence[Input], sizes: Sequence[Sizes]) -> list[Round]:
    """Runs the model at the traced sizes, and at the others that it takes. Raises what the model raises at the traced
    ones."""
    used = {name for one in inputs for name in one.dims().values()}
    found: list[Round] = []
    for number, size in enumerate(sizes):
        random = np.random.default_rng(number)
        given = tuple(one.sample(size, random) for one in inputs)
        try:
            with torch.no_grad():
                results = flat(*given)
        except Exception:
            if not found:
                raise
            continue
        expected = {name: value.numpy() for name, value in zip(flat.outputs, results, strict=True)}
        found.append(Round(flat, {name: n for name, n in size.items() if name in used}, given, expected))
    return found


def export(flat: Flat, inputs: Sequence[Input], found: Sequence[Round], exporter: str, path: Path) -> None:
    """Write the file. `found` are the rounds, the traced one first. Raises `NotExportedError`."""
    path.unlink(missing_ok=True)
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            EXPORTERS[exporter](flat, inputs, found[0].inputs, path)
    except Exception as error:
        raise NotExportedError(f"{exporter} fails: {first(error)}") from error
    try:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise NotExportedError(f"{exporter} writes what ONNX Runtime cannot read: {first(error)}") from error
    for reason in _differences(session, inputs, found):
        raise NotExportedError(f"{exporter} writes another model: {reason}")


def _differences(
    session: onnxruntime.InferenceSession, inputs: Sequence[Input], found: Sequence[Round]
) -> Iterator[str]:
    jumping = dict.fromkeys(found[0].expected, 0)
    taken = {port.name for port in session.get_inputs()}
    for round_ in found:
        where = ", ".join(f"{name}={size}" for name, size in round_.sizes.items())
        given = {one.name: x.numpy() for one, x in zip(inputs, round_.inputs, strict=True) if one.name in taken}
        try:
            results = session.run(list(round_.expected), given)
        except Exception as error:  # noqa: BLE001  ONNX Runtime raises any exception
            yield f"it fails at {where}: {first(error)}"
            return
        for (name, expected), actual in zip(round_.expected.items(), results, strict=True):
            difference = distance(np.asarray(actual), expected)
            if TOLERANCE < difference < np.inf:
                calm = round_.steady[name]
                jumping[name] += not calm.any()
                difference = distance(np.where(calm, actual, expected), expected)
            if not difference <= TOLERANCE:
                yield f"'{name}' differs by {difference:.1e} at {where}"
    for name, count in jumping.items():
        if len(found) - count < min(2, len(found)):  # not compared at two sizes
            yield f"'{name}' jumps where layers round differently, at too many sizes to be compared"


def pads(flat: Flat, inputs: Sequence[Input]) -> bool:
    """Whether a text has the same results in front of padding, which is zeros, as alone. True for other models."""
    if not {one.name for one in inputs} <= {IDS, MASK, TYPES}:
        return True
    given = {one.name: one.sample({"batch": 1, "seq": 5}, np.random.default_rng(0)) for one in inputs}
    padded = [torch.nn.functional.pad(tensor, (0, 3)) for tensor in given.values()]
    try:
        with torch.no_grad():
            pairs = list(zip(flat(*given.values()), flat(*padded), strict=True))
    except Exception:  # noqa: BLE001  a model may raise any exception, for a text that is too short or too long
        return False
    cut = [(alone.numpy(), (long[:, :5] if long.shape[1:2] == (8,) else long).numpy()) for alone, long in pairs]
    return all(distance(long, alone) <= TOLERANCE for alone, long in cut)


def distance(actual: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference, relative to the largest finite value; infinite if shapes or NaNs differ."""
    if actual.shape != expected.shape:
        return np.inf
    if not expected.size:
        return 0.0
    same = np.isclose(actual, expected, rtol=0, atol=0, equal_nan=True)
    if same.all():
        return 0.0
    difference = np.abs(np.where(same, 0, actual.astype(np.float64) - np.where(same, 0, expected)))
    return float(np.where(same, 0, difference).max() / _scale(expected)) if np.isfinite(difference).all() else np.inf


def _scale(values: np.ndarray) -> float:
    """The largest finite value, but not 0."""
    finite = np.abs(values[np.isfinite(values)]) if values.dtype.kind == "f" else np.abs(values)
    return max(float(finite.max(initial=0)), 1e-6)
