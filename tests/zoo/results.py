"""What is known about every export: how it was made and how it fares on each target, as the runs left it in files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "zoo"
EXCEPTIONS = Path(__file__).with_name("exceptions.txt")
"""Lines `NAME.EXPORTER TARGET: REASON`."""

GOOD = frozenset({"right", "invalid"})
"""Statuses of `tests.zoo.check` that are no fault of the compiler."""


@dataclass(frozen=True)
class Result:
    """One export. `export`: what `tests.zoo.export` says; `targets`: by name what `tests.zoo.check` does."""

    name: str
    export: Mapping[str, Any]
    targets: Mapping[str, Mapping[str, Any]]

    @property
    def architecture(self) -> str:
        return self.name.rpartition(".")[0]

    @property
    def exporter(self) -> str:
        return self.name.rpartition(".")[2]


def read(folder: Path = FOLDER) -> dict[str, Result]:
    """By `NAME.EXPORTER`, sorted."""
    found = {}
    for file in sorted(folder.glob("*/export.json")):
        name = file.parent.name
        others = (path for path in sorted(file.parent.glob("*.json")) if path != file)
        targets = {path.stem: json.loads(path.read_text()) for path in others}
        found[name] = Result(name, json.loads(file.read_text()), targets)
    return found


def exceptions() -> dict[str, str]:
    """Reasons by `NAME.EXPORTER TARGET`."""
    lines = EXCEPTIONS.read_text().splitlines()
    return dict(line.split(": ", 1) for line in lines if line and not line.startswith("#"))


def failed(results: Mapping[str, Result]) -> dict[str, str]:
    """What went wrong by `NAME.EXPORTER TARGET`."""
    return {
        f"{name} {target}": f"{found['status']}: {_first_line(found)}"
        for name, result in results.items()
        for target, found in result.targets.items()
        if found["status"] not in GOOD
    }


def _first_line(found: Mapping[str, Any]) -> str:
    lines = [line.strip(" -") for line in str(found.get("error", "")).splitlines() if line.strip()]
    return (lines[1] if len(lines) > 1 and lines[0].endswith("nodes:") else lines[0] if lines else "")[:200]
