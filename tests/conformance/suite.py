"""The ONNX project's backend suite as a list of cases, and its known failures.

`known_failures.txt` holds one line per case, `name: reason`. A case that is not listed must pass, and a listed one must
fail. `known_dynamic_failures.txt` lists the cases whose dynamic variants fail. Cases that fail on only one runtime are
listed among its exceptions; see `tests.runtimes`.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator", "real")

KNOWN_FAILURES = Path(__file__).with_name("known_failures.txt")
DYNAMIC_FAILURES = Path(__file__).with_name("known_dynamic_failures.txt")


@dataclass(frozen=True)
class Case:
    """`kind`: node, simple, pytorch-converted, pytorch-operator or real. `run` raises when the backend fails it."""

    name: str
    kind: str
    run: Callable[[], Any]
    source: TestCase

    @property
    def model(self) -> onnx.ModelProto | None:
        """The model; `None` if the onnx package does not contain it."""
        if self.source.model is not None:
            return self.source.model
        return onnx.load(f"{self.source.model_dir}/model.onnx") if self.source.model_dir else None


@functools.cache
def cases() -> dict[str, Case]:
    """All cases by name."""
    import deploykit.onnx_backend

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runner = Runner(deploykit.onnx_backend, __name__)
        functions = {name: item.func for items in runner._test_items.values() for name, item in items.items()}
        return {
            source.name: Case(source.name, kind, functools.partial(functions[f"{source.name}_cpu"], None), source)
            for kind in KINDS
            for source in load_model_tests(kind=kind)
        }


@functools.cache
def known_failures() -> dict[str, str]:
    """The reason for each case that fails."""
    return _listed(KNOWN_FAILURES)


@functools.cache
def dynamic_failures() -> dict[str, str]:
    """The reason for each case whose dynamic variant fails, or that has none."""
    return _listed(DYNAMIC_FAILURES)


def _listed(path: Path) -> dict[str, str]:
    lines = path.read_text().splitlines() if path.exists() else []
    return dict(line.split(": ", 1) for line in lines if line and not line.startswith("#"))  # type: ignore[arg-type]
