"""`deploykit build`: a model file in, an artifact folder out."""

from __future__ import annotations

import time
import zipfile
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Self

import typer
from rich.status import Status

from deploykit.cli.console import doubtful, messages, print_json, results, table, text_bytes, text_seconds
from deploykit.cli.explanation import show
from deploykit.cli.options import Dims, Inputs, Json, SeveralSizes, read_dims, read_sizes
from deploykit.cli.verb import verb
from deploykit.errors import UsageError
from deploykit.targets.base import target_names

if TYPE_CHECKING:
    from deploykit.artifact.folder import Artifact
    from deploykit.artifact.manifest import FileEntry, Manifest
    from deploykit.compiler.decisions import Explanation

_WIDE = 110
"""From this many columns on, checksums are shown in full; `manifest.json` always has them."""


class Stage(StrEnum):
    """The stages of `deploykit.compiler.observer.STAGES` at which a build can stop."""

    IMPORT = "import"
    GRAPH = "graph"
    KERNELS = "kernels"
    PROGRAM = "program"
    EMIT = "emit"


class Way(StrEnum):
    """The routes of `deploykit.frontends.huggingface.importer`."""

    OWN = "own"
    TORCH = "torch"


@verb
def build(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="An ONNX file; a Hugging Face folder, or one on the Hub, hf://org/name, which is downloaded; "
            "models.py:NAME, a dynamic model (class of deploykit.dynamic) in a Python file; or "
            "ops.py:NAME, an operator of deploykit.ragged.",
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
    cpu: Annotated[
        str,
        typer.Option(
            "--cpu",
            metavar="CPU",
            help="The CPU that native kernels are compiled for: native (this machine), x86-64-v2, x86-64-v3, "
            "x86-64-v4, armv8-a or armv8.2-a; + adds features, as in armv8.2-a+dotprod. portable puts kernels for all "
            "x86-64 levels into one artifact. Target android has levels of its own, down to armv7-a.",
        ),
    ] = "native",
    device: Annotated[
        list[str] | None,
        typer.Option(
            "--device",
            metavar="DEVICES",
            help="What else to make kernels for, with the targets host and android: [b]vulkan[/], [b]opencl[/] or "
            "both, with a comma between them. vulkan:discrete is for graphics cards; further classes are "
            "mobile (the usual one), integrated and software.",
            show_default=False,
        ),
    ] = None,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="The form of the artifact, for targets that have several: for "
            "android, aar (a library for Java and Kotlin) or so (libraries for C and C++).",
            show_default=False,
        ),
    ] = "",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="What only this target can be told: for android, "
            "[b]package=com.acme.model[/], [b]group=com.acme[/] and [b]version=1.2.0[/]. May be repeated.",
            show_default=False,
        ),
    ] = None,
    fuse: Annotated[
        bool,
        typer.Option(
            "--fuse/--no-fuse",
            help="Compute several operators in one kernel, which is faster. With --no-fuse each operator has its own "
            "kernels, which shows what each computes and costs; in a dynamic model, equal products stay apart, too.",
        ),
    ] = True,
    fast_math: Annotated[
        bool,
        typer.Option(
            "--fast-math",
            help="Use shorter forms of exp, tanh, sigmoid, erf, log, sin, cos and pow, with errors of up to 4 units in "
            "the last place instead of 2.",
        ),
    ] = False,
    index_checks: Annotated[
        bool,
        typer.Option(
            "--index-checks/--no-index-checks",
            help="Refuse runs with indices out of range, such as a token that is not in the vocabulary. With "
            "--no-index-checks such an index takes the nearest element.",
        ),
    ] = True,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact",
            help="Compute every row in the same order, whatever the size of the batch: the results of a sequence then "
            "have the same bits alone and in any batch. Products with a single row are slower.",
        ),
    ] = False,
    seed_input: Annotated[
        str | None,
        typer.Option(
            "--seed-input",
            metavar="NAME",
            help="Add an int64 scalar input that random numbers depend on if the model gives no seed.",
            show_default=False,
        ),
    ] = None,
    ragged: Annotated[
        list[str] | None,
        typer.Option(
            "--ragged",
            metavar="DIM",
            help="A dim that has another size for each element of the batch, such as the length of a sentence: "
            "[b]seq[/], or with the dim of the batch [b]seq:batch[/]. The model takes padded batches and a mask; the "
            "artifact takes the elements one after the other and their lengths, and computes no padding.",
            show_default=False,
        ),
    ] = None,
    mask: Annotated[
        list[str] | None,
        typer.Option(
            "--mask",
            metavar="NAME",
            help="For --ragged: an input that is 1 where there is data and 0 in the padding, or that holds lengths. "
            "By default, one with a usual name, such as attention_mask.",
            show_default=False,
        ),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(
            "--weights",
            metavar="FILE",
            help="For a dynamic model: its weights, a .safetensors or .npz file. Without it they are random.",
            show_default=False,
        ),
    ] = None,
    samples: Annotated[
        Path | None,
        typer.Option(
            "--samples",
            metavar="FILE",
            help="For a dynamic model: a .json file with a list of instances. A policy of batches is learned from "
            "them, and the policy with the fewest launches is taken. For --quantize: a list of texts.",
            show_default=False,
        ),
    ] = None,
    route: Annotated[
        Way | None,
        typer.Option(
            "--route",
            help="How a Hugging Face folder is read: by a family of deploykit ([b]own[/]), or exported by PyTorch "
            "([b]torch[/]); by default the first one that covers its architecture.",
            show_default=False,
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy",
            metavar="NAME",
            help="For a dynamic model, how the next batch is chosen: critical, depth, agenda, fsm (learned from "
            "--samples) or alone (no batches).",
            show_default=False,
        ),
    ] = None,
    quantize: Annotated[
        str | None,
        typer.Option(
            "--quantize",
            metavar="KIND",
            help="Store large weights as [b]int8[/], a quarter of the bytes, and compute with integers; or as "
            "[b]fp16[/], half of the bytes. The change of results is measured and printed; for a model of texts, on "
            "those in the .json list of --samples, if given.",
            show_default=False,
        ),
    ] = None,
    dump_dir: Annotated[
        Path | None,
        typer.Option("--dump-dir", metavar="DIR", help="Write what each stage produced.", show_default=False),
    ] = None,
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
    """
    explanations: list[Explanation] = []
    with StageProgress() as progress:
        from deploykit.building import build as build_artifact
        from deploykit.checks.sources import parse_sources

        for given, option in ((inputs, "--input gives values"), (at, "--at gives sizes")):
            if given and not check:
                raise UsageError(f"{option} for --check, which is not asked for")
        bounds = read_dims(dim or ())
        artifact = build_artifact(
            model,
            target=target,
            dims=bounds,
            output=output,
            cpu=cpu,
            format=form,
            settings=dict(_setting(text) for text in settings or ()),
            fuse=fuse,
            fast_math=fast_math,
            index_checks=index_checks,
            exact=exact,
            devices=[name for text in device or () for name in text.split(",")],
            seed_input=seed_input,
            ragged=dict(_pair(name) for name in ragged) if ragged else None,
            masks=mask,
            weights=weights,
            samples=samples,
            policy=policy,
            quantize=quantize,
            route=None if route is None else route.value,
            dump_dir=dump_dir,
            stop_after=stop_after.value if stop_after else None,
            check=check,
            check_at=read_sizes(at or ()),
            check_inputs=parse_sources(inputs or ()),
            on_stage=progress.begin,
            on_explanation=explanations.append,
        )
    explained = {"explain": [explanation.data() for explanation in explanations]} if explain else {}
    if explain and not json_output:
        show(explanations)
    if artifact is None:
        where = f"; what the stages produced is in {dump_dir}" if dump_dir else ""
        messages.print(f"Stopped after {stop_after}{where}.")
        if json_output and explain:
            print_json(explained)
    elif json_output:
        print_json({"output": str(artifact.path), "manifest": artifact.manifest.model_dump(mode="json"), **explained})
    else:
        _show(artifact)


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--set takes NAME=VALUE, found '{text}'")
    return name, value


def _pair(name: str) -> tuple[str, str]:
    """A ragged dim and the dim of its batch, which may be left out."""
    dim, _, batch = name.partition(":")
    return dim, batch


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
    for line in memory_lines(manifest):
        results.print(line)
    stages = [f"{stage} {text_seconds(seconds)}" for stage, seconds in manifest.times.items()]
    if stages:
        results.print(f"Time    {', '.join(stages)}")
    for note in manifest.notes:
        messages.print(doubtful("note:"), note)


def files_table(manifest: Manifest, title: str) -> object:
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


def archive_lines(artifact: Artifact) -> Sequence[str]:
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


def memory_lines(manifest: Manifest) -> Sequence[str]:
    """Peak memory as a formula over dims, its value at the upper bounds, and the weights."""
    memory = manifest.peak_memory
    bounds = ", ".join(f"{dim.name}={dim.maximum}" for dim in manifest.dims if dim.maximum is not None)
    unbounded = [dim.name for dim in manifest.dims if dim.maximum is None]
    least = "the least capacities; a run that needs more increases them"
    lines = [f"Memory  {memory.formula} bytes of arena for intermediate results"]
    if memory.at_bounds is not None and manifest.dims:
        lines.append(f"        {memory.at_bounds:,} bytes ({text_bytes(memory.at_bounds)}) at {bounds or least}")
    elif unbounded:
        lines.append(f"        no upper bound while {', '.join(unbounded)} has none (see --dim)")
    lines.append(f"        {memory.weights:,} bytes ({text_bytes(memory.weights)}) of weights")
    return lines
