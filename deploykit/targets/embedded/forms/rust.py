"""What templates of the crate for Rust say of a model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from deploykit.basics.dtypes import DTYPES
from deploykit.errors import UsageError
from deploykit.targets.embedded.structs import model_bytes

_WORDS = """
abstract as async await become box break const continue crate do dyn else enum extern false final fn for gen if impl in
let loop macro match mod move mut override priv pub ref return self static struct super trait true try type typeof union
unsafe unsized use virtual where while yield
"""
_KEYWORDS = frozenset(_WORDS.split())
_OWN = frozenset(["inputs", "outputs", "room", "shape", "done", "model", "memory"])
"""Names in the templates."""


def rust_view(view: Mapping[str, Any]) -> dict[str, Any]:
    """Ports as parameters of the crate, by the tables of their descriptors. Raises `UsageError` for a model that the
    crate does not run."""
    _require_plain(view)
    taken: set[str] = set()
    ports = {}
    for port in view["ports"]:
        name = _free(port["constant"].lower(), taken)
        taken.add(name)
        ports[port["table"]] = _port(name, port["dtype"])
    dtypes = [_enumerator(dtype.c_name) for dtype in DTYPES.values()]
    return {"rust": ports, "dtypes": dtypes, "model_words": -(-model_bytes(view["functions"][0], 8) // 8)}


def _port(name: str, c_dtype: str) -> dict[str, Any]:
    (dtype,) = (found for found in DTYPES.values() if found.c_name == c_dtype)
    kind = np.dtype(np.uint8) if dtype.storage.kind == "b" else dtype.storage
    letter = {"f": "f", "i": "i", "u": "u"}.get(kind.kind)
    word = f"{letter}{8 * kind.itemsize}"
    if letter is None or word == "f16":
        word = f"u{8 * kind.itemsize}"  # the bits of a type that Rust does not have
    zero = "0.0" if word.startswith("f") else "0"
    return {"name": name, "type": word, "bytes": kind.itemsize, "dtype": _enumerator(c_dtype), "zero": f"{zero}{word}"}


def _enumerator(c_dtype: str) -> str:
    """`DK_FLOAT8_E4M3FN` -> `Float8E4m3fn`."""
    return "".join(word.capitalize() for word in c_dtype.removeprefix("DK_").split("_"))


def _free(word: str, taken: set[str]) -> str:
    name = re.sub(r"^(?=\d)|^_*$", "v", word)
    while name in _KEYWORDS | _OWN | taken:
        name += "_"
    return name


def _require_plain(view: Mapping[str, Any]) -> None:
    reason = None
    if len(view["functions"]) > 1:
        reason = "several functions"
    elif view["stateful"]:
        reason = "states"
    elif view["dynamic"]:
        reason = "instances"
    elif open_dims := [dim["name"] for dim in view["dims"] if dim["capacity"] and dim["minimum"] != dim["maximum"]]:
        reason = f"the capacity dim {open_dims[0]}, which a build can fix (--dim {open_dims[0]}=N)"
    if reason is not None:
        raise UsageError(
            f"the crate for Rust runs models of one function of tensors; this one has {reason}. Other formats take it, "
            "such as --format c"
        )
