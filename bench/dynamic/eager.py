"""PyTorch as a peer: the same source on tensors of PyTorch, an instance at a time.

The functions of `deploykit.dynamic` that the source imports are replaced by those of PyTorch.
"""

from __future__ import annotations

import functools
import importlib.util
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bench.dynamic.cases import Prepared, called, flat, load


def missing() -> str | None:
    """Why PyTorch cannot take part, or `None` if it can."""
    return None if importlib.util.find_spec("torch") else "not installed: pip install torch"


class Eager:
    """A model on tensors of PyTorch. `run` returns what the source does for each instance."""

    def __init__(self, prepared: Prepared, structures: Sequence[Any], threads: int) -> None:
        import torch

        torch.set_num_threads(threads)
        module = load(prepared.path, "bench_dynamic_torch")
        for name, function in _functions(torch).items():
            setattr(module, name, function)
        self._torch = torch
        self._model = getattr(module, prepared.case.model)(prepared.weights)
        for name, array in prepared.weights.items():
            setattr(self._model, name, torch.from_numpy(array))
        self._instances = [self._given(each) for each in prepared.instances(structures, module)]

    def _given(self, instance: Any) -> Any:
        if isinstance(instance, tuple):
            return tuple(map(self._given, instance))
        return self._torch.from_numpy(instance) if isinstance(instance, np.ndarray) else instance

    def run(self) -> list[Any]:
        with self._torch.inference_mode():
            return [called(self._model, instance) for instance in self._instances]

    def outputs(self) -> np.ndarray:
        return flat(self.run())


def _functions(torch: Any) -> dict[str, Callable[..., Any]]:
    """The functions of `deploykit.dynamic` that the sources use."""
    return {
        "mean": torch.mean,
        "concat": lambda *parts: torch.cat(parts, -1),
        "relu": torch.relu,
        "sigmoid": torch.sigmoid,
        "softmax": lambda x: torch.softmax(x, -1),
        "split": lambda x, count: x.chunk(count, -1),
        "sum": lambda x: functools.reduce(operator.add, x) if isinstance(x, list) else torch.sum(x),
        "tanh": torch.tanh,
        "zeros": torch.zeros,
    }
