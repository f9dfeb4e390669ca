"""The licence of a model, as its folder, its file or the user says it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from deploykit.errors import UsageError

RUNTIME_LICENSE = "Apache-2.0"
MODEL_LICENSE = "LICENSE.model"
"""The file of a package with the text of the model's licence."""

CONFIG = "config.json"

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


@dataclass(frozen=True)
class ModelLicense:
    """`identifier` is that of SPDX, if there is one; `name` what the licence is called, `text` what it says, as far as
    they are known."""

    identifier: str | None = None
    name: str | None = None
    text: bytes | None = None


def license_of_model(place: Path | None, stated: str | None = None, given: str | None = None) -> ModelLicense:
    """The licence of the model in the file `place`, or in the folder with this configuration. `stated` is what the file
    says of it, a name or a text, `given` is what the user says.

    Raises `UsageError` if that is no identifier."""
    config = place if place is not None and place.name == CONFIG else None
    text = stated if stated is not None and (len(stated) > _LONGEST_LICENSE or "\n" in stated) else None
    own = given or _license_of(config) or (stated if text is None else None)
    if given is not None and not re.fullmatch(r"[A-Za-z0-9.+-]+", given):
        raise UsageError(f"'{given}' is no SPDX identifier: use one like Apache-2.0 or MIT")
    identifier = _identifier(own or "") or given
    files = () if config is None else (config.parent / file for file in _FILES)
    found = next((path.read_bytes() for path in files if path.is_file()), None)
    if found is None and given is None and text is not None:
        found = text.encode()
    return ModelLicense(identifier, identifier or own, found)


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
