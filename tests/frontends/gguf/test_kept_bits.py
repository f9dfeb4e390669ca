"""Weights of GGUF files that keep their bits."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Format

import deploykit
from bench.models.decoders import Shape, write_decoder
from deploykit.frontends.gguf.formats import groups_of
from deploykit.frontends.gguf.reader import Stored

SHAPES = {
    "llama": Shape(gguf.MODEL_ARCH.LLAMA, 2, 64, 96, (4, 2), 16, 70, 1e4),
    "qwen3": Shape(gguf.MODEL_ARCH.QWEN3, 2, 64, 96, (4, 2), 32, 70, 1e4),
}
HALVES = {Format.Q4_0: 1, Format.Q4_1: 2, Format.Q8_0: 1}
"""The numbers in float16 that a block begins with."""


@pytest.mark.parametrize("form", HALVES, ids=lambda form: form.name)
def test_any_codes_and_scales(form: Format) -> None:
    """Files whose scales were searched for do not use all codes of a group; scales may be negative, 0 or subnormal."""
    random = np.random.default_rng(0)
    elements, size = gguf.GGML_QUANT_SIZES[form]
    blocks = random.integers(0, 256, (40, 3, size), np.uint8)
    numbers = random.standard_normal((40, 3, HALVES[form])).astype(np.float16)
    numbers[:4, 0] = np.array([0, -0.0, 6e-8, 65504], np.float16)[:, None]
    blocks[..., : 2 * HALVES[form]] = numbers.view(np.uint8)
    found = groups_of(Stored(int(form), (40, 3 * elements), blocks.reshape(-1)))
    assert found is not None
    np.testing.assert_array_equal(found.floats(), gguf.quants.dequantize(blocks.reshape(40, -1), form))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_scales_that_are_no_numbers_are_not_kept(value: float) -> None:
    blocks = np.zeros((2, 18), np.uint8)
    blocks[1, :2] = np.array([value], np.float16).view(np.uint8)
    assert groups_of(Stored(int(Format.Q4_0), (2, 32), blocks.reshape(-1))) is None


@pytest.mark.parametrize("form", [Format.Q4_0, Format.Q8_0], ids=lambda form: form.name)
@pytest.mark.parametrize("name", SHAPES)
def test_scores_are_those_of_floats(tmp_path: Path, name: str, form: Format) -> None:
    path = write_decoder(tmp_path / "model.gguf", SHAPES[name], form, context=64)
    tokens, scores = np.random.default_rng(1).integers(0, 70, 40).tolist(), []
    for keep_bits in (True, False):
        deploykit.build(path, output=tmp_path / f"{keep_bits}", keep_bits=keep_bits)
        with deploykit.open(tmp_path / f"{keep_bits}") as session:
            scores.append(session.logits(tokens))
            (note,) = [note for note in session.manifest.notes if path.name in note]
        assert note.startswith("large weights are as in model.gguf: 15" if keep_bits else "some weights")
    np.testing.assert_allclose(scores[0], scores[1], rtol=0, atol=2e-3 * np.abs(scores[1]).max())
