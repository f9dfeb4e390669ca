"""Loads a folder by transformers, as data only.

Weights are read from safetensors. No code of the folder runs, nothing is downloaded (the process is offline), and no
kernels are fetched, whatever the configuration asks for. Weights that the model needs and the folder lacks, or has in
another shape, are an error: transformers would make them up. So are integers where the model has floats: what is
quantised has scales, which transformers would leave out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn

from deploykit.errors import UnsupportedModelError
from deploykit.frontends.huggingface.folder import read_folder

EXPERTS = "batched_mm"
"""How mixtures of experts are computed: the way that exporters know."""

SHOWN = 4
"""How many names a message shows."""


@dataclass(frozen=True)
class Loaded:
    """A model in float32, and the weights of the folder that it does not have."""

    model: nn.Module
    unread: tuple[str, ...]


def load(folder: Path, attention: str, *, pooled: bool) -> Loaded:
    """The model of `folder`, with the implementation `attention`. A model that is `pooled` to sentences needs no
    pooler of its own.

    Raises `UnsupportedModelError` if weights are missing, and for what transformers cannot load so."""
    try:
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # a configuration may say anything
        raise UnsupportedModelError(
            f"transformers {transformers.__version__} does not know it: {first(error)}"
        ) from error
    if getattr(config, "quantization_config", None):
        raise UnsupportedModelError("its weights are quantised ('quantization_config'): save it without that")
    for name in ("use_pretrained_backbone", "use_cache"):
        if getattr(config, name, None):
            setattr(config, name, False)
    config._experts_implementation = EXPERTS  # noqa: SLF001  transformers has no public name for it
    kind = _class(config)
    try:
        model, report = kind.from_pretrained(
            folder,
            config=config,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            dtype=torch.float32,
            attn_implementation=attention,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )
    except Exception as error:
        raise UnsupportedModelError(f"transformers cannot load it: {first(error)}") from error
    missing = sorted(name for name in report["missing_keys"] if not (pooled and "pooler." in name))
    if missing:
        raise UnsupportedModelError(f"{folder} has no weights '{missing[0]}', which {type(model).__name__} needs")
    for name, found, needed in sorted(report["mismatched_keys"]):
        raise UnsupportedModelError(
            f"the weights '{name}' of {folder} have the shape {tuple(found)}, but config.json says {tuple(needed)}"
        )
    _require_floats(folder, model)
    model.eval().requires_grad_(requires_grad=False)
    return Loaded(model, tuple(sorted(report["unexpected_keys"])[:SHOWN]))


def _require_floats(folder: Path, model: Any) -> None:
    """Raises `UnsupportedModelError` for weights that are integers in the folder, but floats in the model."""
    floats = {name for name, value in model.state_dict().items() if value.is_floating_point()}
    base = f"{model.base_model_prefix}."
    for name, array in read_folder(folder).weights.items():
        if array.dtype.kind in "iub" and not floats.isdisjoint((name, f"{base}{name}", name.removeprefix(base))):
            raise UnsupportedModelError(
                f"the weights '{name}' of {folder} are {array.dtype}: save the folder with weights that are floats"
            )


def _class(config: Any) -> Any:
    """The class of transformers that the configuration names; without a name, that of its type."""
    names = config.architectures or []
    if not names:
        return transformers.AutoModel
    found = getattr(transformers, names[0], None)
    if not (isinstance(found, type) and issubclass(found, transformers.PreTrainedModel)):
        raise UnsupportedModelError(
            f"transformers {transformers.__version__} has no model '{names[0]}'. Code of the folder is not run"
        )
    return found


def first(error: BaseException) -> str:
    """The beginning of the message of an error's first cause, on one line, without codes that colour a terminal."""
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(re.sub(r"\x1b\[\d+m", "", str(error)).split())[:300] or type(error).__name__
