"""Options that several verbs share, spelled the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.", show_default=False)]
Artifact = Annotated[Path, typer.Argument(metavar="DIR", help="The artifact: a folder written by `deploykit build`.")]
Dims = Annotated[
    list[str] | None,
    typer.Option(
        "--dim",
        metavar="NAME=MIN..MAX",
        help="Bounds of a symbolic dim: [b]batch=1..64[/], [b]n=1..[/] (no maximum), or its size: [b]seq=128[/]. "
        "May be repeated.",
    ),
]
Threads = Annotated[int, typer.Option("--threads", min=1, help="Threads that each side may use.")]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="NAME=SOURCE",
        help="Where an input comes from: [b]x=x.npy[/], [b]x=random:SEED[/] (normal floats, integers 0 and 1) or "
        "[b]ids=random:SEED:LOW..HIGH[/]. May be repeated.",
    ),
]
