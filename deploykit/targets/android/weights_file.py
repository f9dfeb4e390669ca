"""The file `weights.bin` of an AAR: the hash of the weights as text, then the weights.

The hash is the SHA-256 of all that follows, in 64 hexadecimal digits. The library has it, too: weights of another build
are refused when they are loaded.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

HASH_BYTES = 64
"""The length of the text, which keeps the alignment of the weights."""

_CHUNK = 1 << 20


def prepend_hash(weights: Path) -> str:
    """Put the hash in front of a file of weights. Returns it; it is empty for a file without weights, which stays."""
    if weights.stat().st_size == 0:
        return ""
    with weights.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    bare = weights.with_name(f"{weights.name}.bare")
    weights.replace(bare)
    with bare.open("rb") as source, weights.open("wb") as target:
        target.write(found.encode())
        shutil.copyfileobj(source, target, _CHUNK)
    bare.unlink()
    return found


def without_hash(file: Path, target: Path) -> None:
    """Write the weights of a file alone."""
    with file.open("rb") as source, target.open("wb") as written:
        source.seek(HASH_BYTES)
        shutil.copyfileobj(source, written, _CHUNK)
