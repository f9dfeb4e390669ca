"""Loads a folder by transformers, as data only.

Weights are read from safetensors. No code of the folder runs, nothing is downloaded (the process is offline), and no
kernels are fetched, whatever the configuration asks for. Weights that the model needs and the folder lacks are an
error: transformers would make them up.
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
    except (ValueError, KeyError, OSError) as error:
        raise UnsupportedModelError(
            f"transformers {transformers.__version__} does not know it: {first(error)}"
        ) from error
    if getattr(config, "quantization_config", None):
        raise UnsupportedModelError("its weights are quantised ('quantization_config'): save it without that")
    for name in ("use_pretrained_backbone", "use_cache"):
        if getattr(config, name, None):
            setattr(config, name, False)
    config._experts_implementation = EXPERTS  # noqa: SLF001  transformers has no public name for it
    try:
        model, report = _class(config).from_pretrained(
            folder,
            config=config,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            dtype=torch.float32,
            attn_implementation=attention,
            output_loading_info=True,
        )
    except (ValueError, ImportError, OSError, RuntimeError, AttributeError, TypeError) as error:
        raise UnsupportedModelError(f"transformers cannot load it: {first(error)}") from error
    missing = sorted(name for name in report["missing_keys"] if not (pooled and "pooler." in name))
    if missing:
        raise UnsupportedModelError(f"{folder} has no weights '{missing[0]}', which {type(model).__name__} needs")
    model.eval().requires_grad_(requires_grad=False)
    return Loaded(model, tuple(sorted(report["unexpected_keys"])[:SHOWN]))


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
