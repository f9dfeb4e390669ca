"""What a package says of itself: its version, its author and its licence."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from deploykit.errors import UsageError
from deploykit.options.option import option
from deploykit.targets.licenses import RUNTIME_LICENSE, ModelLicense

_VERSION = re.compile(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}")
_PLAIN = re.compile(r"[^\x00-\x1f\x7f\"'\\<>&]+")
"""Texts that mean themselves in all files of packages: properties, JSON, YAML, XML and TOML."""


@dataclass(frozen=True)
class PackageSettings:
    version: str = option("1.0.0", "the version of a package: three numbers")
    author: str = option("deploykit", "who makes a package: the author of a library, the vendor of a CMSIS pack")
    url: str | None = option(None, "the address of a page about the model, for the description of a package")
    license: str | None = option(
        None, "the model's licence as an SPDX identifier, by default what its folder or file says"
    )


def settings_view(own: PackageSettings, found: ModelLicense) -> dict[str, Any]:
    """What templates say of a package; `found` is the licence of the model.

    Raises `UsageError` for what cannot be written into the files of packages."""
    if not _VERSION.fullmatch(own.version):
        raise UsageError(f"'{own.version}' cannot be the version of a package: use three numbers, as in 1.2.0")
    for what, text in {"author": own.author, "url": own.url}.items():
        if text is not None and not _PLAIN.fullmatch(text):
            raise UsageError(f"the {what} of a package is a line without quotes, '<', '>' and '&', found {text!r}")
    model = found.identifier
    both = model if model in (None, RUNTIME_LICENSE) else f"{RUNTIME_LICENSE} AND {model}"
    return {
        "version": own.version,
        "author": own.author,
        "vendor": re.sub(r"[^A-Za-z0-9-]+", "_", own.author).strip("_") or "deploykit",
        "url": own.url,
        "license": both,
    }
