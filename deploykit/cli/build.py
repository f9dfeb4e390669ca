"""`deploykit build`: a model file in, an artifact folder out."""

from __future__ import annotations

import gc
import math
import time
import zipfile
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Self, cast

import typer
from rich.status import Status

from deploykit.cli.console import doubtful, messages, print_json, results, table, text_bytes, text_seconds
from deploykit.cli.explanation import show
from deploykit.cli.generated import with_options
from deploykit.cli.options import Dims, Inputs, Json, SeveralSizes, read_dims, read_sizes
from deploykit.cli.verb import verb
from deploykit.options.parts import CompileOptions, PlatformOptions, QuantizeOptions, WatchOptions
from deploykit.sources.base import frontends
from deploykit.targets.base import target_names

if TYPE_CHECKING:
    from deploykit.artifact.folder import Artifact, Together
    from deploykit.artifact.manifest import FileEntry, Manifest, SeveralManifest
    from deploykit.compiler.decisions import Explanation
    from deploykit.options.keywords import BuildKeywords

_LONGEST_FORMULA = 160
"""Characters of a formula that is printed."""
_USUAL_SIZE = 16
"""A size between the least and the greatest ones of a dim without bounds."""
_WIDE = 110
"""From this many columns on, checksums are shown in full; `manifest.json` always has them."""
_GARBAGE = 1_000_000
"""Objects after which garbage in cycles is looked for. A build makes many objects and few cycles; Python's default of
700 takes a tenth of the time of a small one."""


class Stage(StrEnum):
    """The stages of `deploykit.compiler.observer.STAGES` at which a build can stop."""

    IMPORT = "import"
    GRAPH = "graph"
    KERNELS = "kernels"
    PROGRAM = "program"
    EMIT = "emit"


@verb
@with_options(
    PlatformOptions, CompileOptions, *(each.Options for each in frontends().values()), QuantizeOptions, WatchOptions
)
def build(
    model: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...",
            help="; ".join(each.form for each in frontends().values() if each.form)
            + ". Several models make one artifact, for the target android.",
            show_default=False,
        ),
    ],
    *,
    target: Annotated[
        str,
        typer.Option("--target", "-t", metavar="TARGET", help=f"What to build for: {', '.join(target_names())}."),
    ] = "host",
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Where the artifact goes.")] = Path(
        "dist"
    ),
    dim: Dims = None,
    options: Mapping[str, Any],
    stop_after: Annotated[
        Stage | None,
        typer.Option(
            "--stop-after",
            metavar="STAGE",
            help=f"End the build after a stage: {', '.join(Stage)}.",
            show_default=False,
        ),
    ] = None,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Print what each pass over the graph did, which rule took each kernel, and why others did not.",
        ),
    ] = False,
    check: Annotated[
        bool | None,
        typer.Option(
            "--check/--no-check",
            help="Run the artifact at both ends of the bounds of its dims, or at the sizes of --at, and compare it "
            "with ONNX Runtime before it is put at the output path. Exit code 1, and no folder, if a result differs by "
            "more than rounding. By default for the target host, if ONNX Runtime is installed, for an ONNX file with "
            "at most 64 MiB of weights, at sizes with short runs.",
            show_default=False,
        ),
    ] = None,
    at: SeveralSizes = None,
    inputs: Inputs = None,
    json_output: Json = False,
) -> None:
    """Compile a model to a folder that runs without Python.

    The folder is written whole or not at all. Examples:

      deploykit build model.onnx -o dist

      deploykit build model.onnx --target embedded --dim batch=1 --dim seq=1..128 -o dist

      deploykit build model.onnx --dim batch=1..16 --check -o dist

      deploykit build encoder.onnx --ragged seq --dim seq=1..512 -o dist

      deploykit build model.onnx --explain --stop-after kernels

      deploykit build ops.py:attention -o dist

      deploykit build digits.onnx encoder.onnx --target android --set package=com.acme.models -o dist
    """
    explanations: list[Explanation] = []
    gc.set_threshold(_GARBAGE)
    with StageProgress() as progress:
        from deploykit.building import build as build_artifact
        from deploykit.checks.sources import parse_sources

        asked = {
            **options,
            "stop_after": stop_after.value if stop_after else None,
            "check": check,
            "check_at": read_sizes(at or ()),
            "check_inputs": parse_sources(inputs or ()),
            "on_stage": progress.begin,
            "on_explanation": explanations.append,
        }
        given = model[0] if len(model) == 1 else model
        artifact = build_artifact(given, target, read_dims(dim or ()), output, **cast("BuildKeywords", asked))
    explained = {"explain": [explanation.data() for explanation in explanations]} if explain else {}
    if explain and not json_output:
        show(explanations)
    from deploykit.artifact.folder import Together

    if artifact is None:
        where = f"; what the stages produced is in {options['dump_dir']}" if "dump_dir" in options else ""
        messages.print(f"Stopped after {stop_after}{where}.")
        if json_output and explain:
            print_json(explained)
    elif json_output:
        print_json({"output": str(artifact.path), "manifest": artifact.manifest.model_dump(mode="json"), **explained})
    elif isinstance(artifact, Together):
        results.print(files_table(artifact.manifest, f"{artifact.path}/  for {artifact.manifest.target}"))
        for line in (*archive_lines(artifact), *_times(artifact.manifest)):
            results.print(line)
    else:
        _show(artifact)


class StageProgress:
    """Shows the name of the running stage, and prints a line with the time of each finished one.

    Another thread may call `begin`: it takes locks for a moment only, and starts no thread.
    """

    def __enter__(self) -> Self:
        self._stage: str | None = None
        self._start = time.perf_counter()
        self._status: Status = messages.status("loading the compiler")
        self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._status.stop()
        self._end(done=kind is None)

    def begin(self, stage: str) -> None:
        self._end(done=True)
        self._stage, self._start = stage, time.perf_counter()
        self._status.update(stage)

    def _end(self, *, done: bool) -> None:
        if self._stage is not None:
            seconds = text_seconds(time.perf_counter() - self._start)
            messages.print(f"  {self._stage:<9}{seconds:>10}" if done else f"  {self._stage:<9}    failed")
        self._stage = None


def _show(artifact: Artifact) -> None:
    manifest = artifact.manifest
    results.print(files_table(manifest, f"{artifact.path}/  for {manifest.machine}"))
    for line in archive_lines(artifact):
        results.print(line)
    for line in (*memory_lines(manifest), *board_lines(artifact.path)):
        results.print(line)
    for line in _times(manifest):
        results.print(line)
    for note in manifest.notes:
        messages.print(doubtful("note:"), note)


def _times(manifest: Manifest | SeveralManifest) -> Sequence[str]:
    """How long each stage took, where that is known."""
    stages = [f"{stage} {text_seconds(seconds)}" for stage, seconds in manifest.times.items()]
    return [f"Time    {', '.join(stages)}"] if stages else []


def files_table(manifest: Manifest | SeveralManifest, title: str) -> object:
    """A table of an artifact's files with bytes, bytes after gzip, and sha256. An estimate is marked with `~`."""
    from deploykit.artifact.manifest import MEASURED_BELOW

    digits = 64 if results.width >= _WIDE else 12
    rows = table("file", ">bytes", ">gzip bytes", "sha256", title=title)
    for file in manifest.files:
        rows.add_row(file.name, f"{file.bytes:,}", _gzip_text(file), file.sha256[:digits])
    rows.add_section()
    estimated = any(file.bytes >= MEASURED_BELOW for file in manifest.files)
    packed = f"{'~' if estimated else ''}{sum(file.gzip_bytes for file in manifest.files):,}"
    rows.add_row("total", f"{sum(file.bytes for file in manifest.files):,}", packed, "")
    return rows


def archive_lines(artifact: Artifact | Together) -> Sequence[str]:
    """The native libraries within an archive of the artifact, with their bytes, also as they are compressed there."""
    lines: list[str] = []
    for file in artifact.manifest.files:
        if file.name.endswith(".aar"):
            with zipfile.ZipFile(artifact.path / file.name) as archive:
                libraries = [part for part in archive.infolist() if part.filename.endswith(".so")]
            sizes = [f"{part.file_size:,} bytes, {part.compress_size:,} compressed" for part in libraries]
            lines += [f"In AAR  {part.filename}: {size}" for part, size in zip(libraries, sizes, strict=True)]
    return lines


def _gzip_text(file: FileEntry) -> str:
    from deploykit.artifact.manifest import MEASURED_BELOW

    return f"{'~' if file.bytes >= MEASURED_BELOW else ''}{file.gzip_bytes:,}"


def board_lines(folder: Path) -> Sequence[str]:
    """What the model takes of its board, if the artifact is for one."""
    from deploykit.targets.embedded.boards.footprint import read_footprint

    found = read_footprint(folder)
    return [] if found is None else found.lines()


def memory_lines(manifest: Manifest) -> Sequence[str]:
    """Peak memory as a formula over dims, its value at the upper bounds, and the weights. In the place of a long
    formula there are its values at a few sizes."""
    memory = manifest.peak_memory
    bounds = ", ".join(f"{dim.name}={dim.maximum}" for dim in manifest.dims if dim.maximum is not None)
    unbounded = [dim.name for dim in manifest.dims if dim.maximum is None]
    least = "the least capacities; a run that needs more increases them"
    if len(memory.formula) > _LONGEST_FORMULA and manifest.dims:
        lines = _at_some_sizes(manifest)
    else:
        lines = [f"Memory  {memory.formula} bytes of arena for intermediate results"]
    if memory.at_bounds is not None and manifest.dims:
        lines.append(f"        {memory.at_bounds:,} bytes ({text_bytes(memory.at_bounds)}) at {bounds or least}")
    elif unbounded:
        lines.append(f"        no upper bound while {', '.join(unbounded)} has none (see --dim)")
    lines.append(f"        {memory.weights:,} bytes ({text_bytes(memory.weights)}) of weights")
    return lines


def _at_some_sizes(manifest: Manifest) -> list[str]:
    """Peak memory at the least sizes, and between them and the upper bounds."""
    from deploykit.artifact.formula import evaluate

    least = {dim.name: dim.minimum for dim in manifest.dims}
    between = {dim.name: math.isqrt(max(1, dim.minimum) * (dim.maximum or _USUAL_SIZE**2)) for dim in manifest.dims}
    lines = ["Memory  for intermediate results; `deploykit inspect DIR --json` has the formula over dims"]
    for sizes in (least, between):
        count = evaluate(manifest.peak_memory.formula, sizes)
        listed = ", ".join(f"{name}={size}" for name, size in sizes.items())
        lines.append(f"        {count:,} bytes ({text_bytes(count)}) at {listed}")
    return lines
