"""What an APK consists of for each ABI, what a phone loads of it from a store, and the same of a peer.

Parts have the bytes that they take in the APK. A store sends each phone the library of its ABI, and compresses what it
sends; bundletool tells how much that is. The peer is the AAR of TensorFlow Lite: its library and its classes, without
any model.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from apps.android.steps import archives
from apps.android.steps.bundle import bundletool

_PARTS = {
    r"classes\.dex": "code of the app and of the models' classes",
    r"lib/([^/]+)/.*": "library",
    r"assets/.*/kernels\..*": "code for GPUs",
    r"assets/.*/(?:weights|tokenizer)\.bin": "weights and tokenizers",
    r"(?:res/.*|resources\.arsc|AndroidManifest\.xml)": "resources",
}
PEER = "org.tensorflow:tensorflow-lite:aar:2.16.1"
_NAME = "TensorFlow Lite 2.16.1"

Row = Mapping[str, int]
"""Bytes by ABI."""


def parts(apk: Path) -> dict[str, Row]:
    """The bytes of each part in the APK, compressed where it is. All but libraries are for every ABI."""
    found: dict[str, dict[str, int]] = {}
    with zipfile.ZipFile(apk) as archive:
        entries = [(entry.filename, entry.compress_size) for entry in archive.infolist()]
    abis = sorted({name.split("/")[1] for name, _ in entries if name.startswith("lib/")})
    for name, size in entries:
        part, abi = _part(name)
        row = found.setdefault(part, dict.fromkeys(abis, 0))
        for each in abis if abi is None else [abi]:
            row[each] += size
    return dict(found)


def downloads(bundle: Path, aapt2: Path, scratch: Path) -> Row:
    """The bytes that a phone of each ABI loads of an app bundle, as bundletool estimates them; it makes the APKs of all
    phones for that, in `scratch`."""
    made = scratch / "all.apks"
    bundletool("build-apks", f"--bundle={bundle}", f"--output={made}", f"--aapt2={aapt2}", "--overwrite")
    lines = bundletool("get-size", "total", f"--apks={made}", "--dimensions=ABI").splitlines()
    return {abi: int(most) for abi, _, most in (line.split(",") for line in lines[1:])}


def peer(abis: Sequence[str]) -> dict[str, Row]:
    """The parts of the peer; empty if its archive is not there."""
    path = archives.path_of(PEER)
    if not path.exists():
        return {}
    with zipfile.ZipFile(path) as archive:
        classes, entries = archive.getinfo("classes.jar"), archive.infolist()
        libraries = {entry.filename.split("/")[1]: entry for entry in entries if entry.filename.startswith("jni/")}
    return {
        f"{_NAME}: library": {abi: libraries[abi].file_size for abi in abis},
        f"{_NAME}: library and classes, compressed": {
            abi: libraries[abi].compress_size + classes.compress_size for abi in abis
        },
    }


def table(apk: Path, loaded: Row | None = None) -> str:
    """A table in Markdown. `loaded` are the `downloads`, if they are known."""
    found = parts(apk)
    abis = list(next(iter(found.values())))
    if loaded is not None:
        found["what a phone loads from a store"] = loaded
    rows = [f"| {name} | {' | '.join(f'{row[abi]:,}' for abi in abis)} |" for name, row in (found | peer(abis)).items()]
    whole = f"The APK for {', '.join(abis)} has {apk.stat().st_size:,} bytes."
    return "\n".join([f"| part | {' | '.join(abis)} |", f"|---|{'---:|' * len(abis)}", *rows, "", whole])


def _part(name: str) -> tuple[str, str | None]:
    """The part that an entry belongs to, and its ABI, if it has one."""
    for pattern, part in _PARTS.items():
        if match := re.fullmatch(pattern, name):
            return part, next(iter(match.groups()), None)
    return "other assets", None
