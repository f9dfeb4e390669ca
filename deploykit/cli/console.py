"""Where output goes and how numbers look.

Results go to standard output, progress and messages to standard error, so that output can be piped. Text is printed
literally, including brackets, because it holds names from the user's model.
"""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from typing import Any, Literal, TextIO

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

_PIPED_WIDTH = 160
"""Width in columns of output that goes to a file or another program."""


def _console(stream: TextIO, *, stderr: bool) -> Console:
    width = None if stream.isatty() else _PIPED_WIDTH
    return Console(stderr=stderr, width=width, soft_wrap=True, highlight=False, markup=False, emoji=False)


for _name in ("stdout", "stderr"):
    if getattr(sys, _name) is None:  # closed by the parent process
        setattr(sys, _name, Path(os.devnull).open("w"))  # noqa: SIM115  open until the process ends
for _stream in (sys.stdout, sys.stderr):
    if isinstance(_stream, io.TextIOWrapper):
        _stream.reconfigure(errors="backslashreplace")  # the terminal may lack characters of the user's names

results = _console(sys.stdout, stderr=False)
messages = _console(sys.stderr, stderr=True)


def print_json(value: Any) -> None:
    """Print a value as a JSON document."""
    typer.echo(json.dumps(value, indent=2, default=str))


def table(*columns: str, title: str | None = None) -> Table:
    """A plain table. A column whose name starts with `>` is aligned to the right."""
    result = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", pad_edge=False)
    for column in columns:
        justify: Literal["left", "right"] = "right" if column.startswith(">") else "left"
        result.add_column(column.removeprefix(">"), justify=justify, overflow="fold")
    return result


def good(text: str) -> Text:
    return Text(text, style="green")


def doubtful(text: str) -> Text:
    return Text(text, style="yellow")


def bad(text: str) -> Text:
    return Text(text, style="red")


def text_bytes(count: int) -> str:
    """A number of bytes as text: `1_234_567` -> `1.2 MB`; exact below 10 kB."""
    if count < 10_000:
        return f"{count} B"
    size, unit = count / 1e3, "kB"
    for larger in ("MB", "GB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size:.1f} {unit}"


def text_seconds(seconds: float) -> str:
    """A time in seconds as text: `0.0123` -> `12.3 ms`."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.1f} us"
    if seconds < 1:
        return f"{seconds * 1e3:.1f} ms"
    return f"{seconds:.2f} s"
