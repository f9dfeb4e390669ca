"""What is known about every export: how it was made and how it fares on each target.

Runs leave it in `build/zoo`. What the page needs of it is stored in `measured.json` as well, so that a run on another
machine adds to what is known instead of starting again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "zoo"
EXCEPTIONS = Path(__file__).with_name("exceptions.txt")
"""Lines `NAME.EXPORTER TARGET: REASON`."""
MEASURED = Path(__file__).with_name("measured.json")
STORED = ("status", "error_max", "ratio", "build", "error")
"""What is stored of a target's result."""
MESSAGE = 400
"""Characters that are stored of an error."""

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


def read(folder: Path = FOLDER, measured: Path = MEASURED) -> dict[str, Result]:
    """By `NAME.EXPORTER`, sorted: what the runs in `folder` found, and for the rest what is stored."""
    found = {name: Result(name, **known) for name, known in json.loads(measured.read_text()).items()}
    for file in folder.glob("*/export.json"):
        name = file.parent.name
        others = (path for path in sorted(file.parent.glob("*.json")) if path != file)
        targets = {path.stem: json.loads(path.read_text()) for path in others}
        before = found[name].targets if name in found else {}
        found[name] = Result(name, json.loads(file.read_text()), {**before, **targets})
    return dict(sorted(found.items()))


def store(results: Mapping[str, Result], measured: Path = MEASURED) -> None:
    """Write what `read` is to find where no run has left anything: a line an export."""
    lines = [f"{json.dumps(name)}: {json.dumps(_stored(result))}" for name, result in results.items()]
    measured.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _stored(result: Result) -> dict[str, Any]:
    export = {key: result.export[key] for key in ("dims", "error") if key in result.export}
    targets = {
        target: {key: _short(found[key]) for key in STORED if found.get(key) is not None}
        for target, found in result.targets.items()
    }
    return {"export": {key: _short(value) for key, value in export.items()}, "targets": targets}


def _short(value: Any) -> Any:
    """A message without where the project lies on a machine, and no longer than `MESSAGE`."""
    return re.sub(r"/\S*/(?=build/zoo/)", "", value)[:MESSAGE] if isinstance(value, str) else value


@cache
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
