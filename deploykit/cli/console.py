"""Where output goes and how numbers look.

Results go to standard output, progress and messages to standard error, so that output can be piped.
"""

from __future__ import annotations

import json
from typing import Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

results = Console(soft_wrap=True, highlight=False)
messages = Console(stderr=True, soft_wrap=True, highlight=False)


def print_json(value: Any) -> None:
    """Print a JSON document, in the form that scripts read."""
    typer.echo(json.dumps(value, indent=2, default=str))


def table(*columns: str, title: str | None = None) -> Table:
    """A plain table. A column whose name starts with `>` is aligned to the right."""
    result = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", pad_edge=False)
    for column in columns:
        result.add_column(column.removeprefix(">"), justify="right" if column.startswith(">") else "left")
    return result


def text_bytes(count: int) -> str:
    """`1_234_567` -> `1.2 MB`; exact below 10 kB."""
    if count < 10_000:
        return f"{count} B"
    size, unit = count / 1e3, "kB"
    for larger in ("MB", "GB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size:.1f} {unit}"


def text_seconds(seconds: float) -> str:
    """`0.0123` -> `12.3 ms`."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.1f} us"
    if seconds < 1:
        return f"{seconds * 1e3:.1f} ms"
    return f"{seconds:.2f} s"
