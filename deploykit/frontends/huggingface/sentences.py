"""The modules of sentence-transformers that turn the states of tokens into one vector for a text.

`modules.json` lists them in order: Transformer, then Pooling, Normalize and Dense. Each has a folder with a
configuration. (Source: sentence-transformers, `models`.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from deploykit.errors import UnsupportedModelError, UsageError
from deploykit.frontends.huggingface.entries import SENTENCES as ENTRIES
from deploykit.frontends.huggingface.folder import WEIGHTS, Folder, inside
from deploykit.frontends.huggingface.safetensors import read_safetensors
from deploykit.frontends.huggingface.tensors import Module, Tensor, Weights, concatenated

MODULES = "modules.json"

SENTENCES = "sentence_bert_config.json"

UNCHANGED_TEXTS = {
    SENTENCES: "do_lower_case",
    "config_sentence_transformers.json": "default_prompt_name",
}
"""Entries that must not be set, by their files."""

VECTOR = "sentence_embedding"
USUAL_DENSE = {"use_residual": False, "module_input_name": VECTOR, "module_output_name": VECTOR}
"""Entries of dense layers with the only values that are supported."""


def pooled_by(folder: Folder, x: Tensor, mask: Tensor) -> Tensor:
    """The vector of each text (batch, width) from the states of its tokens. Raises `UnsupportedModelError` for a module
    that is unknown."""
    for name, entry in UNCHANGED_TEXTS.items():
        if found := folder.part(name, entry):
            raise UnsupportedModelError(
                f"{folder.path / name} says {entry}={found!r}, which changes texts before they are tokenized: do that "
                "in the app, and delete the entry"
            )
    vector: Tensor | None = None
    for module in folder.objects(MODULES, ENTRIES):
        if module.get("type") is None:
            raise UsageError(f"{folder.path / MODULES} has a module without a type")
        kind, path = module["type"].rpartition(".")[2], module.get("path") or ""
        settings = folder.object(f"{path}/config.json", ENTRIES) if path else None
        if kind == "Transformer":
            continue
        if kind == "Pooling":
            vector = _pooled(settings or {}, x, mask)
        elif vector is None:
            raise UsageError(f"{folder.path / MODULES} has {kind} in front of Pooling")
        elif kind == "Normalize":
            vector = vector.unit_length()
        elif kind == "Dense":
            vector = _dense(folder, path, settings or {}, vector)
        elif kind != "Dropout":
            raise UnsupportedModelError(f"{folder.path / MODULES} has a module that is unknown: {module['type']}")
    if vector is None:
        raise UsageError(f"{folder.path / MODULES} has no Pooling")
    return vector


def _first(x: Tensor, mask: Tensor) -> Tensor:
    return x.at(1, 0)


def _sum_and_count(x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    batch, length = mask.shape
    weights = mask.cast("float32").reshape(batch, length, 1)
    return (x * weights).sum(1), weights.sum(1).maximum(1e-9)


def mean(x: Tensor, mask: Tensor) -> Tensor:
    """The mean state (batch, width) of the tokens that count."""
    total, count = _sum_and_count(x, mask)
    return total / count


def _mean_by_root(x: Tensor, mask: Tensor) -> Tensor:
    total, count = _sum_and_count(x, mask)
    return total / count.root()


def _greatest(x: Tensor, mask: Tensor) -> Tensor:
    return mask.reshape(*mask.shape, 1).where_true(x, -1e9).greatest(1)


POOLINGS: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cls": _first,
    "max": _greatest,
    "mean": mean,
    "mean_sqrt_len_tokens": _mean_by_root,
}
"""Ways of pooling, in the order in which older folders join several."""

OLDER, OLDER_NAMES = "pooling_mode_", {"cls_token": "cls", "max_tokens": "max", "mean_tokens": "mean"}
"""Older folders have an entry for each way, which begins like this, and other names for some."""


def _pooled(settings: Mapping[str, Any], x: Tensor, mask: Tensor) -> Tensor:
    modes = settings.get("pooling_mode")
    if modes is None:
        on = [name.removeprefix(OLDER) for name, value in settings.items() if name.startswith(OLDER) and value]
        named = [OLDER_NAMES.get(name, name) for name in on] or ["mean"]
        modes = sorted(named, key=[*POOLINGS, *named].index)
    chosen = [modes] if isinstance(modes, str) else list(modes)
    if unknown := [mode for mode in chosen if mode not in POOLINGS]:
        raise UnsupportedModelError(f"the pooling '{unknown[0]}' is unknown; there are {', '.join(POOLINGS)}")
    return concatenated([POOLINGS[mode](x, mask) for mode in chosen], axis=1)


def _dense(folder: Folder, path: str, settings: Mapping[str, Any], vector: Tensor) -> Tensor:
    for name, value in USUAL_DENSE.items():
        if settings.get(name, value) not in (None, value):
            raise UnsupportedModelError(f"{folder.path / path} says {name}={settings[name]!r}, which is not supported")
    _, arrays = read_safetensors(inside(folder.path, f"{path}/{WEIGHTS}"))
    y = Module(vector.ctx, Weights(folder.path / path / WEIGHTS, arrays)).linear(
        "linear", vector, bias=settings.get("bias", True)
    )
    activation = str(settings.get("activation_function", "torch.nn.modules.activation.Tanh")).rpartition(".")[2].lower()
    return y if activation == "identity" else y.activation(activation)
