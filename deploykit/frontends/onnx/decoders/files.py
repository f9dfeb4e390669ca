"""Folders of exporters: which file is the decoder, and what lies beside it.

genai_config.json, MODEL.onnx, tokenizer.json ...          ONNX Runtime GenAI
config.json, model.onnx, tokenizer.json ...                optimum
config.json, onnx/model.onnx, tokenizer.json ...           the same for transformers.js
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deploykit.errors import UsageError
from deploykit.frontends.huggingface.folder import CONFIG, INDEX, WEIGHTS, Config, Folder, inside, read_json

GENAI = "genai_config.json"

NAMES = ("decoder_model_merged.onnx", "model.onnx")
SUBFOLDER = "onnx"


def model_in(folder: Path) -> Path | None:
    """The ONNX file of a decoder's folder; None if it is none, or has weights of its own. Raises `UsageError` for a
    configuration that is damaged."""
    if any((folder / name).exists() for name in (WEIGHTS, INDEX)):
        return None
    if (folder / GENAI).is_file():
        name = _genai(folder).get("decoder", {}).get("filename")
        if not isinstance(name, str):
            raise UsageError(f"{folder / GENAI} names no file of a decoder")
        return inside(folder, name)
    if not (folder / CONFIG).is_file():
        return None
    places = [folder / name for name in NAMES] + [folder / SUBFOLDER / name for name in NAMES]
    return next((place for place in places if place.is_file()), None)


def folder_of(path: Path) -> Folder:
    """What lies beside the file of a decoder: configurations and a tokenizer, without weights."""
    home = path.parent
    if home.name == SUBFOLDER and not (home / CONFIG).exists():
        home = home.parent
    entries: dict[str, Any] = {}
    if (home / CONFIG).is_file():
        found = read_json(home / CONFIG)
        if not isinstance(found, dict):
            raise UsageError(f"{home / CONFIG} is no JSON object")
        entries = found
    if (home / GENAI).is_file():
        genai = _genai(home)
        known = {"eos_token_id": genai.get("eos_token_id"), "max_position_embeddings": genai.get("context_length")}
        entries = {name: value for name, value in known.items() if value is not None} | entries
    return Folder(home, Config(home / (CONFIG if (home / CONFIG).is_file() else GENAI), entries), {}, ())


def longest_of(folder: Folder) -> int | None:
    """The most tokens of a text that the configuration says; None if it does not."""
    names = ("max_position_embeddings", "n_positions", "n_ctx")
    found = next((folder.config[name] for name in names if folder.config.get(name) is not None), None)
    if found is not None and (not isinstance(found, int) or found < 1):
        raise UsageError(f"{folder.config.path} says {found!r:.40} for the most tokens of a text")
    return found


def _genai(folder: Path) -> dict[str, Any]:
    found = read_json(inside(folder, GENAI))
    model = found.get("model") if isinstance(found, dict) else None
    if not isinstance(model, dict):
        raise UsageError(f"{folder / GENAI} has no 'model'")
    return model
