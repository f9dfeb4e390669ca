"""Exports of public architectures by PyTorch's exporters, in many forms, and random batches for them.

`tests/ragged_models/export.py` made the files. All have the dims `batch` and `seq`, at most `LONGEST` tokens, and
padding at the end of each sequence.
"""

from __future__ import annotations

import lzma
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
import onnx
import onnxruntime

MODELS = Path(__file__).with_name("models")
LONGEST = 64
BOUNDS = {"batch": (1, 16), "seq": (1, LONGEST)}
RAGGED = {"seq": "batch"}

Arrays: TypeAlias = Mapping[str, np.ndarray]

MASKS = ("attention_mask", "sequence_lengths")
"""The inputs that say which positions are padding; a converted model does not have them."""

LEAKS = {
    "gpt2-classify": "it takes the scores of the last position whose id is not that of padding, whatever the mask says",
}
"""The architectures whose results depend on what padding holds."""

PER_POSITION = {"last_hidden_state", "token_embeddings", "token_logits", "start_logits", "end_logits"}
"""The outputs with one entry per position. `logits` are such an output for the architectures in `SCORES_OF_POSITIONS`.
The other outputs have one entry per sequence."""
CAUSAL = {
    "bloom",
    "gemma3",
    "gpt2",
    "gpt2-positions",
    "gpt-neox",
    "llama",
    "mistral-sliding",
    "opt",
    "qwen2",
    "qwen3",
}
"""The architectures in which a position sees only earlier ones."""
SCORES_OF_POSITIONS = {"bert-tokens", *CAUSAL}


@dataclass(frozen=True)
class Batch:
    """Sequences of different lengths: for each, the inputs without the mask."""

    instances: tuple[Arrays, ...]
    lengths: tuple[int, ...]

    def packed(self) -> dict[str, np.ndarray]:
        """The inputs of a converted model: all sequences one after the other, and `lengths`."""
        values = {name: np.concatenate([one[name] for one in self.instances]) for name in self.instances[0]}
        return {**values, "lengths": np.array(self.lengths, np.int64)}


def names() -> list[str]:
    return sorted(path.name.removesuffix(".onnx.xz") for path in MODELS.glob("*.onnx.xz"))


@cache
def read(name: str) -> onnx.ModelProto:
    return onnx.load_from_string(lzma.decompress((MODELS / f"{name}.onnx.xz").read_bytes()))


def architecture(name: str) -> str:
    return name.partition(".")[0]


def inputs(name: str) -> tuple[str, ...]:
    return tuple(value.name for value in read(name).graph.input)


def is_per_position(name: str, output: str) -> bool:
    return output in PER_POSITION or (output == "logits" and architecture(name) in SCORES_OF_POSITIONS)


def batch(name: str, lengths: Sequence[int], seed: int = 0) -> Batch:
    """A random batch for an export."""
    rng = np.random.default_rng(seed)
    given = [one for one in inputs(name) if one not in MASKS]
    return Batch(tuple({one: _values(one, length, rng) for one in given} for length in lengths), tuple(lengths))


def padded(name: str, batch: Batch, length: int, seed: int = 1) -> dict[str, np.ndarray]:
    """The inputs of the export itself for a batch. Each sequence is padded to `length` with random valid values."""
    rng = np.random.default_rng(seed)
    found = {}
    for one in inputs(name):
        if one == "attention_mask":
            found[one] = (np.arange(length) < np.array(batch.lengths)[:, None]).astype(np.int64)
        elif one == "sequence_lengths":
            found[one] = np.array(batch.lengths, np.int64)
        else:
            rows = []
            for instance, valid in zip(batch.instances, batch.lengths, strict=True):
                row = _values(one, length, rng)
                row[:valid] = instance[one]
                rows.append(row)
            found[one] = np.stack(rows)
    return found


def valid(name: str, outputs: Arrays, lengths: Sequence[int]) -> list[Arrays]:
    """For each sequence, the part of the export's outputs that is not padding."""
    return [
        {
            output: array[index, :length] if is_per_position(name, output) else array[index]
            for output, array in outputs.items()
        }
        for index, length in enumerate(lengths)
    ]


def reference(name: str, batch: Batch, length: int) -> list[Arrays]:
    """For each sequence, the valid part of what ONNX Runtime computes for the batch, padded to `length`."""
    return valid(name, run(name, padded(name, batch, length)), batch.lengths)


def run(name: str, given: Arrays) -> dict[str, np.ndarray]:
    """What ONNX Runtime computes."""
    outputs = [value.name for value in read(name).graph.output]
    return dict(zip(outputs, _session(name).run(outputs, dict(given)), strict=True))


@cache
def _session(name: str) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(read(name).SerializeToString(), options, providers=["CPUExecutionProvider"])


def _values(name: str, length: int, rng: np.random.Generator) -> np.ndarray:
    """Random valid values of an input for one sequence. No id is that of a token with a meaning, such as padding."""
    match name:
        case "input_ids":
            return rng.integers(3, 120, length)
        case "token_type_ids":
            return rng.integers(0, 2, length)
        case "position_ids":
            return np.arange(length)
        case "bbox":
            return np.sort(rng.integers(0, 128, (length, 2, 2)), axis=1).reshape(length, 4)
    return rng.standard_normal((length, 32), dtype=np.float32)
