"""What a model that matches pictures with texts is for, such as CLIP or SigLIP from a Hugging Face folder.

Texts of a model without a mask are padded to the length that it was trained with, because padding counts there.
"""

from __future__ import annotations

from dataclasses import replace

from deploykit.artifact.tasks import PairEntry
from deploykit.compiler.model import ImportedModel
from deploykit.errors import UnsupportedModelError
from deploykit.folders.pictures import PIXELS, require_fit, required_picture
from deploykit.folders.tasks import bounds_of, tables_of, without_task
from deploykit.frontends.huggingface.folder import Folder
from deploykit.frontends.huggingface.registry import IDS, MASK
from deploykit.frontends.huggingface.special import TOKENIZER, special_token
from deploykit.text import FILE, facts_of

SCORES = "logits_per_image"
"""The output with a number for each picture and each text."""

SIGMOID = ("siglip", "siglip2")
"""Types of models for which each text fits or not, whatever the others are."""


def takes_pairs(model: ImportedModel) -> bool:
    """Whether the model compares pictures with texts."""
    inputs, outputs = ({port.name for port in ports} for ports in (model.inputs, model.outputs))
    return SCORES in outputs and {IDS, PIXELS} <= inputs <= {IDS, PIXELS, MASK}


def with_pair_task(model: ImportedModel, folder: Folder) -> ImportedModel:
    """The model with its task; it has none if the folder does not say how pictures or texts are prepared. Raises
    `UsageError` if the folder says nonsense about it."""
    if not folder.has(TOKENIZER):
        return without_task(model, f"the folder has no {TOKENIZER}")
    tables = tables_of(folder, (folder.config.get("text_config") or {}).get("vocab_size"))
    try:
        return replace(model, task=_task(model, folder, tables), task_files={FILE: tables})
    except UnsupportedModelError as error:
        return without_task(model, str(error))


def _task(model: ImportedModel, folder: Folder, tables: bytes) -> PairEntry:
    picture = required_picture(folder)
    ports = {port.name: port for port in model.inputs}
    require_fit(model, ports[PIXELS], picture)
    facts = facts_of(tables)
    _, longest = bounds_of(model, ports[IDS].shape[1])
    most = min((limit for limit in (facts.limit, longest) if limit), default=None)
    masked = MASK in ports
    padding = None if masked else special_token(folder, "pad_token", ())
    if not masked and (padding is None or most is None):
        raise UnsupportedModelError(f"{folder.path / TOKENIZER} does not say how texts are padded, which counts here")
    return PairEntry(
        kind="match",
        pixels=PIXELS,
        picture=picture,
        ids=IDS,
        mask=MASK if masked else None,
        most_tokens=most,
        padding=None if padding is None else padding[1],
        outputs=(SCORES,),
        scores="sigmoid" if folder.config["model_type"] in SIGMOID else "softmax",
        files=(FILE,),
    )
