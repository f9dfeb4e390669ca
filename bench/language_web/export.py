"""Makes of a GGUF file the folder that transformers.js is timed with.

    python -m bench.language_web.export MODEL.gguf FOLDER

It has ONNX Runtime GenAI's decoder twice: `model.onnx` with weights in 4 bits, `model_quantized.onnx` in 8 bits. Tables
of words stay in float32, because onnxruntime-web has no kernel for one in 4 bits.

Needs torch, transformers, gguf, accelerate, onnx and onnxruntime-genai.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from onnxruntime.quantization import QuantType, quantize_dynamic

BUILDER = "onnxruntime_genai.models.builder"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, metavar="MODEL.gguf")
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    given = parser.parse_args()
    with TemporaryDirectory() as scratch:
        source, whole = Path(scratch) / "source", Path(scratch) / "float32"
        write_folder(given.model, source)
        build(source, given.folder, "int4", "--extra_options", "shared_embeddings=false")
        build(source, whole, "fp32")
        quantize_dynamic(whole / "model.onnx", given.folder / "model_quantized.onnx", weight_type=QuantType.QInt8)
        shutil.copyfile(source / "config.json", given.folder / "config.json")


def build(source: Path, folder: Path, precision: str, *more: str) -> None:
    """The decoder of a Hugging Face folder."""
    call: list[str | Path] = [sys.executable, "-m", BUILDER, "-i", source, "-o", folder, "-p", precision, "-e", "cpu"]
    subprocess.run([*call, *more], check=True)


def write_folder(model: Path, folder: Path) -> None:
    """The model in float32 and its tokenizer, as a Hugging Face folder."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    place = {"pretrained_model_name_or_path": str(model.parent), "gguf_file": model.name}
    read = AutoModelForCausalLM.from_pretrained(**place, dtype=torch.float32)
    # What was read of a GGUF file cannot be saved; the same weights in a model of their own can.
    vars(read.config).pop("quantization_config", None)
    fresh = type(read)(read.config)
    fresh.load_state_dict(read.state_dict(), strict=False)
    fresh.tie_weights()
    fresh.save_pretrained(folder)
    AutoTokenizer.from_pretrained(**place).save_pretrained(folder)


if __name__ == "__main__":
    main()
