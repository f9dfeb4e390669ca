"""Arrays that are set aside, and the memory that a build needs for weights."""

from __future__ import annotations

import tempfile
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import deploykit
from deploykit.basics import mapped
from deploykit.basics.mapped import LEAST, forget, is_mapped, pieces, set_aside
from tests.frontends.huggingface.seeds import write_folder


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "bool"])
def test_an_array_that_is_set_aside_stays_as_it_is(dtype: str, order: tuple[int, ...]) -> None:
    array = (np.arange(3 * 1021 * 401) % 251).reshape(3, 1021, 401).astype(dtype)
    found, other = set_aside(array.transpose(order)), set_aside(array, np.dtype(np.int32))
    assert is_mapped(found)
    assert found.flags.c_contiguous
    for _ in range(2):
        np.testing.assert_array_equal(found, array.transpose(order))
        np.testing.assert_array_equal(other, array.astype(np.int32))
        forget(found)
        forget(other)


def test_a_small_array_is_in_memory() -> None:
    assert not is_mapped(set_aside(np.ones(LEAST // 8 - 1)))


def test_without_room_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    monkeypatch.setattr(mapped, "_rooms", [])
    array = np.arange(LEAST).reshape(2, -1)
    np.testing.assert_array_equal(set_aside(array.T), array.T)


def test_files_are_closed_with_the_last_array(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped, "_rooms", [])  # a file of other tests may have room

    def opened() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = opened()
    array = set_aside(np.ones(LEAST), np.dtype(np.float32))
    assert opened() > before
    del array
    assert opened() <= before


@pytest.mark.parametrize("shape", [(7,), (3, 3 << 20), (4097, 1031), (0, 4)])
def test_pieces(shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape)).reshape(shape)
    found = list(pieces(array))
    assert [place.start for place, _ in found[1:]] == [place.stop for place, _ in found[:-1]]
    np.testing.assert_array_equal(np.concatenate([part for _, part in found]) if found else array, array)


def decoder(folder: Path) -> int:
    """A folder with a decoder whose embeddings are its output, and the bytes of its weights."""
    width, inner, words = 1024, 2048, 4096
    config = {
        "model_type": "qwen3",
        "architectures": ["Qwen3ForCausalLM"],
        "vocab_size": words,
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": 1,
        "num_attention_heads": 8,
        "num_key_value_heads": 8,
        "head_dim": width // 8,
        "max_position_embeddings": 64,
        "tie_word_embeddings": True,
    }
    shapes = {"model.embed_tokens.weight": [words, width], "model.norm.weight": [width]}
    layer = "model.layers.0"
    shapes |= {f"{layer}.self_attn.{name}_proj.weight": [width, width] for name in "qkvo"}
    shapes |= {f"{layer}.self_attn.{name}_norm.weight": [width // 8] for name in "qk"}
    shapes |= {f"{layer}.mlp.{name}_proj.weight": [inner, width] for name in ("gate", "up")}
    shapes |= {f"{layer}.mlp.down_proj.weight": [width, inner]}
    shapes |= {f"{layer}.{name}_layernorm.weight": [width] for name in ("input", "post_attention")}
    write_folder(folder, config, shapes)
    return sum(4 * int(np.prod(shape)) for shape in shapes.values())


@pytest.mark.parametrize("quantize", [None, "fp16", pytest.param("int8", marks=pytest.mark.slow)])
def test_a_build_holds_few_weights_in_memory(tmp_path: Path, quantize: str | None) -> None:
    weights = decoder(tmp_path)
    tracemalloc.start()
    try:
        deploykit.build(tmp_path, quantize=quantize, stop_after="graph")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < weights * 0.8
