"""Builds the models of the app, each once for its contents."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import deploykit
from deploykit.errors import UsageError
from deploykit.targets.android import AndroidTarget
from deploykit.targets.android.abis import ABIS

ROOT = Path(__file__).parents[3]
VERSION = "1.0"


@dataclass(frozen=True)
class Model:
    """A model of the app: its name, its source, and the options of its build."""

    name: str
    source: Path
    options: dict[str, Any] = field(default_factory=dict)


DIGITS = Model("digits", ROOT / "apps/web/model/digits.onnx", {"dims": {"batch": (1, 64)}})


def built(model: Model, abis: Sequence[str] | None, folder: Path) -> Path:
    """The folder of the Maven files of a model, in `folder`. It is built again when the model, the ABIs, or deploykit
    have changed."""
    place = folder / f"{model.name}-{_digest(model, abis)}"
    if not place.exists():
        unfinished = folder / f"{model.name}-unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        devices = ("vulkan", "opencl")
        deploykit.build(model.source, AndroidTarget(abis), output=unfinished, devices=devices, **model.options)
        for old in folder.glob(f"{model.name}-*"):
            if old != unfinished:
                shutil.rmtree(old)
        unfinished.rename(place)
    return place / "maven" / "org" / "deploykit" / model.name / VERSION


def taken(model: Model, folder: Path) -> Path:
    """The folder of the Maven files of a model among those that were built before, somewhere below `folder`. Raises
    `UsageError` unless there is one AAR of this name."""
    found = sorted(folder.rglob(f"{model.name}-*.aar"))
    if len(found) != 1:
        raise UsageError(f"{folder} holds {len(found)} AARs called {model.name}-<version>.aar: one is needed")
    return found[0].parent


def aar_of(maven: Path) -> Path:
    """The AAR in a folder of Maven files."""
    (found,) = maven.glob("*.aar")
    return found


def _digest(model: Model, abis: Sequence[str] | None) -> str:
    """A text that is another one for another model, ABIs, options or compiler."""
    digest = hashlib.blake2b(repr((model.options, list(abis or ABIS))).encode(), digest_size=8)
    sources = [model.source] if model.source.is_file() else sorted(model.source.rglob("*"))
    package = sorted(path for path in (ROOT / "deploykit").rglob("*") if "__pycache__" not in path.parts)
    for file in (path for path in (*sources, *package) if path.is_file()):
        digest.update(file.read_bytes())
    return digest.hexdigest()
