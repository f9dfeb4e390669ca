"""Makes an app bundle (AAB), of which a store makes an APK for each kind of device."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from apps.android.steps import archives
from apps.android.steps.resources import as_bundle
from apps.android.steps.running import run
from apps.android.steps.tools import path_of
from apps.android.steps.zips import entries_of, write_aligned

_CONFIG = {
    "compression": {"uncompressedGlob": ["assets/**.bin"]},
    "optimizations": {"uncompressNativeLibraries": {"enabled": True, "alignment": "PAGE_ALIGNMENT_16K"}},
}
_FOLDERS = {"AndroidManifest.xml": "manifest/", "classes.dex": "dex/"}


def write_bundle(aapt2: Path, base: Path, entries: Mapping[str, bytes], output: Path, scratch: Path) -> None:
    """Write a bundle, which is not signed. `base` is that of the APK, `entries` are those of the APK."""
    module, config = scratch / "base.zip", scratch / "config.json"
    own = set(entries_of(base))
    found = entries_of(as_bundle(aapt2, base)) | {name: data for name, data in entries.items() if name not in own}
    write_aligned(module, {_FOLDERS.get(name, "") + name: data for name, data in found.items()})
    config.write_text(json.dumps(_CONFIG))
    output.unlink(missing_ok=True)
    bundletool("build-bundle", f"--modules={module}", f"--output={output}", f"--config={config}")


def bundletool(*words: str) -> str:
    """What bundletool prints."""
    path = os.pathsep.join(map(str, archives.find(archives.BUNDLE)))
    return run(
        "bundletool", [path_of("java"), "-cp", path, "com.android.tools.build.bundletool.BundleToolMain", *words]
    )
