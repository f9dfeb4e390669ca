"""`deploykit bench`: how long a run takes, next to a peer."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from deploykit.cli.console import messages, print_json, results, table, text_seconds
from deploykit.cli.options import ArtifactFolder, Inputs, Json, Sizes, read_size
from deploykit.cli.verb import verb
from deploykit.cli.verify import Reference


@verb
def bench(
    artifact: ArtifactFolder,
    *,
    against: Annotated[
        Reference | None,
        typer.Option("--against", help="A peer to time on the same inputs, run by run in turn.", show_default=False),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(
            "--model",
            "-m",
            metavar="MODEL",
            help="The model that the peer runs; by default the file that the artifact was built from, when it is found "
            "in this folder or beside the artifact.",
            show_default=False,
        ),
    ] = None,
    inputs: Inputs = None,
    dim: Sizes = None,
    threads: Annotated[int, typer.Option("--threads", min=1, help="Threads of each side.")] = 1,
    seconds: Annotated[float, typer.Option("--seconds", min=0, help="How long to measure.")] = 3.0,
    json_output: Json = False,
) -> None:
    """Time an artifact, alone or in turn with a peer, and print medians and their ratio.

    Inputs without --input are random.
    """
    from deploykit.benchmark import benchmark
    from deploykit.reference import find_source
    from deploykit.samples import RandomSource, parse_sources, sample_inputs
    from deploykit.session import open as open_artifact

    sources = parse_sources(inputs or ())
    with open_artifact(artifact, threads=threads) as session, messages.status("measuring"):
        for port in session.manifest.inputs:
            sources.setdefault(port.name, RandomSource())
        arrays, dims = sample_inputs(session.manifest, sources, read_size(dim or ()))
        if against is not None and model is None:
            model = find_source(artifact, session.manifest.source)
        result = benchmark(
            session, arrays, against=against and against.value, model=model, threads=threads, seconds=seconds
        )
    timings = [result.ours, *([result.peer] if result.peer else [])]
    if json_output:
        print_json({"dims": dims, "threads": threads, "timings": [asdict(t) for t in timings], "ratio": result.ratio})
        return
    sizes = ", ".join(f"{name}={size}" for name, size in dims.items())
    rows = table(
        "", ">median", ">fastest", ">10 %", ">90 %", ">runs", title=f"{sizes or 'fixed sizes'}, {threads} thread(s)"
    )
    for timing in timings:
        times = (timing.median, timing.fastest, timing.p10, timing.p90)
        rows.add_row(timing.name, *(text_seconds(value) for value in times), str(timing.runs))
    results.print(rows)
    if result.ratio is not None:
        results.print(f"deploykit takes {result.ratio:.2f}x the time of {against}")
