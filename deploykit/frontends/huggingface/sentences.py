"""The modules of sentence-transformers that turn the states of tokens into one vector for a text.

`modules.json` lists them in order: Transformer, then Pooling, Normalize and Dense. Each has a folder with a
configuration. (Source: sentence-transformers, `models`.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from deploykit.errors import UnsupportedModelError, UsageError
from deploykit.frontends.huggingface.folder import WEIGHTS, Folder, inside
from deploykit.frontends.huggingface.safetensors import read_safetensors
from deploykit.frontends.huggingface.tensors import Module, Tensor, Weights, concatenated

MODULES = "modules.json"


def pooled_by(folder: Folder, x: Tensor, mask: Tensor) -> Tensor:
    """The vector of each text (batch, width) from the states of its tokens. Raises `UnsupportedModelError` for a module
    that is unknown."""
    vector: Tensor | None = None
    for entry in folder.json(MODULES):
        kind, path = str(entry["type"]).rpartition(".")[2], str(entry.get("path", ""))
        settings = folder.json(f"{path}/config.json") if path else None
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
            raise UnsupportedModelError(f"{folder.path / MODULES} has a module that is unknown: {entry['type']}")
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
    "cls_token": _first,
    "max_tokens": _greatest,
    "mean_tokens": mean,
    "mean_sqrt_len_tokens": _mean_by_root,
}
"""Ways of pooling, in the order in which several are joined."""


def _pooled(settings: Mapping[str, Any], x: Tensor, mask: Tensor) -> Tensor:
    start = "pooling_mode_"
    modes = [name.removeprefix(start) for name, on in settings.items() if name.startswith(start) and on]
    if unknown := [mode for mode in modes if mode not in POOLINGS]:
        raise UnsupportedModelError(f"the pooling '{unknown[0]}' is unknown; there are {', '.join(POOLINGS)}")
    chosen = [pool for mode, pool in POOLINGS.items() if mode in modes] or [mean]
    return concatenated([pool(x, mask) for pool in chosen], axis=1)


def _dense(folder: Folder, path: str, settings: Mapping[str, Any], vector: Tensor) -> Tensor:
    _, arrays = read_safetensors(inside(folder.path, f"{path}/{WEIGHTS}"))
    y = Module(vector.ctx, Weights(folder.path / path / WEIGHTS, arrays)).linear(
        "linear", vector, bias=settings.get("bias", True)
    )
    activation = str(settings.get("activation_function", "torch.nn.modules.activation.Tanh")).rpartition(".")[2].lower()
    return y if activation == "identity" else y.activation(activation)
