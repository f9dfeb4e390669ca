"""The files that the sides load: one folder is served, with each package and model under a name of its own."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Iterable
from pathlib import Path

import onnx

HERE = Path(__file__).parent
DATA = ("weights/", "tokenizer.bin", "peer/", ".gguf", "sides.mjs", "blank.html")
"""Parts of the paths of files that are no code: weights and vocabularies, and the page of this benchmark."""

MODELS = {"q4": ("model.onnx", "model_q4.onnx"), "q8": ("model_quantized.onnx", "model_quantized.onnx")}
"""Files by their dtype: the name as they were written, and the one that transformers.js expects."""


def link(source: Path, place: Path) -> None:
    """Let `place` lead to `source`."""
    place.unlink(missing_ok=True)
    place.symlink_to(source.resolve(), target_is_directory=source.is_dir())


def write_transformers(source: Path, place: Path) -> list[str]:
    """The folder that transformers.js loads, of decoders by ONNX Runtime GenAI: the same models under the names that it
    expects, and with the size of a head, which it needs to make empty keys and values. Gives the dtypes that it has."""
    shutil.rmtree(place, ignore_errors=True)
    (place / "onnx").mkdir(parents=True)
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(source / name, place / name)
    size = json.loads((source / "genai_config.json").read_text())["model"]["decoder"]["head_size"]
    found = [dtype for dtype, (name, _) in MODELS.items() if (source / name).exists()]
    for name, expected in (MODELS[dtype] for dtype in found):
        model = onnx.load(source / name, load_external_data=False)
        for port in (*model.graph.input, *model.graph.output):
            if port.name.startswith(("past_key_values.", "present.")):
                port.type.tensor_type.shape.dim[3].dim_value = size
        data = f"{expected}_data"
        for entry in (entry for tensor in model.graph.initializer for entry in tensor.external_data):
            if entry.key == "location" and entry.value != data:
                shutil.copyfile(source / entry.value, place / "onnx" / data)
                entry.value = data
        onnx.save(model, place / "onnx" / expected)
    return found


def code_bytes(folder: Path, requested: Iterable[str]) -> int:
    """Bytes with gzip of the code among the files that a page has requested."""
    names = {name for name in requested if not any(part in name for part in DATA)}
    return sum(len(gzip.compress((folder / name).read_bytes())) for name in names if (folder / name).is_file())
