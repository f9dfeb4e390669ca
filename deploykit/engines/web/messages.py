"""Requests to a model that runs in JavaScript, and its replies, in the format of `jobs.mjs`.

A message is the length of its header (32 bits, little-endian), the header as JSON, then the data of its tensors.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from deploykit.artifact.manifest import Manifest
from deploykit.basics.dtypes import logical_dtype
from deploykit.errors import DataError, DeploykitError, ShapeError, UsageError

_ERRORS: dict[str, type[DeploykitError]] = {"DataError": DataError, "ShapeError": ShapeError, "MemoryError": UsageError}

Read = Callable[[int], bytes]
"""Reads the given number of bytes of a reply."""


def message(header: Mapping[str, Any], arrays: Sequence[np.ndarray] = ()) -> list[bytes]:
    """The parts of a message."""
    text = json.dumps(header).encode()
    return [struct.pack("<I", len(text)), text, *(array.tobytes() for array in arrays)]


def run_request(manifest: Manifest, inputs: Sequence[np.ndarray], function: str | None) -> dict[str, Any]:
    """The header of a request to run a function; `manifest` is the manifest of that function."""
    pairs = zip(inputs, manifest.inputs, strict=True)
    return {
        "function": function,
        "inputs": [{"dtype": p.dtype, "shape": array.shape, "bytes": array.nbytes} for array, p in pairs],
    }


def arena_request(manifest: Manifest, dims: Sequence[int], function: str | None) -> dict[str, Any]:
    """The header of a request for the size of the arena in bytes."""
    return {"function": function, "dims": dict(zip([dim.name for dim in manifest.dims], dims, strict=True))}


def read_header(read: Read) -> dict[str, Any]:
    """Read the header of a reply. Raises the error that the model raised in JavaScript."""
    (length,) = struct.unpack("<I", read(4))
    reply: dict[str, Any] = json.loads(read(length))
    if "error" in reply:
        raise _ERRORS.get(reply["error"], DeploykitError)(reply["message"])
    return reply


def read_outputs(manifest: Manifest, reply: Mapping[str, Any], read: Read) -> list[np.ndarray]:
    """Read the outputs of a run, which follow the header of its reply."""
    outputs = []
    for header, port in zip(reply["outputs"], manifest.outputs, strict=True):
        storage = logical_dtype(port.dtype).storage
        data = read(header["bytes"])
        outputs.append(np.frombuffer(data, storage, prod(header["shape"])).reshape(header["shape"]).copy())
    return outputs
