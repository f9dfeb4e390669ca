"""`deploykit run`: run an artifact on files or random inputs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from deploykit.cli.console import messages, print_json, results, table
from deploykit.cli.options import (
    ArtifactFolder,
    Inputs,
    Json,
    Lengths,
    OnDevice,
    OneSize,
    Threads,
    read_size,
    read_sources,
)
from deploykit.cli.saving import save
from deploykit.cli.verb import verb
from deploykit.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

    from deploykit.sessions.ragged_array import Ragged


_SHOWN, _LENGTHS = 4, 8
"""How many strings and how many lengths of an output the table shows."""


@verb
def run(
    artifact: ArtifactFolder,
    *,
    inputs: Inputs = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE.npz", help="Write all outputs.", show_default=False),
    ] = None,
    say: Annotated[
        str | None,
        typer.Option(
            "--prompt",
            metavar="TEXT",
            help="For a language model: a message to answer, or a text to continue if it knows no conversations.",
            show_default=False,
        ),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(
            "--text",
            metavar="TEXT",
            help="For a model of texts: a text, or the context of a question. May be repeated.",
            show_default=False,
        ),
    ] = None,
    question: Annotated[
        str | None,
        typer.Option(
            "--question", metavar="TEXT", help="For a model that answers questions about a text.", show_default=False
        ),
    ] = None,
    image: Annotated[
        list[Path] | None,
        typer.Option(
            "--image", metavar="FILE", help="For a model of pictures: a picture. May be repeated.", show_default=False
        ),
    ] = None,
    sound: Annotated[
        list[Path] | None,
        typer.Option(
            "--sound", metavar="FILE", help="For a model of sound: a wave file. May be repeated.", show_default=False
        ),
    ] = None,
    least: Annotated[
        float | None,
        typer.Option(
            "--least",
            metavar="SCORE",
            help="For a model that detects objects: objects with a score above this.",
            show_default="0.5",
        ),
    ] = None,
    at: OneSize = None,
    lengths: Lengths = None,
    instances: Annotated[
        Path | None,
        typer.Option(
            "--instances",
            metavar="FILE.json",
            help='For a dynamic model: a list of instances, such as [b]{"type": "Node", "left": ..., "right": ...}[/].',
            show_default=False,
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy", metavar="NAME", help="For a dynamic model: how the next batch is chosen.", show_default=False
        ),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            "--trace",
            metavar="FILE",
            help="For a dynamic model: draw which nodes each launch ran, .png or .svg.",
            show_default=False,
        ),
    ] = None,
    threads: Threads = 1,
    device: OnDevice = None,
    json_output: Json = False,
) -> None:
    """Run an artifact once and describe its outputs.

    Every input needs values:

    deploykit run dist --input x=x.npy --output y.npz

    deploykit run dist --input x=random:0 --at batch=7

    deploykit run dist --input words=cat,dog

    deploykit run dist --input ids=random:0 --lengths 12,80,7

    A dynamic model takes instances: deploykit run dist --instances trees.json

    A model of texts, from a Hugging Face folder: deploykit run dist --text "A cat sits on the mat."

    A model of pictures: deploykit run dist --image cat.jpg

    A model of both: deploykit run dist --image cat.jpg --text "a cat" --text "a dog"

    A model of sound: deploykit run dist --sound speech.wav

    A language model: deploykit run dist --prompt "What is the capital of France?"
    """
    from deploykit.checks.samples import sample_inputs
    from deploykit.cli.chat import run_prompt
    from deploykit.cli.instances import run_instances
    from deploykit.cli.pairs import run_pairs
    from deploykit.cli.pictures import run_pictures
    from deploykit.cli.sounds import run_sounds
    from deploykit.cli.texts import run_texts
    from deploykit.sessions.session import open as open_artifact
    from deploykit.sessions.structure import flattened

    for name, given, other, present in (
        ("policy", policy, "instances", instances),
        ("trace", trace, "instances", instances),
        ("least", least, "image", image),
    ):
        if given is not None and not present:
            raise UsageError(f"--{name} goes with --{other}")
    sizes = read_size(at or ())
    with open_artifact(artifact, threads=threads, device=device) as session:
        if say is not None:
            run_prompt(session, say, json_output=json_output)
            return
        if instances is not None:
            run_instances(session, instances, policy, trace, json_output=json_output)
            return
        if text and image:
            run_pairs(session, image, text, json_output=json_output)
            return
        if text or question is not None:
            run_texts(session, text or (), question, output, json_output=json_output)
            return
        if image:
            run_pictures(session, image, least, output, json_output=json_output)
            return
        if sound:
            run_sounds(session, sound, output, json_output=json_output)
            return
        if session.manifest.dynamic is not None:
            raise UsageError(f"'{session.manifest.name}' is a dynamic model: give it --instances FILE.json")
        sources = read_sources(session.manifest, inputs or (), lengths or ())
        arrays, dims = sample_inputs(session.manifest, sources, sizes)
        outputs = session.run(arrays)
    _print(
        dict(part for s in session.manifest.given for part in flattened(s, outputs[s.name])),
        dims,
        output,
        json_output=json_output,
    )


def _print(
    results_by_name: Mapping[str, np.ndarray | Ragged | None],
    dims: Mapping[str, int],
    output: Path | None,
    *,
    json_output: bool,
) -> None:
    """Describe the outputs, and write them to `output`."""
    if output is not None:
        save(output, results_by_name)
    summaries = [_summary(name, array) for name, array in results_by_name.items()]
    if json_output:
        print_json({"sizes": dims, "outputs": summaries, "file": output and str(output)})
        return
    if dims:
        messages.print("at " + ", ".join(f"{name}={size}" for name, size in dims.items()))
    texts = ["strings"] if any("strings" in summary for summary in summaries) else []
    ragged = ["lengths"] if any("lengths" in summary for summary in summaries) else []
    rows = table("output", "dtype", "shape", *ragged, ">smallest", ">mean", ">largest", *texts)
    for summary in summaries:
        numbers = (summary.get(key) for key in ("smallest", "mean", "largest"))
        rows.add_row(
            summary["name"],
            summary["dtype"],
            "" if summary["shape"] is None else str(summary["shape"]),
            *(_numbers(summary.get("lengths", ())) for _ in ragged),
            *("" if number is None else f"{number:.6g}" for number in numbers),
            *(Text(_line(summary.get("strings", ()))) for _ in texts),
        )
    results.print(rows)
    if output is not None:
        messages.print(f"wrote {output}")


def _numbers(lengths: Sequence[object]) -> str:
    """The first lengths in one line."""
    return ", ".join([str(length) for length in lengths[:_LENGTHS]] + ["..."] * (len(lengths) > _LENGTHS))


def _line(strings: Sequence[str]) -> str:
    """The first strings, quoted, in one line."""
    shown = [json.dumps(string, ensure_ascii=False) for string in strings[:_SHOWN]]
    return ", ".join(shown + ["..."] * (len(strings) > _SHOWN))


def _summary(name: str, array: np.ndarray | Ragged | None) -> dict[str, Any]:
    """The summary of one output: its dtype, its shape, and statistics of its numbers or all of its strings. Of a ragged
    output it is that of its values, with the lengths."""
    import numpy as np

    from deploykit.sessions.ragged_array import Ragged

    if isinstance(array, Ragged):
        return _summary(name, array.values) | {"lengths": array.lengths.tolist()}
    if array is None:
        return {"name": name, "dtype": "absent", "shape": None}
    if array.dtype == object:
        return {"name": name, "dtype": "string", "shape": list(array.shape), "strings": array.reshape(-1).tolist()}
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
