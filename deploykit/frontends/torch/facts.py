"""`Facts`: what the process with PyTorch tells of an export, as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

MODEL, FACTS = "model.onnx", "facts.json"
"""The files that an export writes."""


@dataclass(frozen=True)
class Facts:
    """`error` says why there is no export; the other entries are empty then.

    `kind` is the class of transformers, `exporter` what wrote the file. `bounds` are the least and the greatest size of
    each dim (None: no limit). `words` is the number of rows of the table of tokens; 0 without one. `unread` are weights
    that the model does not have. `padding` says whether a text has the same results in a padded batch as alone."""

    error: str = ""
    kind: str = ""
    exporter: str = ""
    bounds: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    words: int = 0
    unread: tuple[str, ...] = ()
    padding: bool = True

    def write(self, folder: Path) -> None:
        (folder / FACTS).write_text(json.dumps(asdict(self)))


def read_facts(folder: Path) -> Facts:
    """What an export wrote to `folder`. Raises `OSError` if it did not come so far."""
    found = json.loads((folder / FACTS).read_text())
    found["bounds"] = {name: (least, most) for name, (least, most) in found["bounds"].items()}
    return Facts(**{**found, "unread": tuple(found["unread"])})
