"""`import_exported`: a folder that transformers knows, exported to ONNX and imported from there.

PyTorch runs in a process of its own, which is offline. Its file is temporary: the weights stay mapped after it is
removed.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from dataclasses import replace
from pathlib import Path

import onnx_ir as ir

from deploykit.basics.parallel import run_program
from deploykit.basics.scratch import Scratch
from deploykit.compiler.model import DimBounds, ImportedModel
from deploykit.errors import UnsupportedModelError, UsageError
from deploykit.frontends.huggingface.folder import CONFIG, Folder
from deploykit.frontends.onnx import load_onnx
from deploykit.frontends.onnx.importer import Finish
from deploykit.frontends.onnx.reader import read
from deploykit.frontends.torch.facts import FACTS, MODEL, Facts, read_facts

NEEDED = ("torch", "transformers", "onnxscript", "onnxruntime")
INSTALL = "pip install 'deploykit[torch]'"

PLACES = (str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", ""))
VARIABLES = {"HF_HUB_OFFLINE": "1", "PYTHONPATH": os.pathsep.join(filter(None, PLACES))}
"""What the process with PyTorch gets: this package, and no downloads. Its temporary files are beside its results."""

ADAPTER, CODE = "adapter_config.json", "auto_map"

SEQ = "seq"
"""The dim of the length of texts."""


def missing_packages() -> list[str]:
    """The packages that the route needs and this Python lacks."""
    return [name for name in NEEDED if importlib.util.find_spec(name) is None]


def import_exported(folder: Folder, dims: DimBounds, finish: Finish | None = None) -> tuple[ImportedModel, Facts]:
    """Export a folder, and import the result with `dims` pinned or bounded. With `finish`, which computes the outputs,
    the states of tokens are the only output of the exported model.

    Raises `UnsupportedModelError` if no exporter writes a file that computes the same, or the importer refuses it, and
    `UsageError` for dims that the model does not have."""
    if (folder.path / ADAPTER).exists():
        raise UnsupportedModelError(f"{folder.path} is an adapter of another model ({ADAPTER}): merge and save the two")
    with Scratch() as place:
        output = Path(place)
        options = [] if finish is None else ["--pooled"]
        options += [f"--fixed={name}={size}" for name, size in dims.items() if isinstance(size, int)]
        asked = dims.get(SEQ)
        if isinstance(asked, tuple) and asked[1] is not None:
            options.append(f"--longest={asked[1]}")
        call = [sys.executable, "-P", "-m", "deploykit.frontends.torch", str(folder.path.resolve()), place, *options]
        result = run_program(call, VARIABLES | {"TMPDIR": place})
        if not (output / FACTS).exists():
            last = next(reversed(result.stderr.strip().splitlines()), "")
            why = f"ended with code {result.returncode}: {last}"
            raise UnsupportedModelError(f"{folder.path} cannot be exported: the process with PyTorch {why}")
        return import_export(folder, output, dims, finish)


def import_export(
    folder: Folder, export: Path, dims: DimBounds, finish: Finish | None = None
) -> tuple[ImportedModel, Facts]:
    """Import what an export of `folder` wrote to the folder `export`. Raises as `import_exported`."""
    facts = read_facts(export)
    if facts.error:
        raise UnsupportedModelError(f"{folder.path} cannot be exported: {facts.error}")
    source = read(export / MODEL)
    named = {dim.value for value in source.graph.inputs for dim in value.shape or () if isinstance(dim, ir.SymbolicDim)}
    limits = {name: bounds for name, bounds in facts.bounds.items() if name in named}
    if unknown := dims.keys() - facts.bounds.keys():
        raise UsageError(f"the model has no dim '{min(unknown)}'; it has {', '.join(limits) or 'none'}")
    bounds = {name: _within(name, dims.get(name, limits[name]), *limits[name]) for name in limits}
    model = load_onnx(source, bounds, name=folder.path.resolve().name, finish=finish)
    notes = [f"exported from transformers' {facts.kind} by {facts.exporter}"]
    if folder.config.get(CODE):
        notes.append(f"the folder has code of its own ({CODE} in {CONFIG}), which is not run: transformers' code is")
    if facts.unread:
        notes.append(f"{facts.kind} has no use for weights of the folder, such as {', '.join(facts.unread)}")
    return replace(model, notes=(*model.notes, *notes)), facts


def _within(
    name: str, asked: int | tuple[int, int | None], least: int, most: int | None
) -> int | tuple[int, int | None]:
    """What is asked for a dim, within the sizes at which the export is known to be right."""
    low, high = (asked, asked) if isinstance(asked, int) else asked
    high = most if high is None else high
    if high is not None and (high < least or (most is not None and high > most)):
        limit = f"at least {least}" if most is None else f"in {least}..{most}"
        raise UsageError(f"'{name}' is {limit} in this model")
    return asked if isinstance(asked, int) else (max(low, least), high)
