"""What `package.json` says of a package: its name, its version and its licence, by the rules of npm and SPDX."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploykit.errors import UsageError
from deploykit.options.option import option


@dataclass(frozen=True)
class NpmOptions:
    name: str | None = option(None, "the name of the npm package, such as @me/cnn, by default that of the model")
    version: str | None = option(None, "its version, by default 1.0.0")
    license: str | None = option(
        None, "the model's licence as an SPDX identifier, by default what its folder or file says"
    )


RUNTIME_LICENSE = "Apache-2.0"
MODEL_LICENSE = "LICENSE.model"
CONFIG = "config.json"
SEE_NOTICE = "SEE LICENSE IN NOTICE"

LONGEST_NAME = 214
_PART = r"[a-z0-9~-][a-z0-9._~-]*"
_NAME = re.compile(rf"(@{_PART}/)?{_PART}")
_NUMBER = r"(0|[1-9]\d*)"
_IDENTIFIERS = r"[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*"
_VERSION = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_IDENTIFIERS})?(\+{_IDENTIFIERS})?")
_RESERVED = ("node_modules", "favicon.ico")

_FRONT_MATTER = re.compile(r"\A---\n(.*?)\n---", re.DOTALL)
_LICENSE = re.compile(r"^license:\s*\"?([\w.+-]+)\"?\s*$", re.MULTILINE)
_FILES = ("LICENSE", "LICENSE.txt", "LICENSE.md")

_SPDX = """
Apache-2.0 MIT BSD-2-Clause BSD-3-Clause ISC Zlib Unlicense MPL-2.0 EPL-2.0 EUPL-1.2 BSL-1.0 CC0-1.0 CC-BY-3.0
CC-BY-4.0 CC-BY-SA-3.0 CC-BY-SA-4.0 CC-BY-NC-4.0 CC-BY-NC-SA-4.0 CC-BY-NC-ND-4.0 CC-BY-ND-4.0 GPL-2.0 GPL-3.0
AGPL-3.0 LGPL-2.1 LGPL-3.0 Artistic-2.0
"""
_KNOWN = {name.lower(): name for name in _SPDX.split()}
"""The identifiers of SPDX that folders of models name, which write them in small letters."""
_WORDS = re.compile(r"\b(the|licen[cs]e|version)\b|,")
"""Words that names of licences have beside the identifier, as in `Apache License, Version 2.0`."""
_LONGEST_LICENSE = 80
"""The most characters of the name of a licence. What is longer is its text."""


def npm_view(prefix: str, given: NpmOptions, place: Path | None, stated: str | None = None) -> dict[str, Any]:
    """What the templates of the package need. `place` is the model's file, or the configuration of its folder. `stated`
    is what the file says of the licence: a name or a text.

    Raises `UsageError` for a name or a version that npm refuses, and for a licence that is no identifier."""
    config = place if place is not None and place.name == CONFIG else None
    name = prefix.lower().replace("_", "-").strip("-")[:LONGEST_NAME] if given.name is None else given.name
    version = "1.0.0" if given.version is None else given.version
    if not _NAME.fullmatch(name) or len(name) > LONGEST_NAME or name in _RESERVED:
        rule = f"use small letters, digits, '-', '_' and '.', up to {LONGEST_NAME} characters, as in cnn or @me/cnn"
        raise UsageError(f"'{name}' cannot be the name of an npm package: {rule}")
    if not _VERSION.fullmatch(version):
        raise UsageError(f"'{version}' cannot be the version of an npm package: use three numbers, as in 1.2.0")
    text = stated if stated is not None and (len(stated) > _LONGEST_LICENSE or "\n" in stated) else None
    own = given.license or _license_of(config) or (stated if text is None else None)
    if given.license is not None and not re.fullmatch(r"[A-Za-z0-9.+-]+", given.license):
        raise UsageError(f"'{given.license}' is no SPDX identifier: use one like Apache-2.0 or MIT")
    model = _identifier(own or "") or (own if given.license is not None else None)
    both = model if model in (None, RUNTIME_LICENSE) else f"{RUNTIME_LICENSE} AND {model}"
    files = () if config is None else (config.parent / file for file in _FILES)
    found = next((path.read_bytes() for path in files if path.is_file()), None)
    if found is None and given.license is None and text is not None:
        found = text.encode()
    return {
        "npm": {
            "name": name,
            "version": version,
            "private": given.name is None and given.version is None,
            "license": both or SEE_NOTICE,
            "model_license": model or own,
        },
        "license_file": found,
    }


def _identifier(name: str) -> str | None:
    """The identifier of SPDX for the name of a licence, if that is a usual one."""
    return _KNOWN.get("-".join(_WORDS.sub(" ", name.lower()).split()))


def _license_of(config: Path | None) -> str | None:
    """The licence that the front matter of a model's README names, as Hugging Face defines it."""
    readme = None if config is None else config.parent / "README.md"
    if readme is None or not readme.is_file():
        return None
    front = _FRONT_MATTER.match(readme.read_text(encoding="utf-8", errors="replace"))
    named = front and _LICENSE.search(front[1])
    return named[1] if named else None
