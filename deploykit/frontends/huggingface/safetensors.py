"""Reads .safetensors files without copies: each tensor is a view of the mapped file.

A file is the length of a JSON header (8 bytes, little-endian), the header, and the data. The header gives the dtype,
the shape and the range of bytes of each tensor. (Source: safetensors, "Format".)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from deploykit.basics.mapped import MappedFile, mapped
from deploykit.errors import UsageError

DTYPES: Mapping[str, np.dtype[Any]] = {
    "F64": np.dtype(np.float64),
    "F32": np.dtype(np.float32),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "I64": np.dtype(np.int64),
    "I32": np.dtype(np.int32),
    "I16": np.dtype(np.int16),
    "I8": np.dtype(np.int8),
    "U8": np.dtype(np.uint8),
    "BOOL": np.dtype(np.bool_),
}
"""Dtypes by their names in a header."""

HEADER_LIMIT = 100 << 20
"""Bytes: a longer header is refused, as the format demands."""


def read_safetensors(path: Path) -> tuple[MappedFile, dict[str, np.ndarray]]:
    """The mapped file and its tensors by their names. Raises `UsageError` if the file is damaged or cut off."""
    file = mapped(path)
    data = file.data
    if len(data) < 8:
        raise UsageError(f"{path} is cut off: it has {len(data)} bytes")
    length = int.from_bytes(data[:8], "little")
    if length > HEADER_LIMIT or 8 + length > len(data):
        raise UsageError(f"{path} is damaged or cut off: its header has {length} bytes, the file {len(data)}")
    try:
        header = json.loads(bytes(data[8 : 8 + length]))
        entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
    except (ValueError, AttributeError, RecursionError) as error:
        raise UsageError(f"{path} is damaged: its header is no JSON object") from error
    body = data[8 + length :]
    return file, {name: _view(path, name, entry, body) for name, entry in entries.items()}


def _view(path: Path, name: str, entry: Any, body: memoryview) -> np.ndarray:
    try:
        code, shape, (begin, end) = entry["dtype"], [int(n) for n in entry["shape"]], map(int, entry["data_offsets"])
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{path} is damaged: its header does not describe '{name}'") from error
    if code not in DTYPES:
        raise UsageError(f"'{name}' in {path} has the dtype {code}; there are {', '.join(DTYPES)}")
    if min(shape, default=0) < 0 or not 0 <= begin <= end or end - begin != _bytes(DTYPES[code], shape):
        raise UsageError(f"{path} is damaged: '{name}' has {end - begin} bytes for the shape {shape} of {code}")
    if end > len(body):
        raise UsageError(f"{path} is cut off: '{name}' ends at byte {end} of the data, which has {len(body)}")
    return np.frombuffer(body[begin:end], DTYPES[code]).reshape(shape)


def _bytes(dtype: np.dtype[Any], shape: list[int]) -> int:
    count = 1
    for extent in shape:
        count *= extent
    return count * dtype.itemsize
