"""`import_folder`: from a Hugging Face folder to an `ImportedModel`, on one of two routes.

`own`: a family builds the graph with the weights of the folder. The head follows from the architecture that the
configuration names, or from sentence-transformers' `modules.json`.

`torch`: transformers loads the folder, and PyTorch exports it to ONNX. It is taken if no family covers the model.

Texts are padded batches here: ids, types and a mask, each (batch, seq).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from deploykit.compiler.dims import checked_bounds
from deploykit.compiler.model import DimBounds, ImportedModel, Port
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.model import ModelBuilder, Values
from deploykit.errors import UnsupportedModelError, UsageError
from deploykit.frontends.huggingface.architectures import BATCH, Axis, find_architecture
from deploykit.frontends.huggingface.arrays import extent, load_arrays
from deploykit.frontends.huggingface.complete import check_fixed, check_read
from deploykit.frontends.huggingface.folder import Folder, read_folder
from deploykit.frontends.huggingface.registry import IDS, MASK, TYPES, Family, Head, Text, find_family
from deploykit.frontends.huggingface.sentences import MODULES, VECTOR, pooled_by
from deploykit.frontends.huggingface.tensors import Module, Tensor, Weights
from deploykit.frontends.torch.importer import INSTALL, import_exported, missing_packages

if TYPE_CHECKING:
    from deploykit.compiler.operators.building.context import Context
    from deploykit.frontends.onnx.importer import Finish

SEQ = "seq"


Route: TypeAlias = Literal["own", "torch"]


@dataclass(frozen=True)
class Imported:
    """A model, the folder that it was made from, and the `route`, with the reason for it. Of a model of texts, `words`
    is the number of words, and `longest` the most tokens of a text (None: no limit); `padding` says whether a text has
    the same results in a padded batch as alone."""

    model: ImportedModel
    folder: Folder
    route: Route
    reason: str
    words: int = 0
    longest: int | None = None
    padding: bool = True


def load_folder(path: str | Path, dims: DimBounds | None = None) -> ImportedModel:
    """The model of a folder on the route `own`."""
    return import_folder(path, dims, "own").model


def import_folder(source: str | Path | Folder, dims: DimBounds | None = None, route: Route | None = None) -> Imported:
    """Import a folder, or the one at a path, on the `route`, or on the first one that covers it. `dims` pins or bounds
    its dims, such as `batch` and `seq`.

    Raises `UsageError` for a folder that is damaged or whose parts do not fit, and `UnsupportedModelError` for a model
    that no route covers."""
    folder = source if isinstance(source, Folder) else read_folder(Path(source))
    bounds = checked_bounds(dims or {})
    if route == "torch":
        return _by_torch(folder, bounds, "it is asked for")
    try:
        return _by_family(folder, bounds)
    except UnsupportedModelError as error:
        if route == "own" or folder.documents is not None:
            raise
        if missing := missing_packages():
            raise UnsupportedModelError(
                f"{error}. Such models are exported by PyTorch if it is installed; this Python has no {missing[0]}: "
                f"{INSTALL}"
            ) from error
        reason = str(error)
    try:
        found = _by_torch(folder, bounds, reason)
    except UnsupportedModelError as error:
        raise UnsupportedModelError(f"{reason}. By PyTorch: {error}", error.problems) from error
    note = f"exported by PyTorch, which takes longer, because {reason}; --route own refuses it instead"
    return replace(found, model=replace(found.model, notes=(*found.model.notes, note)))


def _by_family(folder: Folder, bounds: DimBounds) -> Imported:
    kind = folder.config["model_type"]
    if (found := find_architecture(folder.config)) is not None:
        return Imported(load_arrays(folder, found, bounds), folder, "own", f"there is a family for '{kind}'")
    family = find_family(folder.config)
    folder = replace(folder, config=folder.config.completed(family.defaults, family.aliases))
    check_fixed(family, folder.config)
    if unknown := bounds.keys() - {BATCH, SEQ}:
        raise UsageError(f"the model has no dim '{min(unknown)}'; it has {BATCH}, {SEQ}")
    builder = ModelBuilder(folder.name)
    batch, _ = extent(builder, Axis(BATCH), bounds)
    seq, longest = extent(builder, Axis(SEQ, maximum=family.positions(folder.config)), bounds)
    weights = Weights(folder.path, folder.weights)
    names = [IDS, MASK, TYPES] if family.types(folder.config) else [IDS, MASK]

    def body(ctx: Context, given: Values, _states: Values) -> tuple[Values, Values]:
        ids, mask, *types = (Tensor(ctx, given[name]) for name in names)
        text = Text(ids, mask, types[0] if types else None, longest)
        found = _outputs(folder, family, Module(ctx, weights), text)
        return {name: tensor.value for name, tensor in found.items()}, {}

    try:
        builder.function("main", [Port(name, "int64", (batch, seq)) for name in names], body)
    except Unsupported as error:
        raise UnsupportedModelError(f"{folder.path}, of type '{kind}', cannot be built: {error}") from error
    check_read(family, folder, weights)
    model = replace(builder.model(), files=folder.files)
    words = int(folder.config.vocab_size)
    return Imported(model, folder, "own", f"there is a family for '{kind}'", words, longest)


def _by_torch(folder: Folder, bounds: DimBounds, reason: str) -> Imported:
    if missing := missing_packages():
        raise UnsupportedModelError(f"the route 'torch' needs {', '.join(missing)}: {INSTALL}")
    finish = pooled_states(folder) if folder.has(MODULES) else None
    model, facts = import_exported(folder, bounds, finish)
    longest = next((dim.maximum for dim in model.dims if dim.name == SEQ), None)
    model = replace(model, files=(*folder.files, *model.files))
    return Imported(model, folder, "torch", reason, facts.words, longest, facts.padding)


def pooled_states(folder: Folder) -> Finish:
    """What a folder of sentence-transformers computes from the states of tokens, the only output of the model."""

    def finish(ctx: Context, inputs: Values, outputs: Values) -> Values:
        if MASK not in inputs:
            raise UnsupportedModelError(f"{folder.path} has {MODULES}, but the model takes no '{MASK}'")
        (states,) = outputs.values()
        return {VECTOR: pooled_by(folder, Tensor(ctx, states), Tensor(ctx, inputs[MASK])).value}

    return finish


def _outputs(folder: Folder, family: Family, m: Module, text: Text) -> dict[str, Tensor]:
    x = family.encode(m.under(family.base), folder.config, text)
    if folder.has(MODULES):
        return {VECTOR: pooled_by(folder, x, text.mask)}
    return dict(_head(folder, family)(m, folder.config, x, text))


def _head(folder: Folder, family: Family) -> Head:
    """The head of the architecture that the configuration names."""
    names = folder.config.get("architectures") or [f"{family.prefix}Model"]
    heads = {f"{family.prefix}{ending}": head for ending, head in family.heads.items()}
    if names[0] not in heads:
        raise UnsupportedModelError(
            f"{folder.config.path} names the architecture {names[0]}, which is unknown for models of type "
            f"'{family.name}'; there are {', '.join(heads)}"
        )
    return heads[names[0]]
