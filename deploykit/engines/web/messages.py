"""Requests to a model that runs in JavaScript, and the replies: what `jobs.mjs` understands.

A message is the length of a JSON header as 32 bits, little-endian, the header, then the data of its tensors.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from deploykit.artifact.manifest import Manifest
from deploykit.dtypes import logical_dtype
from deploykit.errors import DataError, DeploykitError, ShapeError, UsageError

_ERRORS: dict[str, type[DeploykitError]] = {"DataError": DataError, "ShapeError": ShapeError, "MemoryError": UsageError}

Read = Callable[[int], bytes]
"""Gives so many bytes of a reply."""


def message(header: Mapping[str, Any], arrays: Sequence[np.ndarray] = ()) -> list[bytes]:
    """The parts of a message."""
    text = json.dumps(header).encode()
    return [struct.pack("<I", len(text)), text, *(array.tobytes() for array in arrays)]


def run_request(manifest: Manifest, inputs: Sequence[np.ndarray], function: str | None) -> dict[str, Any]:
    """The header of a request for a run of the function that the manifest is of."""
    pairs = zip(inputs, manifest.inputs, strict=True)
    return {
        "function": function,
        "inputs": [{"dtype": p.dtype, "shape": array.shape, "bytes": array.nbytes} for array, p in pairs],
    }


def arena_request(manifest: Manifest, dims: Sequence[int], function: str | None) -> dict[str, Any]:
    """The header of a request for the bytes of the arena."""
    return {"function": function, "dims": dict(zip([dim.name for dim in manifest.dims], dims, strict=True))}


def read_header(read: Read) -> dict[str, Any]:
    """The header of a reply. Raises what the model raised there."""
    (length,) = struct.unpack("<I", read(4))
    reply: dict[str, Any] = json.loads(read(length))
    if "error" in reply:
        raise _ERRORS.get(reply["error"], DeploykitError)(reply["message"])
    return reply


def read_outputs(manifest: Manifest, reply: Mapping[str, Any], read: Read) -> list[np.ndarray]:
    """The outputs of a run behind the header of its reply."""
    outputs = []
    for header, port in zip(reply["outputs"], manifest.outputs, strict=True):
        storage = logical_dtype(port.dtype).storage
        data = read(header["bytes"])
        outputs.append(np.frombuffer(data, storage, prod(header["shape"])).reshape(header["shape"]).copy())
    return outputs
