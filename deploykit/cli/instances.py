"""`deploykit run --instances`: run a dynamic model on instances from a .json file."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from deploykit.cli.console import messages, print_json, results, table, text_seconds
from deploykit.dynamic.files import read_samples
from deploykit.inspection import schedule

if TYPE_CHECKING:
    from deploykit.sessions.session import Session

_SHOWN = 8
"""How many instances the table shows."""

_WIDTH = 72
"""Characters of a result in the table."""


def run_instances(session: Session, file: Path, policy: str | None, trace: Path | None, *, json_output: bool) -> None:
    """Run the instances of a file and print what the model returns for each, and how often each cell was launched.
    Draw the launches to the file `trace`.

    Raises `UsageError` for a file that cannot be read, and what the session raises."""
    instances = read_samples(file)
    if policy is not None:
        session.policy = policy
    session.tracing = trace is not None
    start = time.perf_counter()
    found = session(instances)
    seconds = time.perf_counter() - start
    if trace is not None:
        schedule.draw(session.trace, f"{session.manifest.name}, {len(found)} instances, policy {session.policy}", trace)
    if json_output:
        launches = dict(session.launches)
        print_json({"results": [_plain(value) for value in found], "policy": session.policy, "launches": launches})
        return
    rows = table(">instance", "result")
    for number, value in enumerate(found[:_SHOWN]):
        rows.add_row(str(number), _short(_plain(value)))
    results.print(rows)
    if len(found) > _SHOWN:
        messages.print(f"and {len(found) - _SHOWN} more instances; --json prints all of them")
    _show_launches(session.launches)
    messages.print(f"{len(found)} instances with the policy {session.policy} in {text_seconds(seconds)}")


def _show_launches(launches: Sequence[tuple[str, int]]) -> None:
    rows = table("cell", ">launches")
    for name, count in launches:
        rows.add_row(name, str(count))
    rows.add_row("all", str(sum(count for _, count in launches)))
    results.print(rows)


def _plain(value: Any) -> Any:
    """A result as JSON has it."""
    if is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
        return {"type": type(value).__name__, **parts}
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _short(value: Any) -> str:
    """A result in one line."""
    text = _text(value)
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."


def _text(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value[:_WIDTH]))}]"
    if isinstance(value, dict):
        parts = (f"{name}={_text(part)}" for name, part in value.items() if name != "type")
        return f"{value['type']}({', '.join(parts)})"
    return f"{value:.5g}" if isinstance(value, float) else str(value)
