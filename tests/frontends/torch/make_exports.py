"""Exports tiny models for the tests: `python -m tests.frontends.torch.make_exports`. Needs PyTorch and transformers.

An export is a folder in one file, `NAME.zip`: the configuration, the shapes of the weights (their values are seeded),
what the process with PyTorch wrote, and the results of eager mode at the sizes at which exports are compared.
"""

from __future__ import annotations

import json
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors import safe_open

from deploykit.frontends.torch.__main__ import exported, interfaces
from deploykit.frontends.torch.facts import FACTS, MODEL
from deploykit.frontends.torch.inputs import longest_text
from deploykit.frontends.torch.loading import load
from tests.frontends.huggingface.seeds import write_folder
from tests.frontends.torch.exports import CASES, EXPORTS, TEXT


def make(name: str) -> None:
    architecture, settings = CASES[name]
    kind = getattr(transformers, architecture)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        torch.manual_seed(0)
        kind(kind.config_class(**TEXT, **settings)).save_pretrained(folder)
        entries = json.loads((folder / "config.json").read_text())
        with safe_open(folder / "model.safetensors", "np") as file:
            shapes = {key: file.get_slice(key).get_shape() for key in file.keys()}  # noqa: SIM118 - not a mapping
        write_folder(folder, entries, shapes)
        pooled = name.endswith("states")
        exported(folder, folder / MODEL, pooled=pooled).write(folder)
        arrays: dict[str, np.ndarray] = {}
        loaded = load(folder, "eager", pooled=pooled)
        inputs, _, found = next(interfaces(loaded, longest_text(loaded.model), [], pooled=pooled))
        for number, round_ in enumerate(found):
            given = {one.name: tensor.numpy() for one, tensor in zip(inputs, round_.inputs, strict=True)}
            arrays |= {f"{number}/in/{key}": value.astype(np.int16) for key, value in given.items()}
            arrays |= {f"{number}/out/{key}": value for key, value in round_.expected.items()}
        np.savez(folder / "results.npz", **arrays)
        (folder / "shapes.json").write_text(json.dumps(shapes))
        with zipfile.ZipFile(EXPORTS / f"{name}.zip", "w", zipfile.ZIP_LZMA) as file:
            for part in ("config.json", "shapes.json", MODEL, FACTS, "results.npz"):
                file.write(folder / part, part)


if __name__ == "__main__":
    EXPORTS.mkdir(exist_ok=True)
    for each in CASES:
        make(each)
        print(each, (EXPORTS / f"{each}.zip").stat().st_size)
