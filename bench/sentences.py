"""Times text to vector: sentences of mixed lengths through a sentence encoder, tokenization included.

    python -m bench.sentences FOLDER --export model.onnx      once; needs torch and transformers
    python -m bench.sentences FOLDER --onnx model.onnx [--threads N] [--count N] [--rounds N]

FOLDER is a Hugging Face folder such as all-MiniLM-L6-v2. The peer is ONNX Runtime with the library tokenizers, as
sentence-transformers runs it: texts sorted by length, in padded batches of 32. A second peer has the batch that is best
here. All sides take turns in one process, and medians count. The vectors are compared first. The sentences are from
the documentation of Python's syntax, which every Python has.
"""

from __future__ import annotations

import argparse
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np

import deploykit
from deploykit.cli.console import results, table

BATCHES = (8, 16, 32, 64, 128)
USUAL = 32
"""The batch of sentence-transformers."""

TOLERANCE = 1e-4

Side = Callable[[Sequence[str]], np.ndarray]


def main() -> None:
    arguments = _arguments()
    if arguments.export is not None:
        export(arguments.folder, arguments.export)
        return
    texts = sentences(arguments.count)
    with tempfile.TemporaryDirectory() as scratch:
        deploykit.build(arguments.folder, output=Path(scratch) / "dist")
        with deploykit.open(Path(scratch) / "dist", threads=arguments.threads) as session:
            sides: dict[str, Side] = {"deploykit": session.embed}
            sides |= {
                f"onnxruntime, batches of {size}": onnxruntime(
                    arguments.folder, arguments.onnx, size, arguments.threads, session.texts.task.most_tokens
                )
                for size in BATCHES
            }
            report(texts, sides, arguments.rounds)


def sentences(count: int) -> list[str]:
    """The same sentences every time, in random order."""
    found = [" ".join(each.split()) for text in topics.values() for each in re.split(r"(?<=[.!?])\s+(?=[A-Z])", text)]
    unique = [each for each in dict.fromkeys(found) if 10 < len(each) < 600]
    return [unique[index] for index in np.random.default_rng(0).permutation(len(unique))[:count]]


def onnxruntime(folder: Path, model: Path, batch: int, threads: int, most: int | None) -> Side:
    """Texts to vectors with ONNX Runtime: sorted by length, in padded batches."""
    import onnxruntime as ort
    from tokenizers import Tokenizer

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_padding()
    tokenizer.enable_truncation(most or 512)

    def embed(texts: Sequence[str]) -> np.ndarray:
        order = sorted(range(len(texts)), key=lambda index: -len(texts[index]))
        found = np.empty((len(texts), 0), np.float32)
        for start in range(0, len(texts), batch):
            part = order[start : start + batch]
            encodings = tokenizer.encode_batch([texts[index] for index in part])
            ids, mask, types = (
                np.array([getattr(each, name) for each in encodings], np.int64)
                for name in ("ids", "attention_mask", "type_ids")
            )
            (hidden,) = session.run(None, {"input_ids": ids, "attention_mask": mask, "token_type_ids": types})
            mean = (hidden * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
            vectors = mean / np.linalg.norm(mean, axis=1, keepdims=True)
            found = found if found.size else np.empty((len(texts), vectors.shape[1]), np.float32)
            found[part] = vectors
        return found

    return embed


def report(texts: Sequence[str], sides: dict[str, Side], rounds: int) -> None:
    first, *others = sides
    expected = sides[first](texts)
    for name in others:
        worst = float(np.abs(sides[name](texts) - expected).max())
        if worst > TOLERANCE:
            raise SystemExit(f"{name} gives other vectors: they differ by up to {worst:.2g}")
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            start = time.perf_counter()
            side(texts)
            times[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(values) for name, values in times.items()}
    rows = table("side", ">seconds", ">texts per second", f">time over {first}")
    for name, seconds in medians.items():
        rows.add_row(name, f"{seconds:.2f}", f"{len(texts) / seconds:.0f}", f"{seconds / medians[first]:.2f}")
    results.print(rows)


def export(folder: Path, path: Path) -> None:
    """The encoder of the folder, up to the states of tokens, as torch.onnx exports it."""
    import torch
    from transformers import AutoModel

    class States(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()

        def forward(
            self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor
        ) -> object:
            return self.model(input_ids, attention_mask, token_type_ids).last_hidden_state

    names = ["input_ids", "attention_mask", "token_type_ids"]
    dims = {name: {0: "batch", 1: "seq"} for name in names}
    given = tuple(torch.ones(2, 8, dtype=torch.int64) for _ in names)
    torch.onnx.export(
        States(), given, str(path), input_names=names, output_names=["y"], dynamic_axes=dims, dynamo=False
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Time text to vector.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--export", type=Path, help="write the peer's model and stop")
    parser.add_argument("--onnx", type=Path, help="the peer's model")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000, help="sentences")
    parser.add_argument("--rounds", type=int, default=5)
    found = parser.parse_args()
    if found.export is None and found.onnx is None:
        parser.error("give the peer's model with --onnx, or make it with --export")
    return found


if __name__ == "__main__":
    main()
