"""What an APK consists of: a table of its parts."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

_PARTS = {
    r"classes\.dex": "code of the app and the model's classes",
    r"lib/([^/]+)/.*": "library for {}",
    r"assets/.*/kernels\..*": "code for GPUs",
    r"assets/.*/weights\.bin": "weights",
    r"(?:res/.*|resources\.arsc|AndroidManifest\.xml)": "resources",
}


def parts(apk: Path) -> dict[str, int]:
    """The bytes that each part has in the APK, compressed where it is."""
    found: dict[str, int] = {}
    with zipfile.ZipFile(apk) as archive:
        for entry in archive.infolist():
            name = _part(entry.filename)
            found[name] = found.get(name, 0) + entry.compress_size
    found["zip and signature"] = apk.stat().st_size - sum(found.values())
    return found


def table(apk: Path) -> str:
    """The parts as a table in Markdown."""
    rows = [*parts(apk).items(), ("in all", apk.stat().st_size)]
    return "| part | bytes |\n|---|---:|\n" + "".join(f"| {name} | {size:,} |\n" for name, size in rows)


def _part(name: str) -> str:
    for pattern, part in _PARTS.items():
        if match := re.fullmatch(pattern, name):
            return part.format(*match.groups())
    return "other assets"
