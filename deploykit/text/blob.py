"""The layout of `tokenizer.bin`: a header, then tables, each at a multiple of 8 bytes; all numbers are little-endian.

The header has 4 words (magic, version, bytes in all, number of tables), then the offset and the number of elements of
each table. `runtime/text/tables.h` says what the tables hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FILE = "tokenizer.bin"
"""The name of the file in artifacts."""

MAGIC = 0x58544B44
VERSION = 1

TABLES = (
    *("config", "steps", "pages", "classes", "properties", "actions", "lookup", "pool", "combining", "compositions"),
    *("columns", "states", "trie", "added", "bytes", "merges", "scores", "spaces", "template", "spelled", "texts"),
    *("flags", "first", "spare"),
)

CONFIG = (
    *("model", "unknown", "continuing", "most_chars", "step_count", "edge_probes", "merge_probes", "class_count"),
    *(
        "runes_per_byte",
        "symbols_per_byte",
        "template_single",
        "template_pair",
        "limit",
        "options",
        "suffix",
        "stripped",
    ),
)

_OTHER_TYPES: dict[str, np.dtype[np.generic]] = {
    **dict.fromkeys(("pages", "states"), np.dtype("<u2")),
    **dict.fromkeys(("classes", "combining", "columns", "spaces", "texts", "flags"), np.dtype("u1")),
    "scores": np.dtype("<f8"),
}


def write_blob(config: Mapping[str, int], tables: Mapping[str, NDArray[np.generic]]) -> bytes:
    """The file. Tables that are absent are empty."""
    assert set(config) == set(CONFIG)
    assert set(tables) < set(TABLES)
    data: dict[str, NDArray[np.generic]] = {**tables, "config": np.array([config[name] for name in CONFIG], np.uint32)}
    offset = 16 + 8 * len(TABLES)
    head, parts = [], []
    for name in TABLES:
        array = np.asarray(data.get(name, np.zeros(0))).astype(_OTHER_TYPES.get(name, np.dtype("<u4"))).ravel()
        head += [offset, len(array)]
        parts.append(array.tobytes() + bytes(-array.nbytes % 8))
        offset += len(parts[-1])
    return np.array([MAGIC, VERSION, offset, len(TABLES), *head], "<u4").tobytes() + b"".join(parts)


@dataclass(frozen=True)
class Facts:
    """What a file says of its tokenizer: ids are below `ids`; `limit` is the most tokens of its model, 0 if unknown.

    The memory for a text follows from `model`, 0 to 2: WordPiece, BPE and Unigram, and from the characters and symbols
    that a byte of it may become, in sixteenths."""

    ids: int
    limit: int
    model: int
    runes_per_byte: int
    symbols_per_byte: int


def facts_of(blob: bytes) -> Facts:
    """The facts of a file that `write_blob` made."""
    head = np.frombuffer(blob, "<u4", 2 * len(TABLES), 16).reshape(-1, 2)
    offset, count = head[TABLES.index("config")]
    config = np.frombuffer(blob, "<u4", int(count), int(offset))
    names = ("limit", "model", "runes_per_byte", "symbols_per_byte")
    return Facts(int(head[TABLES.index("flags"), 1]), *(int(config[CONFIG.index(name)]) for name in names))
