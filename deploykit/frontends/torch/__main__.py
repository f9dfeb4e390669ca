"""The process that has PyTorch: `python -m deploykit.frontends.torch FOLDER OUTPUT [OPTIONS]`.

Writes `model.onnx` and `facts.json` to OUTPUT. With `--pooled`, the states of tokens are the only output. With
`--longest N`, a text has at most N tokens; with `--fixed NAME=N`, a dim has one size. The importer starts it, offline;
it is a process of its own, so that its memory is free before the compiler runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import transformers

from deploykit.errors import DeploykitError, UnsupportedModelError, UsageError
from deploykit.frontends.huggingface.folder import read_folder
from deploykit.frontends.huggingface.pictures import prepared_size
from deploykit.frontends.torch.exporting import EXPORTERS, NotExportedError, Round, export, pads, run_rounds
from deploykit.frontends.torch.facts import MODEL, Facts
from deploykit.frontends.torch.flat import Flat
from deploykit.frontends.torch.inputs import Input, longest_text, picture_size, proposals, rounds, words
from deploykit.frontends.torch.loading import Loaded, first, load

ATTENTION = ("sdpa", "eager")
"""Implementations of attention, in the order in which they are tried; models may lack the first one."""

STATES = "last_hidden_state"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--pooled", action="store_true")
    parser.add_argument("--longest", type=int)
    parser.add_argument("--fixed", action="append", default=[])
    given = parser.parse_args()
    fixed = {name: int(size) for name, size in (entry.split("=") for entry in given.fixed)}
    transformers.logging.set_verbosity_error()
    try:
        facts = exported(given.folder, given.output / MODEL, pooled=given.pooled, longest=given.longest, fixed=fixed)
    except DeploykitError as error:
        facts = Facts(error=str(error))
    facts.write(given.output)


def exported(
    folder: Path, path: Path, *, pooled: bool, longest: int | None = None, fixed: Mapping[str, int] | None = None
) -> Facts:
    """Export the first interface that works by the first exporter that works, with sizes for the dims that are `fixed`.
    Raises `UnsupportedModelError` with what was tried."""
    prepared = prepared_size(read_folder(folder))
    fixed = fixed or {}
    reasons: list[str] = []
    loaded, not_loaded = None, ""
    for attention in ATTENTION:
        try:
            loaded = load(folder, attention, pooled=pooled)
        except UnsupportedModelError as error:
            not_loaded = str(error)
            continue
        limit = min((most for most in (longest_text(loaded.model), longest) if most is not None), default=None)
        if limit is not None and fixed.get("seq", 0) > limit:
            raise UsageError(f"'seq' is in 1..{limit} in this model")
        for inputs, flat, found in interfaces(loaded, limit, reasons, pooled=pooled, prepared=prepared, fixed=fixed):
            for exporter in EXPORTERS:
                try:
                    export(flat, inputs, found, exporter, path)
                except NotExportedError as error:
                    reasons.append(str(error))
                    continue
                return _facts(loaded, flat, inputs, found, exporter, limit)
    nothing = "no input of it is known" if loaded else not_loaded
    raise UnsupportedModelError("; ".join(dict.fromkeys(reasons)) or nothing)


def interfaces(
    loaded: Loaded,
    longest: int | None,
    reasons: list[str],
    *,
    pooled: bool,
    prepared: tuple[int, int] | None = None,
    fixed: Mapping[str, int] | None = None,
) -> Iterator[tuple[tuple[Input, ...], Flat, list[Round]]]:
    """The interfaces that the model takes, with its results for texts of at most `longest` tokens; `reasons` receives
    why it does not take the others, if it takes none."""
    sizes = rounds(picture_size(loaded.model.config, prepared)[0], longest, prepared)
    refused: list[str] = []
    taken = False
    for proposal in proposals(loaded.model, prepared):
        inputs = tuple(replace(one, fixed=fixed or {}) for one in proposal)
        flat = Flat(loaded.model, [one.name for one in inputs], STATES if pooled else None)
        try:
            found = run_rounds(flat, inputs, sizes)
        except Exception as error:  # noqa: BLE001  a model may raise any exception
            refused.append(f"it does not take {', '.join(one.name for one in inputs)}: {first(error)}")
            continue
        taken = True
        yield inputs, flat, found
    if not taken:
        reasons += refused[-1:]


def _facts(
    loaded: Loaded,
    flat: Flat,
    inputs: Sequence[Input],
    found: Sequence[Round],
    exporter: str,
    longest: int | None,
) -> Facts:
    used = {name: None for one in inputs for name in one.dims().values()}
    least = {name: min(round_.sizes[name] for round_ in found) for name in used}
    most = {"seq": longest}
    return Facts(
        kind=type(loaded.model).__name__,
        exporter=exporter,
        bounds={
            **{name: (size, size) for one in inputs for name, size in one.fixed.items() if name in one.shape},
            **{name: (least[name], most.get(name)) for name in used},
        },
        words=words(loaded.model) if any(one.kind == "ids" for one in inputs) else 0,
        unread=loaded.unread,
        padding=pads(flat, inputs),
    )


if __name__ == "__main__":
    main()
