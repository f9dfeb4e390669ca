"""The interface of a frontend, the registered ones, and the choice of one for a source.

A frontend is registered as an entry point of the group `deploykit.frontends`, in this package or in another one. Its
module imports neither the compiler nor large packages until it loads a model: the command line asks every frontend for
its options.
"""

from __future__ import annotations

import sys
from enum import IntEnum
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from deploykit.errors import UsageError

if TYPE_CHECKING:
    from deploykit.compiler.model import DimBounds, ImportedModel

GROUP = "deploykit.frontends"


class Certainty(IntEnum):
    """How sure a frontend is that a source is of its kind."""

    NO = 0
    POSSIBLE = 1
    """Nothing speaks against it; the error of its loader says best what is wrong."""
    LIKELY = 2
    """By its name."""
    CERTAIN = 3
    """By what it is or holds."""


class Frontend(Protocol):
    """One kind of source. `name` is short, `description` is as in "model.onnx is an ONNX file". `form` is how a source
    is written on the command line, empty if it cannot be. `Options` is a frozen dataclass whose fields are made by
    `deploykit.options.option`. `unchecked` says why ONNX Runtime cannot compute the same model, if so."""

    name: str
    description: str
    form: str
    Options: type[Any]
    unchecked: str | None

    def recognises(self, source: object) -> Certainty:
        """Whether `source` is of this kind. Nothing of it is run, and no more is read than that takes."""
        ...

    def load(self, source: Any, dims: DimBounds, options: Any) -> ImportedModel:
        """Import a source with these bounds of dims. `options` is of the type `Options`.

        Raises `UsageError` and `UnsupportedModelError`."""
        ...

    def file(self, source: Any) -> Path | None:
        """The file that stands for the source in a manifest, if there is one."""
        ...


def frontends() -> dict[str, Frontend]:
    """Every registered frontend by name, sorted."""
    entries = _entries(tuple(sys.path))
    return {name: _made(entries[name]) for name in sorted(entries)}


def find_frontend(source: object) -> Frontend:
    """The frontend that is most certain of a source. Raises `UsageError` if none takes it."""
    known = frontends().values()
    best = max(known, key=lambda frontend: frontend.recognises(source), default=None)
    if best is None or best.recognises(source) is Certainty.NO:
        *kinds, last = [frontend.description for frontend in known] or ["nothing: no frontend is installed"]
        raise UsageError(f"a model is {' or '.join(filter(None, [', '.join(kinds), last]))}; found {_named(source)}")
    return best


def named(source: object, frontend: Frontend) -> str:
    """A source in a sentence: "model.onnx, an ONNX file,"."""
    return f"{source}, {frontend.description}," if isinstance(source, str | Path) else frontend.description


def _named(source: object) -> str:
    return f"'{source}'" if isinstance(source, str | Path) else type(source).__name__


@cache
def _entries(path: tuple[str, ...]) -> dict[str, EntryPoint]:  # noqa: ARG001
    """The frontends that packages on `path` register; `path` is `sys.path`, so that a changed one is read again."""
    return {entry.name: entry for entry in entry_points(group=GROUP)}


@cache
def _made(entry: EntryPoint) -> Frontend:
    found: Frontend = entry.load()()
    return found
