"""GGUF files of the shapes of known language models, with random weights in few bits: both sides of a benchmark read
the same bytes, and nothing is downloaded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Format
from gguf import GGUFWriter

SCALE = 0.004
"""The scale of a group: with codes of 4 bits, weights have a standard deviation of about 0.02."""


@dataclass(frozen=True)
class Shape:
    """`heads` are those of queries and of keys, each with `size` channels. Words and scores of words share a table."""

    architecture: gguf.MODEL_ARCH
    layers: int
    hidden: int
    inner: int
    heads: tuple[int, int]
    size: int
    words: int
    base: float

    def matrices(self) -> Iterator[tuple[str, int, int]]:
        """The name, rows and columns of each weight that has few bits."""
        queries, keys = (heads * self.size for heads in self.heads)
        yield "token_embd", self.words, self.hidden
        for layer in range(self.layers):
            for name, rows, columns in (
                ("attn_q", queries, self.hidden),
                ("attn_k", keys, self.hidden),
                ("attn_v", keys, self.hidden),
                ("attn_output", self.hidden, queries),
                ("ffn_gate", self.inner, self.hidden),
                ("ffn_up", self.inner, self.hidden),
                ("ffn_down", self.hidden, self.inner),
            ):
                yield f"blk.{layer}.{name}", rows, columns

    def norms(self) -> Iterator[tuple[str, int]]:
        yield "output_norm", self.hidden
        for layer in range(self.layers):
            yield f"blk.{layer}.attn_norm", self.hidden
            yield f"blk.{layer}.ffn_norm", self.hidden
            if self.architecture == gguf.MODEL_ARCH.QWEN3:
                yield f"blk.{layer}.attn_q_norm", self.size
                yield f"blk.{layer}.attn_k_norm", self.size


SHAPES = {
    "qwen3-0.6b": Shape(gguf.MODEL_ARCH.QWEN3, 28, 1024, 3072, (16, 8), 128, 151_936, 1e6),
    "llama-3.2-1b": Shape(gguf.MODEL_ARCH.LLAMA, 16, 2048, 8192, (32, 8), 64, 128_256, 5e5),
}


def write_decoder(path: Path, shape: Shape, form: Format = Format.Q4_0, context: int = 4096) -> Path:
    """Write a file with random codes of `form`, Q4_0 or Q8_0, and a tokenizer whose words are numbers."""
    writer = GGUFWriter(path, gguf.MODEL_ARCH_NAMES[shape.architecture])
    writer.add_context_length(context)
    writer.add_embedding_length(shape.hidden)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.inner)
    writer.add_head_count(shape.heads[0])
    writer.add_head_count_kv(shape.heads[1])
    writer.add_key_length(shape.size)
    writer.add_value_length(shape.size)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(shape.base)
    writer.add_vocab_size(shape.words)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(["w", "1", *(f"w{index}" for index in range(shape.words - 2))])
    writer.add_token_types([gguf.TokenType.NORMAL] * shape.words)
    writer.add_token_merges(["w 1"])
    writer.add_eos_token_id(0)
    random = np.random.default_rng(0)
    for name, rows, columns in shape.matrices():
        writer.add_tensor(f"{name}.weight", _codes(random, rows, columns, form), raw_dtype=form)
    for name, size in shape.norms():
        writer.add_tensor(f"{name}.weight", np.ones(size, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _codes(random: np.random.Generator, rows: int, columns: int, form: Format) -> np.ndarray:
    elements, size = gguf.GGML_QUANT_SIZES[form]
    blocks = random.integers(0, 256, (rows, columns // elements, size), np.uint8)
    scale = SCALE / (1 if form == Format.Q4_0 else 16)
    blocks[..., :2] = np.array([scale], np.float16).view(np.uint8)
    return blocks.reshape(rows, -1)
