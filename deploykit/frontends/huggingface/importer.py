"""`load_folder`: from a Hugging Face folder to an `ImportedModel`.

A family builds the graph with the weights of the folder. The head follows from the architecture that the configuration
names, or from sentence-transformers' `modules.json`. Texts are padded batches here: ids, types and a mask, each
(batch, seq).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from deploykit.compiler.dims import checked_bounds
from deploykit.compiler.model import DimBounds, ImportedModel, Port
from deploykit.compiler.operators.building.model import ModelBuilder, Values
from deploykit.compiler.ragged.conversion import TOKENS, ragged
from deploykit.errors import UnsupportedModelError, UsageError
from deploykit.frontends.huggingface.architectures import find_architecture
from deploykit.frontends.huggingface.arrays import load_arrays
from deploykit.frontends.huggingface.folder import Folder, read_folder
from deploykit.frontends.huggingface.registry import Family, Text, find_family
from deploykit.frontends.huggingface.sentences import MODULES, pooled_by
from deploykit.frontends.huggingface.tensors import Module, Tensor, Weights

if TYPE_CHECKING:
    from deploykit.compiler.operators.building.context import Context

BATCH, SEQ = "batch", "seq"
IDS, MASK, TYPES = "input_ids", "attention_mask", "token_type_ids"
EMBEDDING = "sentence_embedding"


def load_texts(path: Path, dims: DimBounds | None = None) -> ImportedModel:
    """Import a folder for batches of texts of mixed lengths, which are not padded. `dims` may bound `tokens`, the sum
    of their lengths, too. If the model cannot be ragged, it takes padded batches, and a note says why."""
    bounds = checked_bounds(dims or {})
    tokens = bounds.pop(TOKENS, None)
    model = load_folder(path, bounds)
    names = {port.name for port in model.functions[0].inputs}
    if MASK not in names or not names <= {IDS, MASK, TYPES}:
        if tokens is not None:
            raise UsageError(f"the model has no dim '{TOKENS}': it takes no texts")
        return model
    try:
        return ragged(model, {SEQ: BATCH}, [MASK], (tokens, tokens) if isinstance(tokens, int) else tokens)
    except UnsupportedModelError as error:
        if tokens is not None:
            raise
        return replace(model, notes=(*model.notes, f"texts are padded to one length: {error}"))


def load_folder(path: str | Path, dims: DimBounds | None = None) -> ImportedModel:
    """Import the folder at `path`. `dims` pins or bounds `batch` and `seq`.

    Raises `UsageError` for a folder that is damaged or whose parts do not fit, and `UnsupportedModelError` for a model
    that no family covers."""
    folder = read_folder(Path(path))
    if (found := find_architecture(folder.config)) is not None:
        return load_arrays(folder, found, dims)
    family = find_family(folder.config)
    bounds = checked_bounds(dims or {})
    if unknown := bounds.keys() - {BATCH, SEQ}:
        raise UsageError(f"the model has no dim '{min(unknown)}'; it has {BATCH}, {SEQ}")
    builder = ModelBuilder(Path(path).resolve().name)
    shape = [
        _dim(builder, BATCH, bounds, None),
        _dim(builder, SEQ, bounds, family.positions(folder.config)),
    ]
    weights = Weights(folder.path, folder.weights)
    names = [IDS, MASK, TYPES] if family.types else [IDS, MASK]

    def body(ctx: Context, given: Values, _states: Values) -> tuple[Values, Values]:
        text = Text(*(Tensor(ctx, given[name]) for name in names))
        found = _outputs(folder, family, Module(ctx, weights), text)
        return {name: tensor.value for name, tensor in found.items()}, {}

    builder.function("main", [Port(name, "int64", tuple(shape)) for name in names], body)
    return replace(builder.model(), files=folder.files)


def _outputs(folder: Folder, family: Family, m: Module, text: Text) -> dict[str, Tensor]:
    x = family.encode(m.under(family.base), folder.config, text)
    if (folder.path / MODULES).exists():
        return {EMBEDDING: pooled_by(folder, x, text.mask)}
    names = folder.config.get("architectures") or ["Model"]
    found = next((head for ending, head in family.heads.items() if str(names[0]).endswith(ending)), None)
    if found is None:
        raise UnsupportedModelError(
            f"{folder.config.path} names the architecture {names[0]}, whose head is unknown for models of type "
            f"'{family.name}'; there are the endings {', '.join(family.heads)}"
        )
    return dict(found(m, folder.config, x))


def _dim(builder: ModelBuilder, name: str, bounds: DimBounds, limit: int | None) -> object:
    """A dim with the bounds that were asked for, and at most `limit`. A number if it is pinned."""
    asked = bounds.get(name, (1, limit))
    low, high = (asked, asked) if isinstance(asked, int) else asked
    high = limit if high is None else high
    if limit is not None and high is not None and high > limit:
        raise UsageError(f"'{name}' is at most {limit} in this model: it has that many positions")
    return asked if isinstance(asked, int) else builder.dim(name, low, high)
