"""A case as a PyTorch module that takes positional tensors and returns a tuple of tensors, as exporters require.

plain    the inputs of the model
past     also the keys and values of earlier positions; returns those of all positions
static   also keys and values of `CAPACITY` positions, and the number of positions that are filled
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
import transformers
from torch import nn
from transformers import cache_utils

from tests.zoo.case import Case, Input

CAPACITY = 40
"""Number of positions of a static cache."""

EXPERTS = "batched_mm"
"""The implementation of mixtures of experts that exporters can export."""


def make(case: Case, attention: str | None = None) -> nn.Module:
    """The model of a case with seeded random weights, large enough that every part affects the result."""
    torch.manual_seed(0)
    kind = getattr(transformers, case.model)
    config = kind.config_class(**copy.deepcopy(dict(case.config)))
    if attention:
        config._attn_implementation = attention
    config._experts_implementation = EXPERTS
    model = kind(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim >= 2:
                parameter.normal_(0, (parameter.numel() / parameter.shape[0]) ** -0.5)
                parameter.copy_(_rounded(parameter))
            else:
                parameter.add_(_rounded(0.1 * torch.randn_like(parameter)))
        for name, buffer in model.named_buffers():
            if name.endswith("running_mean"):
                buffer.normal_(0, 0.3)
            elif name.endswith("running_var"):
                buffer.uniform_(0.5, 1.5)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    return model


def _rounded(values: torch.Tensor) -> torch.Tensor:
    """The values, rounded to multiples of a power of two that is about a quarter of their standard deviation. About
    forty different values remain, so that files compress to an eighth."""
    spread = float(values.std()) if values.numel() > 1 else 0.0
    step = 2.0 ** (math.floor(math.log2(spread)) - 2) if spread > 0 else 1.0
    return torch.round(values / step) * step if spread > 0 else values


def caches(case: Case, model: nn.Module) -> tuple[Input, ...]:
    """The inputs of the cache. Their shapes are found from the outputs of the model for sizes that occur in no other
    dim."""
    batch, past = 5, 11
    with torch.no_grad():
        ids = torch.full((batch, past), 7)
        layers = model(input_ids=ids, use_cache=True).past_key_values.layers
    length: str | int = CAPACITY if case.form == "static" else "past"
    sizes = {batch: "batch", past: length}
    found = []
    for index, layer in enumerate(layers):
        for what, tensor in (("key", layer.keys), ("value", layer.values)):
            shape = tuple(sizes.get(size, size) for size in tensor.shape)
            found.append(Input(f"past_{what}_{index}", shape))
    if case.form == "static":
        found.append(Input("filled", (), "ids", 0, 7))
    return tuple(found)


class Flat(nn.Module):
    """The exported module. `output_names` are known after it has run."""

    def __init__(self, case: Case, model: nn.Module, inputs: tuple[Input, ...]) -> None:
        super().__init__()
        self.case, self.model, self.inputs = case, model, inputs
        self.output_names: list[str] = []

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        named = dict(zip((one.name for one in self.inputs), tensors, strict=True))
        given = {name: tensor for name, tensor in named.items() if not name.startswith(("past_key_", "past_value_"))}
        call: dict[str, Any] = {**self.case.call, "return_dict": True}
        if self.case.form == "past":
            call["past_key_values"] = cache_utils.DynamicCache(list(self._pairs(named)))
        elif self.case.form == "static":
            call["past_key_values"] = self._static(named, given.pop("filled"))
        results = self.model(**given, **call)
        flat = dict(self._named(results))
        if self.case.outputs:
            flat = {name: tensor for name, tensor in flat.items() if name in self.case.outputs}
        self.output_names = list(flat)
        return tuple(flat.values())

    @staticmethod
    def _pairs(named: Mapping[str, torch.Tensor]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        index = 0
        while f"past_key_{index}" in named:
            yield named[f"past_key_{index}"], named[f"past_value_{index}"]
            index += 1

    def _static(self, named: Mapping[str, torch.Tensor], filled: torch.Tensor) -> Any:
        cache = cache_utils.StaticCache(self.model.config, max_cache_len=CAPACITY)
        for layer, (key, value) in zip(cache.layers, self._pairs(named), strict=True):
            layer.dtype, layer.device = key.dtype, key.device
            layer.batch_size, layer.num_heads = key.shape[:2]
            layer.k_head_dim, layer.v_head_dim = key.shape[-1], value.shape[-1]
            layer.keys, layer.values = key.clone(), value.clone()
            layer.cumulative_length = filled.clone()
            layer.is_initialized = True
        return cache

    def _named(self, results: Any) -> Iterator[tuple[str, torch.Tensor]]:
        items = (
            results.items()
            if hasattr(results, "items")
            else enumerate(results if isinstance(results, tuple) else (results,))
        )
        for name, value in items:
            title = name if isinstance(name, str) else f"output_{name}"
            if isinstance(value, cache_utils.Cache):
                for index, layer in enumerate(getattr(value, "layers", ())):
                    if getattr(layer, "keys", None) is not None:
                        yield f"present_key_{index}", layer.keys
                        yield f"present_value_{index}", layer.values
            else:
                yield from _tensors(title, value)


def _tensors(name: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _tensors(f"{name}_{key}", part)
    elif isinstance(value, tuple | list):
        for index, part in enumerate(value):
            yield from _tensors(f"{name}_{index}", part)


def tensors(arrays: Mapping[str, np.ndarray], kind: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
    """Arrays as tensors. Float arrays get the dtype `kind`."""
    made = (torch.from_numpy(np.ascontiguousarray(array)).reshape(array.shape) for array in arrays.values())
    return tuple(tensor.to(kind) if tensor.is_floating_point() else tensor for tensor in made)
