"""Export cases of the zoo: `python -m tests.zoo.export FOLDER NAME.EXPORTER ...`. Needs PyTorch and transformers.

Each export gets a folder `NAME.EXPORTER` with

    model.onnx     the file as the exporter wrote it
    data.npz       for every round, the inputs and the results of PyTorch in float32 and in float64
    export.json    the outcome; the only file of an export that failed
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from tests.zoo import forked, packages, tabular
from tests.zoo.architectures import CASES
from tests.zoo.case import ROUNDS, TRACED, Case, Input

EXPORTERS = ("dynamo", "legacy")
Arrays: TypeAlias = Mapping[str, np.ndarray]
LIMITS = forked.Limits(seconds=240, bytes=8 << 30)


def export(case: Case, exporter: str, folder: Path) -> dict[str, Any]:
    """Write the export of `case` to `folder`; returns the outcome."""
    import torch

    from tests.zoo import modules

    began = time.process_time()
    attention = None
    model = modules.make(case)
    inputs = case.inputs if case.form == "plain" else (*case.inputs, *modules.caches(case, model))
    flat = modules.Flat(case, model, inputs)
    arrays = {number: case.samples(number, inputs) for number in (*range(ROUNDS), TRACED)}
    stored: dict[str, np.ndarray] = {}
    with torch.no_grad():
        for number in range(ROUNDS):
            results = flat(*modules.tensors(arrays[number]))
            stored |= _stored(number, "input", arrays[number])
            stored |= _stored(number, "float32", dict(zip(flat.output_names, _arrays(results), strict=True)))
        traced = modules.tensors(arrays[TRACED])
        path = folder / "model.onnx"
        try:
            _write(flat, exporter, traced, inputs, path)
        except Exception:
            if exporter != "legacy":
                raise
            attention = "eager"
            flat = modules.Flat(case, modules.make(case, attention), inputs)
            flat(*traced)
            _write(flat, exporter, traced, inputs, path)
        double = _double(case, inputs, arrays)
    for number, results in double.items():
        stored |= _stored(number, "float64", results)
    np.savez_compressed(folder / "data.npz", **stored)
    return {
        "seconds": round(time.process_time() - began, 2),
        "inputs": [asdict(one) for one in inputs],
        "outputs": flat.output_names,
        "attention": attention or "default",
        "dims": sorted({name for one in inputs for name in one.dynamic.values()}),
        "torch": torch.__version__,
    }


def _double(
    case: Case, inputs: tuple[Input, ...], arrays: Mapping[int, Mapping[str, np.ndarray]]
) -> dict[int, dict[str, np.ndarray]]:
    """The results in float64; empty for a model that only runs in float32."""
    import torch

    from tests.zoo import modules

    flat = modules.Flat(case, modules.make(case).double(), inputs)
    try:
        with torch.no_grad():
            return {
                number: dict(zip(flat.output_names, _arrays(results), strict=True))
                for number in range(ROUNDS)
                for results in [flat(*modules.tensors(arrays[number], torch.float64))]
            }
    except RuntimeError:
        return {}


def _write(flat: Any, exporter: str, traced: tuple[Any, ...], inputs: tuple[Input, ...], path: Path) -> None:
    import torch

    names = [one.name for one in inputs]
    if exporter == "legacy":
        axes = {one.name: one.dynamic for one in inputs if one.dynamic}
        torch.onnx.export(
            flat,
            traced,
            path,
            dynamo=False,
            input_names=names,
            output_names=flat.output_names,
            dynamic_axes=axes,
            opset_version=18,
        )
    else:
        shapes = (tuple(one.dynamic or None for one in inputs),)
        torch.onnx.export(
            flat,
            traced,
            path,
            dynamo=True,
            input_names=names,
            output_names=flat.output_names,
            dynamic_shapes=shapes,
            external_data=False,
            verbose=False,
        )


def _arrays(results: tuple[Any, ...]) -> list[np.ndarray]:
    return [result.detach().numpy() for result in results]


def _stored(number: int, what: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {f"{number}/{what}/{name}": array for name, array in arrays.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("exports", nargs="+", metavar="NAME.EXPORTER")
    options = parser.parse_args()
    _prepare()
    for title in options.exports:
        name, _, exporter = title.rpartition(".")
        folder = options.folder / title
        folder.mkdir(parents=True, exist_ok=True)
        if exporter in EXPORTERS:
            work = partial(export, CASES[name], exporter)
        else:
            work = partial((packages if exporter == packages.EXPORTER else tabular).export, name)
        found = forked.run(partial(work, folder), folder / "export.log", LIMITS)
        if "error" in found:
            (folder / "model.onnx").unlink(missing_ok=True)
        (folder / "export.json").write_text(json.dumps(found, indent=1))
        print(f"{title}: {found.get('error', 'exported').splitlines()[0][:160]}", file=sys.stderr, flush=True)


def _prepare() -> None:
    """Import the modules that every export needs, and use one thread, because threads do not survive a fork."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    warnings.simplefilter("ignore")
    import onnxscript  # noqa: F401
    import torch
    import torch.onnx
    import transformers

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()


if __name__ == "__main__":
    main()
