"""Builds the folder of one tiny model, and compares its artifact with transformers in eager mode."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

import deploykit
from deploykit.errors import DeploykitError, ShapeError, UnsupportedModelError
from deploykit.folders.texts import of_texts
from deploykit.frontends.huggingface.folder import read_folder
from deploykit.frontends.huggingface.importer import Imported, import_folder
from deploykit.frontends.torch.__main__ import exported, interfaces
from deploykit.frontends.torch.exporting import Round, distance, run_rounds
from deploykit.frontends.torch.facts import MODEL
from deploykit.frontends.torch.flat import Flat
from deploykit.frontends.torch.importer import import_export
from deploykit.frontends.torch.inputs import IDS, MASK, longest_text
from deploykit.frontends.torch.loading import load
from tests.zoo.architectures.decoders import GROUPED
from tests.zoo.architectures.text import TINY
from tests.zoo.case import Case
from tests.zoo.modules import make
from tools.models.page import Row

TOLERANCE = 1e-4
"""The largest difference that is right, relative to the largest value of the output, or to 1 if that is more."""


def survey(case: Case) -> dict[str, Any]:
    """The row of a case, as JSON."""
    with tempfile.TemporaryDirectory() as place:
        return asdict(_survey(case, Path(place)))


def _survey(case: Case, place: Path) -> Row:
    model = make(case)
    folder, dist = place / "model", place / "dist"
    model.save_pretrained(folder)
    _without_strangers(folder / "config.json", model.config)
    row = {"case": case.name, "group": case.family, "name": type(model).__name__, "type": model.config.model_type}
    try:
        found, exporter = _imported(folder, place)
    except DeploykitError as error:
        return Row(**row, status="refused", reason=str(error))
    text = MASK in {port.name for port in found.model.inputs} <= {IDS, MASK, "token_type_ids"}
    if text:
        found = of_texts(found, {}, None)
    deploykit.build(found.model, output=dist)
    ragged = any(port.instance is not None for port in found.model.inputs)
    facts = {
        **row,
        "route": found.route,
        "exporter": exporter,
        "texts": ("ragged" if ragged else "padded") if text else "",
        "inputs": {port.name: f"[{', '.join(map(str, port.instance or port.shape))}]" for port in found.model.inputs},
        "outputs": tuple(port.name for port in found.model.outputs),
        "reason": found.reason if found.route == "torch" else "",
    }
    with deploykit.open(dist) as session:
        return _compared(facts, session, folder, ragged=ragged, valid_only=found.route == "own")


def _without_strangers(path: Path, config: Any) -> None:
    """Delete entries of the zoo's usual configurations that this type does not have."""
    known = type(config)().to_dict()
    entries = json.loads(path.read_text())
    kept = {key: value for key, value in entries.items() if key in known or key not in {**TINY, **GROUPED}}
    path.write_text(json.dumps(kept))


def _imported(folder: Path, place: Path) -> tuple[Imported, str]:
    """The model by the first route that covers it, as `import_folder` does it, but within this process."""
    try:
        return import_folder(folder, route="own"), ""
    except UnsupportedModelError as error:
        reason = str(error)
    output = place / "export"
    output.mkdir()
    exported(folder, output / MODEL, pooled=False).write(output)
    read = read_folder(folder)
    model, facts = import_export(read, output, {})
    shutil.rmtree(output)
    return Imported(model, read, "torch", reason, facts.words), facts.exporter


def _compared(facts: dict[str, Any], session: Any, folder: Path, *, ragged: bool, valid_only: bool) -> Row:
    ports = session.manifest.inputs
    names = {port.name for port in ports if port.instance is not None or not ragged} | ({MASK} if ragged else set())
    worst, sizes, reason = 0.0, 0, ""
    for round_, given in _rounds(folder, names):
        try:
            results = _run(session, given, ragged=ragged)
        except ShapeError as error:
            reason = str(error)
            continue
        sizes += 1
        for name, actual in results.items():
            there = name if name in round_.expected else f"encoder_{name}"
            expected = round_.expected[there]
            mask = given.get(MASK)
            if (ragged or valid_only) and mask is not None and expected.shape[:2] == mask.shape:
                expected = expected[mask.astype(bool)]
                rows = actual[mask.astype(bool)] if isinstance(actual, np.ndarray) else np.concatenate(list(actual))
                error = _error(rows, expected)
            else:
                error = _error(np.asarray(actual), expected)
                if TOLERANCE < error < np.inf:
                    error = _error(np.where(round_.steady[there], actual, expected), expected)
            if not error <= TOLERANCE:
                where = ", ".join(f"{dim}={size}" for dim, size in round_.sizes.items())
                reason = f"'{name}' differs by {error:.1e} at {where}"
            worst = max(worst, error)
    if not sizes:
        return Row(**{**facts, "status": "refused", "reason": reason or "no sizes in common"})
    if not worst <= TOLERANCE:
        return Row(**{**facts, "status": "wrong", "error": worst, "reason": reason}, sizes=sizes)
    return Row(**facts, status="right", error=worst, sizes=sizes)


def _rounds(folder: Path, names: set[str]) -> Iterator[tuple[Round, dict[str, np.ndarray]]]:
    """The results of eager mode, but at the traced sizes, and the inputs of the artifact for them."""
    loaded = load(folder, "eager", pooled=False)
    with torch.no_grad():
        for taken, _, found in interfaces(loaded, longest_text(loaded.model), [], pooled=False):
            if names <= {one.name for one in taken}:
                inputs = [one for one in taken if one.name in names]
                if MASK not in names and any(one.name == MASK for one in taken):  # without it, every token counts
                    flat, sizes = Flat(loaded.model, [one.name for one in inputs]), [one.sizes for one in found]
                    rounds = run_rounds(flat, inputs, sizes)
                else:
                    inputs, rounds = list(taken), found
                for round_ in rounds[1:]:
                    arrays = {one.name: x.numpy() for one, x in zip(inputs, round_.inputs, strict=True)}
                    yield round_, {name: arrays[name] for name in names}
                return


def _run(session: Any, given: Mapping[str, np.ndarray], *, ragged: bool) -> Mapping[str, Any]:
    if not ragged:
        return dict(session(**given))
    mask = given[MASK].astype(bool)
    texts = {
        name: [row[valid] for row, valid in zip(x, mask, strict=True)] for name, x in given.items() if name != MASK
    }
    return dict(session(**texts))


def _error(actual: np.ndarray, expected: np.ndarray) -> float:
    return distance(actual, expected) * min(1.0, float(np.abs(expected).max(initial=0)))
