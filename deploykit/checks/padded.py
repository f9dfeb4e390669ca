"""Runs the padded model that a ragged artifact was converted from, on the inputs of the artifact.

Each ragged input is padded to the longest instance, with numbers that occur elsewhere in it: what is behind the end of
an instance must not matter. Masks are 1 at the elements of an instance and 0 at padding; a mask of rank 1 has the
lengths instead. Of the outputs, only the elements of instances are kept. An empty instance has no results to compare,
so its part of dense outputs is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from deploykit.artifact.manifest import Manifest, PortEntry
from deploykit.checks.reference import Runner
from deploykit.errors import UsageError
from deploykit.sessions.ragged_array import Ragged
from deploykit.sessions.ragged_ports import RaggedPorts, extents, is_flat, ragged_ports, shapes

_BEYOND = 2
_SEED = 0

MaskType: TypeAlias = tuple[np.dtype[Any], tuple[int, ...] | None]
"""The dtype of a mask, and its extents between the first, the batch, and the last, the ragged dim; None for rank 1."""


@dataclass(frozen=True)
class PaddedForm:
    """How to run the padded model of an artifact with this manifest. `masks` has the types of its masks by name."""

    manifest: Manifest
    ports: RaggedPorts
    masks: Mapping[str, MaskType]

    def inputs(self, given: Mapping[str, Any], *, beyond: int = 0) -> dict[str, Any]:
        """The inputs of the padded model, from those of the artifact. If all instances have the same length, there is
        padding of the length `beyond` behind them."""
        lengths = {name: np.asarray(given[name]) for name in self.ports.lengths}
        longest = {
            entry.lengths: _longest(lengths[entry.lengths], entry.maximum, beyond) for entry in self.manifest.padded
        }
        found = {name: value for name, value in given.items() if name not in longest}
        generator = np.random.default_rng(_SEED)
        for port in self.ports.inputs:
            instances = self._instances(port, np.asarray(given[port.name]), lengths)
            found[port.name] = _padded(port, instances, longest, generator)
        for entry in self.manifest.padded:
            inside = np.arange(longest[entry.lengths]) < lengths[entry.lengths][:, None]
            for name in entry.masks:
                dtype, between = self.masks[name]
                if between is None:
                    found[name] = lengths[entry.lengths].astype(dtype)
                else:
                    found[name] = inside.reshape(len(inside), *between, inside.shape[1]).astype(dtype)
        return found

    def outputs(self, given: Mapping[str, Any], results: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs as the artifact gives them, from those of the padded model for its inputs `given`."""
        found = dict(results)
        lengths = {name: np.asarray(given[name]) for name in self.ports.lengths}
        for port in filter(None, self.ports.outputs):
            found[port.name] = self._valid(port, np.asarray(results[port.name]), lengths)
        return found

    def comparable(self, given: Mapping[str, Any], results: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs of the artifact for these inputs, as arrays, without the parts of empty instances."""
        found = plain(results)
        for entry in self.manifest.padded:
            (batch,) = self.ports.lengths[entry.lengths].shape
            for port in self.manifest.outputs:
                if port.instance is None and batch in port.shape and isinstance(found[port.name], np.ndarray):
                    kept, axis = np.asarray(given[entry.lengths]) > 0, port.shape.index(batch)
                    found[port.name] = np.compress(kept, found[port.name], axis)
        return found

    def around(self, run: Runner) -> Runner:
        """A function that takes the artifact's inputs and runs the padded model with `run`; its outputs are
        `comparable`."""
        return lambda given: self.comparable(given, self.outputs(given, run(self.inputs(given, beyond=_BEYOND))))

    def _instances(self, port: PortEntry, values: np.ndarray, lengths: Mapping[str, np.ndarray]) -> Ragged:
        if is_flat(port, self.ports.lengths):
            return Ragged(values, shapes(port, lengths, {}))
        return Ragged(values, lengths[str(extents(port)[0])])

    def _valid(self, port: PortEntry, padded: np.ndarray, lengths: Mapping[str, np.ndarray]) -> Ragged:
        """The elements of instances in a padded output."""
        batch = len(lengths[next(str(extent) for extent in extents(port) if extent in lengths)])
        if padded.ndim != 1 + len(extents(port)) or len(padded) != batch:
            raise UsageError(
                f"output '{port.name}' of the padded model has shape {padded.shape}, for {batch} instances"
            )
        ends = [lengths[str(extent)] if extent in lengths else [None] * batch for extent in extents(port)]
        instances = [row[tuple(map(slice, own))] for row, own in zip(padded, zip(*ends, strict=True), strict=True)]
        flat = is_flat(port, self.ports.lengths)
        return Ragged.of(instances, flat=flat) if instances else Ragged(padded.reshape(0, *padded.shape[2:]), [])


def plain(outputs: Mapping[str, Any]) -> dict[str, Any]:
    """The outputs, with the values of ragged ones in their place."""
    return {name: value.values if isinstance(value, Ragged) else value for name, value in outputs.items()}


def padded_form(manifest: Manifest, model: Path) -> PaddedForm | None:
    """How to run the model file that an artifact was converted from; None if the artifact is not a converted one.

    Raises `UsageError` if the file has no such masks.
    """
    ports = ragged_ports(manifest)
    if ports is None or not manifest.padded:
        return None
    import onnx

    graph = onnx.load(model, load_external_data=False).graph
    inputs = {value.name: value.type.tensor_type for value in graph.input}
    masks: dict[str, MaskType] = {}
    for name in (name for entry in manifest.padded for name in entry.masks):
        if name not in inputs:
            raise UsageError(f"{model} has no input '{name}': it is not the model that the artifact was built from")
        axes = inputs[name].shape.dim
        between = tuple(int(dim.dim_value) for dim in axes[1:-1])
        if not axes or any(extent != 1 for extent in between):
            raise UsageError(f"the mask '{name}' in {model} is none of [batch, seq], [batch, 1, ..., seq] and [batch]")
        dtype = onnx.helper.tensor_dtype_to_np_dtype(inputs[name].elem_type)
        masks[name] = dtype, between if len(axes) > 1 else None
    return PaddedForm(manifest, ports, masks)


def _longest(lengths: np.ndarray, maximum: int | None, beyond: int) -> int:
    """The extent to pad to: at least 1, because few models take empty sequences."""
    longest = max(int(lengths.max(initial=0)), 1)
    padded = longest + beyond if (lengths == longest).all() else longest
    return padded if maximum is None else max(longest, min(padded, maximum))


def _padded(
    port: PortEntry, instances: Ragged, longest: Mapping[str, int], generator: np.random.Generator
) -> np.ndarray:
    """The instances as a dense array, with elements of the same array as padding."""
    rest = instances.values.shape[1:] if instances.lengths.ndim == 1 else instances.shapes.max(axis=0, initial=0)[1:]
    first, *others = extents(port)
    shape = [len(instances), longest[str(first)]]
    shape += [longest.get(str(extent), int(size)) for extent, size in zip(others, rest, strict=True)]
    values = instances.values.reshape(-1)
    result = values[generator.integers(values.size, size=shape)] if values.size else np.zeros(shape, values.dtype)
    for row, instance in zip(result, instances, strict=True):
        row[tuple(map(slice, instance.shape))] = instance
    return result
