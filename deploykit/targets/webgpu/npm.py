"""What `package.json` says of a package: its name, its version and its licence, by the rules of npm and SPDX."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploykit.errors import UsageError
from deploykit.options.option import option
from deploykit.targets.licenses import RUNTIME_LICENSE, license_of_model


@dataclass(frozen=True)
class NpmOptions:
    name: str | None = option(None, "the name of the npm package, such as @me/cnn, by default that of the model")
    version: str | None = option(None, "its version, by default 1.0.0")
    license: str | None = option(
        None, "the model's licence as an SPDX identifier, by default what its folder or file says"
    )


SEE_NOTICE = "SEE LICENSE IN NOTICE"

LONGEST_NAME = 214
_PART = r"[a-z0-9~-][a-z0-9._~-]*"
_NAME = re.compile(rf"(@{_PART}/)?{_PART}")
_NUMBER = r"(0|[1-9]\d*)"
_IDENTIFIERS = r"[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*"
_VERSION = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_IDENTIFIERS})?(\+{_IDENTIFIERS})?")
_RESERVED = ("node_modules", "favicon.ico")


def npm_view(prefix: str, given: NpmOptions, place: Path | None, stated: str | None = None) -> dict[str, Any]:
    """What the templates of the package need. `place` is the model's file, or the configuration of its folder. `stated`
    is what the file says of the licence: a name or a text.

    Raises `UsageError` for a name or a version that npm refuses, and for a licence that is no identifier."""
    name = prefix.lower().replace("_", "-").strip("-")[:LONGEST_NAME] if given.name is None else given.name
    version = "1.0.0" if given.version is None else given.version
    if not _NAME.fullmatch(name) or len(name) > LONGEST_NAME or name in _RESERVED:
        rule = f"use small letters, digits, '-', '_' and '.', up to {LONGEST_NAME} characters, as in cnn or @me/cnn"
        raise UsageError(f"'{name}' cannot be the name of an npm package: {rule}")
    if not _VERSION.fullmatch(version):
        raise UsageError(f"'{version}' cannot be the version of an npm package: use three numbers, as in 1.2.0")
    found = license_of_model(place, stated, given.license)
    model = found.identifier
    both = model if model in (None, RUNTIME_LICENSE) else f"{RUNTIME_LICENSE} AND {model}"
    return {
        "npm": {
            "name": name,
            "version": version,
            "private": given.name is None and given.version is None,
            "license": both or SEE_NOTICE,
            "model_license": found.name,
        },
        "license_file": found.text,
    }
