"""The ONNX project's backend suite as a list of cases, and what is known to fail of it.

`known_failures.txt` holds a line a case, `name: reason`. A case that is not listed must pass; one that is listed must
fail.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from onnx.backend.test.runner import Runner

KNOWN_FAILURES = Path(__file__).with_name("known_failures.txt")


@dataclass(frozen=True)
class Case:
    """`kind`: Node, Simple, PyTorchConverted, PyTorchOperator or Real. `run` raises when the backend fails it."""

    name: str
    kind: str
    run: Callable[[], Any]
    model: Callable[[], onnx.ModelProto | None]


@functools.cache
def cases() -> dict[str, Case]:
    """All cases by name."""
    import deploykit.onnx_backend

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runner = Runner(deploykit.onnx_backend, __name__)
    return {case.name: case for case in _cases(runner)}


def _cases(runner: Runner) -> Iterator[Case]:
    for kind, items in runner._test_items.items():
        for name, item in items.items():
            if name.endswith("_cpu"):
                bound = functools.partial(item.func, _Caller())
                yield Case(name.removesuffix("_cpu"), kind, bound, functools.partial(_proto, item.proto))


class _Caller:
    """Stands in for the unittest case that the suite's functions expect as `self`."""


def _proto(holder: list[Any]) -> onnx.ModelProto | None:
    return holder[0] if holder else None


@functools.cache
def known_failures() -> dict[str, str]:
    """Reason by case name."""
    lines = KNOWN_FAILURES.read_text().splitlines() if KNOWN_FAILURES.exists() else []
    return dict(line.split(": ", 1) for line in lines if line and not line.startswith("#"))  # type: ignore[arg-type]
