"""`load_arrays`: from a folder with a model of pictures or sound to an `ImportedModel`.

The model takes the arrays that transformers' processors make, such as `pixel_values`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from deploykit.compiler.dims import checked_bounds
from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.model import DimBounds, ImportedModel, Port
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.model import ModelBuilder, Values
from deploykit.errors import UnsupportedModelError, UsageError
from deploykit.frontends.huggingface.architectures import Architecture, Axis, Input
from deploykit.frontends.huggingface.folder import Folder
from deploykit.frontends.huggingface.tensors import Module, Tensor, Weights


def load_arrays(folder: Folder, found: Architecture, dims: DimBounds | None = None) -> ImportedModel:
    """Import a folder with this architecture. `dims` pins or bounds the dims of its inputs.

    Raises `UsageError` for a folder whose parts do not fit, and for dims that the model does not have, and
    `UnsupportedModelError` for a configuration that the architecture does not cover."""
    config = found.settings.of(folder.config)
    inputs = found.inputs(config)
    bounds = checked_bounds(dims or {})
    axes = {axis.name: axis for given in inputs for axis in given.shape if isinstance(axis, Axis)}
    if unknown := bounds.keys() - axes.keys():
        raise UsageError(f"the model has no dim '{min(unknown)}'; it has {', '.join(axes)}")
    builder = ModelBuilder(folder.name)
    extents = {name: extent(builder, axis, bounds)[0] for name, axis in axes.items()}
    weights = Weights(folder.path, folder.weights)

    def body(ctx: Context, given: Values, _states: Values) -> tuple[Values, Values]:
        tensors = [Tensor(ctx, given[each.name]) for each in inputs]
        try:
            results = found.build(Module(ctx, weights), config, *tensors)
        except Unsupported as error:
            raise UnsupportedModelError(f"{config.path}: at '{ctx.site.name}': {error}") from error
        return {name: tensor.value for name, tensor in results.items()}, {}

    builder.function("main", [_port(each, extents) for each in inputs], body)
    model = builder.model()
    return replace(model, files=folder.files, notes=(*model.notes, *_unused(weights)))


WITHOUT_EFFECT = ("num_batches_tracked", "position_ids", "relative_position_index")
"""Endings of names of tensors that no model needs."""


def _unused(weights: Weights) -> list[str]:
    """A note on weights that the model does not have, if there are any."""
    left = {name for name in weights.arrays.keys() - weights.used if not name.endswith(WITHOUT_EFFECT)}
    if not left:
        return []
    return [f"{len(left)} of {len(weights.arrays)} weights are not used, such as '{min(left)}'"]


def _port(given: Input, extents: Mapping[str, IntExpr]) -> Port:
    return Port(given.name, given.dtype, tuple(extents[n.name] if isinstance(n, Axis) else n for n in given.shape))


def extent(builder: ModelBuilder, axis: Axis, bounds: DimBounds) -> tuple[IntExpr, int | None]:
    """The dim of an axis, or a number if it is pinned, and its upper bound. Raises `UsageError` for bounds outside
    those of the model."""
    asked = bounds.get(axis.name, (axis.minimum, axis.maximum))
    low, high = (asked, asked) if isinstance(asked, int) else asked
    high = axis.maximum if high is None else high
    if low < axis.minimum:
        raise UsageError(f"'{axis.name}' is at least {axis.minimum} in this model")
    if axis.maximum is not None and high is not None and high > axis.maximum:
        raise UsageError(f"'{axis.name}' is at most {axis.maximum} in this model")
    return (asked if isinstance(asked, int) else builder.dim(axis.name, low, high)), high
