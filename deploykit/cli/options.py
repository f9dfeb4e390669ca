"""The options that several verbs share, and the parsing of their values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deploykit.errors import UsageError

if TYPE_CHECKING:
    from deploykit.artifact.manifest import Manifest
    from deploykit.checks.sources import Source

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.", show_default=False)]
ArtifactFolder = Annotated[
    Path, typer.Argument(metavar="DIR", help="The artifact: a folder written by `deploykit build`.", show_default=False)
]
Dims = Annotated[
    list[str] | None,
    typer.Option(
        "--dim",
        metavar="NAME=RANGE",
        help="Bounds of a symbolic dim, [b]batch=1..64[/] or [b]n=1..[/] (no maximum), or its size, [b]seq=128[/]. "
        "Several are separated by commas, or the option is repeated.",
        show_default=False,
    ),
]
OneSize = Annotated[
    list[str] | None,
    typer.Option(
        "--at",
        metavar="NAME=SIZE",
        help="Size of a symbolic dim to run at, [b]batch=3[/]; by default that of the files given for inputs, else its "
        "minimum. Several are separated by commas, or the option is repeated.",
        show_default=False,
    ),
]
SeveralSizes = Annotated[
    list[str] | None,
    typer.Option(
        "--at",
        metavar="NAME=SIZES",
        help="Sizes of a symbolic dim to run at, [b]batch=1,3,64[/]. May be repeated.",
        show_default=False,
    ),
]
Threads = Annotated[int, typer.Option("--threads", min=1, help="Threads for parallel loops.")]
OnDevice = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="DEVICE",
        help="What to run on. An artifact for this machine: [b]cpu[/], what it was built for, [b]vulkan[/] or "
        "[b]opencl[/] ([b]vulkan:2[/] is the second adapter), or the fastest, [b]auto[/]. One for the web: [b]wasm[/], "
        "in node, or [b]webgpu[/], in Chromium.",
        show_default="cpu or wasm",
    ),
]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        "-i",
        metavar="NAME=SOURCE",
        help="Values of an input: [b]x=x.npy[/], [b]x=random:SEED[/] (normal floats, integers 0 and 1), "
        "[b]ids=random:SEED:LOW..HIGH[/], or for strings [b]words=cat,dog[/]. May be repeated.",
        show_default=False,
    ),
]

Lengths = Annotated[
    list[str] | None,
    typer.Option(
        "--lengths",
        metavar="LENGTHS",
        help="Lengths of the instances of ragged inputs, [b]12,80,7[/]; if several inputs have lengths, "
        "[b]NAME=12,80,7[/] for each. By default those of the files given for inputs, else random ones.",
        show_default=False,
    ),
]


def read_sources(manifest: Manifest, inputs: Sequence[str], lengths: Sequence[str]) -> dict[str, Source]:
    """Parse the values of inputs and the lengths of ragged ones. Raises `UsageError` if a text is malformed, or if an
    input is given twice."""
    from deploykit.checks.lengths import read_lengths
    from deploykit.checks.sources import parse_sources
    from deploykit.sessions.ragged_ports import ragged_ports

    sources = parse_sources(inputs)
    found = read_lengths(ragged_ports(manifest), lengths)
    for name in found.keys() & sources.keys():
        raise UsageError(f"input '{name}' is given twice: by --input and by --lengths")
    return sources | found


def read_dims(texts: Sequence[str]) -> dict[str, int | tuple[int, int | None]]:
    """Parse bounds: `["batch=1..64", "seq=128"]` or `["batch=1..64,seq=128"]` -> `{"batch": (1, 64), "seq": 128}`.

    Raises `UsageError` for anything else, and for a dim that is given twice."""
    if not texts:
        return {}
    from deploykit.compiler.dims import parse_dim

    ranges = [parse_dim(part) for text in texts for part in _parts(text)]
    _require_different([r.name for r in ranges])
    return {r.name: r.minimum if r.minimum == r.maximum else (r.minimum, r.maximum) for r in ranges}


def read_sizes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Parse sizes: `["batch=1,3,64", "seq=2"]` or `["batch=1,3,64,seq=2"]` -> `{"batch": (1, 3, 64), "seq": (2,)}`.

    Raises `UsageError` for anything else, and for a dim that is given twice."""
    sizes: dict[str, tuple[int, ...]] = {}
    parts = [part for text in texts for part in _parts(text)]
    _require_different([part.rpartition("=")[0] for part in parts])
    for text in parts:
        name, _, values = text.rpartition("=")
        numbers = values.split(",")
        if not name or not all(number.isdecimal() for number in numbers):
            raise UsageError(f"cannot read the sizes '{text}': write NAME=SIZE or NAME=SIZE,SIZE,...")
        sizes[name] = tuple(int(number) for number in numbers)
    return sizes


def _parts(text: str) -> list[str]:
    """Split `batch=1,3,seq=2` into `batch=1,3` and `seq=2`: a comma before another `NAME=` ends a part."""
    parts: list[str] = []
    for piece in text.split(","):
        if parts and "=" not in piece:
            parts[-1] += f",{piece}"
        else:
            parts.append(piece)
    return parts


def _require_different(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"dim '{name}' is given {names.count(name)} times: give it once")


def read_size(texts: Sequence[str]) -> dict[str, int]:
    """Parse one size per dim: `["batch=3"]` -> `{"batch": 3}`. Raises `UsageError` for anything else."""
    sizes = read_sizes(texts)
    for name, values in sizes.items():
        if len(values) > 1:
            raise UsageError(f"dim '{name}' has one size in a run, found {','.join(map(str, values))}")
    return {name: values[0] for name, values in sizes.items()}
