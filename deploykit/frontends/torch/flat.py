"""A model of transformers as a function from a tuple of tensors to named tensors, as exporters need it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from transformers import cache_utils


class Flat(nn.Module):  # type: ignore[misc]  # torch has no types here
    """Takes the inputs `names` in order. `outputs` are the names of the results after a run; with `only`, all others
    are left out. Caches are never results."""

    def __init__(self, model: nn.Module, names: Sequence[str], only: str | None = None) -> None:
        super().__init__()
        self.model, self.names, self.only = model, tuple(names), only
        self.eval()  # an exporter puts all parts into the mode of the whole
        self.outputs: tuple[str, ...] = ()
        taken = inspect.signature(model.forward).parameters
        self.fixed = {name: value for name, value in {"use_cache": False, "return_dict": True}.items() if name in taken}

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = self.model(**dict(zip(self.names, tensors, strict=True)), **self.fixed)
        named: dict[str, torch.Tensor] = {}
        for name, value in _leaves("", found):
            if not any(value is other for other in named.values()) and self.only in (None, name):
                named[name if name not in self.names else f"{name}_out"] = value
        self.outputs = tuple(named)
        return tuple(named.values())


def _leaves(name: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors of a result: `hidden_states_0` is the first one of a list."""
    if isinstance(value, torch.Tensor):
        yield name or "output", value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _leaves(f"{name}_{key}".lstrip("_"), part)
    elif isinstance(value, tuple | list) and not isinstance(value, cache_utils.Cache):
        for index, part in enumerate(value):
            yield from _leaves(f"{name or 'output'}_{index}", part)
