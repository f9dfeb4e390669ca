"""`deploykit run`: run an artifact on files or random inputs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deploykit.cli.console import messages, print_json, results, table
from deploykit.cli.options import ArtifactFolder, Inputs, Json, OnDevice, Sizes, Threads, read_size
from deploykit.cli.verb import verb
from deploykit.errors import UsageError

if TYPE_CHECKING:
    import numpy as np


@verb
def run(
    artifact: ArtifactFolder,
    *,
    inputs: Inputs = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE.npz", help="Write all outputs.", show_default=False),
    ] = None,
    dim: Sizes = None,
    threads: Threads = 1,
    device: OnDevice = None,
    json_output: Json = False,
) -> None:
    """Run an artifact once and describe its outputs.

    Every input needs values:

    deploykit run dist --input x=x.npy --output y.npz

    deploykit run dist --input x=random:0 --dim batch=7
    """
    from deploykit.samples import parse_sources, sample_inputs
    from deploykit.session import open as open_artifact

    sources, sizes = parse_sources(inputs or ()), read_size(dim or ())
    with open_artifact(artifact, threads=threads, device=device) as session:
        arrays, dims = sample_inputs(session.manifest, sources, sizes)
        outputs = session.run(arrays)
    if output is not None:
        _save(output, outputs)
    summaries = [_summary(name, array) for name, array in outputs.items()]
    if json_output:
        print_json({"dims": dims, "outputs": summaries, "file": output and str(output)})
        return
    if dims:
        messages.print("at " + ", ".join(f"{name}={size}" for name, size in dims.items()))
    rows = table("output", "dtype", "shape", ">smallest", ">mean", ">largest")
    for summary in summaries:
        numbers = (summary[key] for key in ("smallest", "mean", "largest"))
        rows.add_row(
            summary["name"],
            summary["dtype"],
            str(summary["shape"]),
            *("" if number is None else f"{number:.6g}" for number in numbers),
        )
    results.print(rows)
    if output is not None:
        messages.print(f"wrote {output}")


def _summary(name: str, array: np.ndarray) -> dict[str, Any]:
    """What can be said of an output in one line."""
    import numpy as np

    numbers = array.astype(np.float64)
    known = numbers[~np.isnan(numbers)]
    statistics = (known.min(), known.mean(), known.max()) if known.size else (None, None, None)
    smallest, mean, largest = (None if value is None else float(value) for value in statistics)
    return {
        "name": name,
        "dtype": str(array.dtype),
        "shape": list(array.shape),
        "smallest": smallest,
        "mean": mean,
        "largest": largest,
        "nan": int(array.size - known.size),
    }


def _save(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write the file whole or not at all."""
    import numpy as np

    if path.suffix != ".npz":
        raise UsageError(f"cannot write {path}: outputs are written as .npz")
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
