"""Stored tensors of GGUF files as arrays. The package `gguf` knows the formats."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from deploykit.basics.mapped import pieces
from deploykit.compiler.operators.quantized.groups import FORMATS, GROUP, Grouped
from deploykit.errors import UnsupportedModelError
from deploykit.frontends.gguf.reader import Stored

PLAIN: Mapping[str, np.dtype[Any]] = {
    "F32": np.dtype(np.float32),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F64": np.dtype(np.float64),
}
"""Formats whose elements are floats."""


@cache
def blocks() -> dict[int, tuple[int, int]]:
    """The elements and bytes of a block, by the code of each format."""
    from gguf.constants import GGML_QUANT_SIZES

    return {int(kind): sizes for kind, sizes in GGML_QUANT_SIZES.items()}


def name_of(code: int) -> str:
    """The name of a format, such as Q4_1."""
    from gguf.constants import GGMLQuantizationType

    return str(GGMLQuantizationType(code).name)


def is_plain(stored: Stored) -> bool:
    return name_of(stored.format) in PLAIN


def array_of(stored: Stored) -> np.ndarray:
    """The elements as floats: a view for plain formats, else a new array of float32. Raises `UnsupportedModelError` for
    a format that cannot be read."""
    name = name_of(stored.format)
    if name in PLAIN:
        return stored.data.view(PLAIN[name]).reshape(stored.shape)
    from gguf.constants import GGMLQuantizationType
    from gguf.quants import dequantize

    rows = stored.data.reshape(*stored.shape[:-1], -1)
    try:
        found: np.ndarray = dequantize(rows, GGMLQuantizationType(stored.format))
    except NotImplementedError as error:
        raise UnsupportedModelError(
            f"tensors of the format {name} cannot be read: convert the file to another"
        ) from error
    return found


KEPT: Mapping[str, tuple[str, int]] = {"Q4_0": ("q4", 1), "Q4_1": ("q4_1", 2), "Q8_0": ("q8", 1)}
"""The format of groups (`operators.quantized.groups`) of those that are kept bit for bit, and the numbers in float16
that a block begins with."""


def groups_of(stored: Stored) -> Grouped | None:
    """A matrix with its bits; None for another format."""
    name = name_of(stored.format)
    if name not in KEPT or len(stored.shape) != 2:
        return None
    (kind, halves), (rows, depth) = KEPT[name], stored.shape
    format_ = FORMATS[kind]
    blocks = stored.data.reshape(rows, depth // GROUP, -1)
    numbers = np.ascontiguousarray(blocks[..., : 2 * halves]).view(np.float16)
    if not np.isfinite(numbers).all():
        return None
    codes = np.empty((rows, depth // GROUP, GROUP), np.uint8)
    for place, piece in pieces(blocks):
        data = piece[..., 2 * halves :]
        if format_.bits == 8:
            codes[place] = data ^ 0x80
        else:
            codes[place, :, : GROUP // 2] = data & 15
            codes[place, :, GROUP // 2 :] = data >> 4
    scales, *minima = (np.ascontiguousarray(numbers[..., n]) for n in range(halves))
    return Grouped(format_, codes.reshape(rows, depth), scales, minima[0] if minima else None)
