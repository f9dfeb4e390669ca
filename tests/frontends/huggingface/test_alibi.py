"""Positions that are added to scores: tables as transformers 5.24 has them, and entries that are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deploykit.errors import DeploykitError, UnsupportedModelError, UsageError
from deploykit.frontends.huggingface.alibi import slopes, table
from deploykit.frontends.huggingface.importer import load_folder
from tests.frontends.huggingface.seeds import write_folder
from tests.frontends.huggingface.test_families import golden

PLACES = [1, 3, 100, 257, 301, 599]

FALCON = {
    0: [0.5, 1.5, 50.0, 128.0, 150.0, 300.0],
    8: [0.70703125, 2.125, 70.5, 181.0, 212.0, 424.0],
    11: [0.08837890625, 0.265625, 8.8125, 22.625, 26.5, 53.0],
}
"""What some of 12 heads add at `PLACES`, by transformers' `build_alibi_tensor` of Falcon."""


def test_positions_in_bfloat16() -> None:
    found = table(slopes(12), 600, narrow=True)
    assert found.shape == (12, 608)
    for head, expected in FALCON.items():
        np.testing.assert_array_equal(found[head, PLACES], expected)
    np.testing.assert_array_equal(table(slopes(12), 600, narrow=True, factor=0.5), found / 2)


@pytest.mark.parametrize(
    ("greatest", "expected"),
    [
        (8, [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125]),
        (16, [0.0625, 0.00390625, 0.000244140625, 1.52587890625e-05, 0.25, 0.015625]),
    ],
)
def test_slopes(greatest: float, expected: list[float]) -> None:
    """Those of transformers' `build_mpt_alibi_tensor` for 6 heads."""
    np.testing.assert_array_equal(slopes(6, greatest), np.array(expected, np.float32))
    np.testing.assert_array_equal(table(slopes(6, greatest), 3)[:, 2], 2 * np.array(expected, np.float32))


@pytest.mark.parametrize(
    ("entries", "error", "message"),
    [
        ({"alibi": False}, UnsupportedModelError, "'alibi' of 'attn_config' is False .* computes only True"),
        ({"qk_ln": True}, UnsupportedModelError, "'qk_ln' of 'attn_config' is True .* computes only False"),
        ({"rope": True}, UnsupportedModelError, "'rope' of 'attn_config' is True .* does not know this entry"),
        ({"clip_qkv": -1}, UsageError, "'clip_qkv' is -1 .* must be a positive number"),
    ],
)
def test_entries_of_mpt(tmp_path: Path, entries: dict[str, object], error: type[DeploykitError], message: str) -> None:
    stored = golden("mpt")
    config = stored.config | {"attn_config": stored.config["attn_config"] | entries}
    write_folder(tmp_path / "model", config, stored.shapes)
    with pytest.raises(error, match=message):
        load_folder(tmp_path / "model")
