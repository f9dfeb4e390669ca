"""The results of every export: how it was made, and its outcome on each target.

Runs store them in `build/zoo`. The part that the page needs is also stored in `measured.json`, so that a run on another
machine adds to the known results.
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
TARGETS = ("host", "arm64", "embedded", "wasm", "webgpu", "vulkan", "opencl")
"""The runtimes of `tests.runtimes` that exports are checked on."""
EXCEPTIONS = Path(__file__).with_name("exceptions.txt")
"""Lines `NAME.EXPORTER TARGET: REASON`; the target `all` stands for each."""
MEASURED = Path(__file__).with_name("measured.json")
STORED = ("status", "error_max", "ratio", "build", "error")
"""The keys of a target's result that are stored in `measured.json`."""
MESSAGE = 400
"""The number of characters of an error that are stored."""

GOOD = frozenset({"right", "invalid"})
"""Statuses of `tests.zoo.check` that are not faults of the compiler."""


@dataclass(frozen=True)
class Result:
    """One export. `export`: the outcome of `tests.zoo.export`; `targets`: the results of `tests.zoo.check` by
    target."""

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
    """The results by `NAME.EXPORTER`, sorted: those of the runs in `folder`, and stored results for the other exports
    and for those that failed in `folder`."""
    found = {name: Result(name, **known) for name, known in json.loads(measured.read_text()).items()}
    for file in folder.glob("*/export.json"):
        name = file.parent.name
        export = json.loads(file.read_text())
        if "error" in export and name in found:
            continue
        others = (path for path in sorted(file.parent.glob("*.json")) if path != file)
        targets = {path.stem: json.loads(path.read_text()) for path in others}
        before = found[name].targets if name in found else {}
        found[name] = Result(name, export, {**before, **targets})
    return dict(sorted(found.items()))


def store(results: Mapping[str, Result], measured: Path = MEASURED) -> None:
    """Write the results for later calls of `read`, one line per export."""
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
    """A message without the path of the project, and with at most `MESSAGE` characters."""
    return re.sub(r"/\S*/(?=build/zoo/)", "", value)[:MESSAGE] if isinstance(value, str) else value


@cache
def exceptions() -> dict[str, str]:
    """Reasons by `NAME.EXPORTER TARGET`."""
    found: dict[str, str] = {}
    for line in EXCEPTIONS.read_text().splitlines():
        if line and not line.startswith("#"):
            title, reason = line.split(": ", 1)
            name, target = title.split(" ")
            found |= {f"{name} {one}": reason for one in (TARGETS if target == "all" else [target])}
    return found


def failed(results: Mapping[str, Result]) -> dict[str, str]:
    """The faults by `NAME.EXPORTER TARGET`."""
    return {
        f"{name} {target}": f"{found['status']}: {_first_line(found)}"
        for name, result in results.items()
        for target, found in result.targets.items()
        if found["status"] not in GOOD
    }


def _first_line(found: Mapping[str, Any]) -> str:
    lines = [line.strip(" -") for line in str(found.get("error", "")).splitlines() if line.strip()]
    return (lines[1] if len(lines) > 1 and lines[0].endswith("nodes:") else lines[0] if lines else "")[:200]
