"""Writes one AAR of several models: a class for each, classes that they share, and for each ABI one library.

maven/<group>/<name>/<version>/   as for one model; `<name>` is the last word of the package
README.md                         how an app uses it
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deploykit.basics.scratch import Scratch
from deploykit.errors import UsageError
from deploykit.targets.android.aar import write_maven
from deploykit.targets.android.java import coroutines, readme_view
from deploykit.targets.android.models import Libraries, Model, model_of
from deploykit.targets.android.naming import APART, AndroidOptions
from deploykit.targets.templates import render

if TYPE_CHECKING:
    from deploykit.compiler.program.ir import Program
    from deploykit.targets.base import PackageOptions

_PACKAGE = "deploykit.targets.android"


def write_together(
    link: Callable[[Sequence[Model], str, Path], Libraries],
    abis: Sequence[str],
    packages: Sequence[tuple[Sequence[Program], Mapping[str, bytes], PackageOptions]],
    folder: Path,
) -> list[str]:
    """Write the AAR of models, given as their programs, what was emitted, and their options. `link` makes the
    libraries for these ABIs, of a name, in a folder. Returns the names of the files.

    Raises `UsageError` and `ToolchainError`."""
    own = packages[0][2].own or AndroidOptions()
    package = own.package or "org.deploykit.models"
    name = package.rpartition(".")[2]
    classes = _classes(own.class_, len(packages))
    if own.weights == APART:
        raise UsageError(
            "weights of several models are in their AAR: leave weights=apart out, or build the models apart"
        )
    with Scratch() as place:
        models = []
        for number, ((programs, emitted, options), class_) in enumerate(zip(packages, classes, strict=True)):
            chosen = replace(own, package=package, class_=class_)
            scratch = Path(place) / f"model-{number}"
            scratch.mkdir()
            model = model_of(programs, emitted, options, chosen, scratch, java=True)
            model.view.update(own=model.view["class"], number=number, library=name)
            models.append(model)
        _require_apart(models)
        libraries = link(models, name, Path(place))
        view = _view(models, name) | {"libraries": libraries.sizes, "abis": abis}
        names = write_maven(models, view, libraries, folder)
        for model in models:
            names.append(f"{model.view['prefix']}/{coroutines(model.view)[0]}")
            path = folder / names[-1]
            path.parent.mkdir(parents=True)
            path.write_text(coroutines(model.view)[1], encoding="utf-8")
    (folder / "README.md").write_text(render(_PACKAGE, "together.md", view), encoding="utf-8")
    return [*names, "README.md"]


def _classes(chosen: str | None, count: int) -> Sequence[str | None]:
    """The names of the classes of models, None for those that are not chosen. Raises `UsageError`."""
    if chosen is None:
        return [None] * count
    names = chosen.split(",")
    if len(names) != count:
        raise UsageError(f"--set class= has {len(names)} names for {count} models: name one for each, like class=A,B")
    return names


def _require_apart(models: Sequence[Model]) -> None:
    """Raise `UsageError` for models whose classes are one and the same."""
    for what, found in (
        ("generate", [model.view["name"] for model in models if model.view["messages"]]),
        ("are dynamic", [model.view["name"] for model in models if model.view["instances"]]),
    ):
        if len(found) > 1:
            raise UsageError(f"{' and '.join(found)} {what}, and an AAR has one such model at most: build them apart")


def _view(models: Sequence[Model], name: str) -> dict[str, Any]:
    """What the texts of the archive say."""
    first = models[0].view
    own = {word: first[word] for word in ("package", "group", "release", "version", "devices", "url", "library", "jvm")}
    own |= {"on_gpu": any(model.view["on_gpu"] for model in models)}
    own |= {"messages": next((model.view["messages"] for model in models if model.view["messages"]), None)}
    parts = [{**model.view, **readme_view(model.view)} for model in models]
    return {**own, "prefix": name, "name": name, "parts": parts}
