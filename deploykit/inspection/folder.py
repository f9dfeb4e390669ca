"""Describes a Hugging Face folder: the route that it takes and why, its tokenizer, what a session does, and the dims.

A folder that cannot be read is an error; a model that no route covers is still described.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from deploykit.artifact.manifest import DimEntry, PortEntry
from deploykit.artifact.tasks import TextEntry
from deploykit.basics.parallel import interruptible
from deploykit.compiler.codegen.host.interface import port_entry
from deploykit.errors import UnsupportedModelError, defects
from deploykit.folders.language import generating_model
from deploykit.folders.models import import_model
from deploykit.frontends.huggingface.folder import Folder, read_folder
from deploykit.frontends.huggingface.generation import generates
from deploykit.frontends.huggingface.special import TOKENIZER
from deploykit.frontends.torch.importer import missing_packages
from deploykit.inspection.model import dim_entry

if TYPE_CHECKING:
    from deploykit.compiler.model import DimBounds
    from deploykit.frontends.huggingface.importer import Route

SESSIONS: dict[tuple[str, str], str] = {
    ("texts", "embed"): "embed(texts): a vector for each text",
    ("texts", "classify"): "classify(texts): the classes of each text",
    ("texts", "tokens"): "tokens(texts): the class of each token",
    ("texts", "answer"): "answer(question, context): the part of the context that answers",
    ("texts", "fill"): "fill(texts): the best tokens for each mask",
    ("pictures", "embed"): "embed(pictures): a vector for each picture",
    ("pictures", "classify"): "classify(pictures): the classes of each picture",
    ("pictures", "detect"): "detect(pictures): the objects in each picture",
    ("pictures", "segment"): "segment(pictures): the class of each point",
    ("pairs", "match"): "match(picture, texts): which texts fit",
    ("messages", "generate"): "generate(messages): an answer, token by token; chat() keeps a conversation",
    ("sound", "transcribe"): "transcribe(sounds, rate): what is said in each sound",
    ("sound", "classify"): "classify(sounds, rate): the classes of each sound",
}
"""What a session does, by what a task takes, and its kind."""


@dataclass(frozen=True)
class FolderReport:
    """The description of a folder. `route` is None if the model cannot be compiled here; `reason` says why, as it does
    for a route. `tokenizer` is the kind of `tokenizer.json`, empty without one. `session` is what a session does,
    empty for a model of tensors. A text has at most `most_tokens` tokens."""

    name: str
    architecture: str
    model_type: str
    weights: int
    weight_bytes: int
    route: Route | None
    reason: str
    tokenizer: str = ""
    session: str = ""
    labels: tuple[str, ...] = ()
    most_tokens: int | None = None
    inputs: tuple[PortEntry, ...] = ()
    outputs: tuple[PortEntry, ...] = ()
    dims: tuple[DimEntry, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def supported(self) -> bool:
        return self.route is not None


@interruptible
@defects("while the folder is described")
def inspect_folder(path: Path, dims: DimBounds | None = None, *, export: bool = False) -> FolderReport:
    """Describe a folder, with dims pinned or bounded as for a build. A model of the route `torch` has inputs and
    outputs only with `export`, because an export takes minutes.

    Raises `UsageError` if it is damaged, or its parts do not fit, or it has no such dim."""
    folder = read_folder(path)
    kind = str(folder.config["model_type"])
    report = FolderReport(
        name=path.resolve().name,
        architecture=str((folder.config.get("architectures") or [kind])[0]),
        model_type=kind,
        weights=len(folder.weights),
        weight_bytes=sum(math.prod(array.shape) * array.itemsize for array in folder.weights.values()),
        route=None,
        reason="",
        tokenizer=_tokenizer(folder),
    )
    by_torch = False
    route: Route
    try:
        if generates(folder):
            model, route, reason = generating_model(folder, dims), "own", f"there is a family for '{kind}'"
        else:
            by_torch = not export and not missing_packages()
            found = import_model(folder, dims, "own" if by_torch else None)
            model, route, reason = found.model, found.route, found.reason
    except UnsupportedModelError as error:
        if not by_torch:
            return replace(report, reason=str(error))
        note = "what it takes and gives is known when it is exported, which may take minutes: --export"
        return replace(report, route="torch", reason=str(error), notes=(note,))
    task = model.task
    return replace(
        report,
        route=route,
        reason=reason,
        session="" if task is None else SESSIONS[task.takes, task.kind],
        labels=() if task is None else task.labels,
        most_tokens=task.most_tokens if isinstance(task, TextEntry) else None,
        inputs=tuple(port_entry(port, model.dims) for port in model.inputs),
        outputs=tuple(port_entry(port, model.dims) for port in model.outputs),
        dims=tuple(dim_entry(dim) for dim in model.dims),
        notes=model.notes,
    )


def _tokenizer(folder: Folder) -> str:
    found = folder.json(TOKENIZER)
    model = found.get("model") if isinstance(found, dict) else None
    return str(model.get("type") or "unknown") if isinstance(model, dict) else ""
