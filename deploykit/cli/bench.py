"""`deploykit bench`: how long a run takes, next to a peer, and where the time goes."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deploykit.cli.console import messages, print_json, results, table, text_bytes, text_seconds
from deploykit.cli.options import ArtifactFolder, Inputs, Json, Lengths, OnDevice, OneSize, read_size, read_sources
from deploykit.cli.verb import verb
from deploykit.cli.verify import Reference
from deploykit.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from deploykit.checks.benchmark import Benchmark
    from deploykit.checks.crowds import Crowded
    from deploykit.checks.profiling import Profile, Work


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
    lengths: Lengths = None,
    at: OneSize = None,
    threads: Annotated[int, typer.Option("--threads", min=1, help="Threads of each side.")] = 1,
    callers: Annotated[
        int | None,
        typer.Option(
            "--callers",
            min=1,
            help="Call one session from this many threads at a time: calls per second, median and 95 % of their times.",
            show_default=False,
        ),
    ] = None,
    device: OnDevice = None,
    seconds: Annotated[float, typer.Option("--seconds", min=0, help="How long to measure.")] = 3.0,
    profile: Annotated[
        bool,
        typer.Option(
            "--profile",
            help="Show the time of each kernel, its share, and how fast it computes and moves bytes.",
            show_default=False,
        ),
    ] = False,
    picture: Annotated[
        Path | None,
        typer.Option(
            "--picture",
            metavar="FILE",
            help="With --profile: draw kernels and steps as boxes as wide as their time, .png or .svg.",
            show_default=False,
        ),
    ] = None,
    json_output: Json = False,
) -> None:
    """Time an artifact, alone or in turn with a peer, and print medians and their ratio.

    Of a language model, it prints the tokens per second of prompts and of answers.

    Inputs without --input are random. With --callers, threads call one session of each side at the same time.
    """
    from deploykit.artifact.manifest import read_manifest

    task = read_manifest(artifact).task
    if task is not None and task.takes == "messages":
        if against is not None or profile or callers is not None or inputs or at:
            raise UsageError("a language model is timed by tokens: only --threads, --device and --seconds go with it")
        _bench_language(artifact, threads, device, seconds, json_output=json_output)
        return
    from deploykit.checks.benchmark import bench as bench_artifact
    from deploykit.checks.benchmark import bench_callers
    from deploykit.inspection import flame

    if picture is not None and not profile:
        raise UsageError("--picture draws a profile: add --profile")
    if callers is not None and profile:
        raise UsageError("--profile is for one caller: leave --callers out")
    given: dict[str, Any] = {
        "at": read_size(at or ()),
        "inputs": read_sources(read_manifest(artifact), inputs or (), lengths or ()),
        "against": against and against.value,
        "model": model,
        "threads": threads,
        "device": device,
        "seconds": seconds,
    }
    if callers is not None:
        with messages.status("measuring"):
            found = bench_callers(artifact, callers, **given)
        _show_callers(found, threads, against, json_output=json_output)
        return
    with messages.status("measuring"):
        result = bench_artifact(artifact, profile=profile, **given)
    sizes = _listed(result.sizes)
    if picture is not None and result.profile is not None:
        flame.draw(result.profile, f"{read_manifest(artifact).name}   {sizes}   {threads} thread(s)", picture)
    if json_output:
        print_json({"sizes": result.sizes, "threads": threads, **_document(result)})
        return
    _show(result, f"{sizes}, {threads} thread(s)", against)
    if result.profile is not None:
        _show_profile(result.profile)


def _bench_language(artifact: Path, threads: int, device: str | None, seconds: float, *, json_output: bool) -> None:
    """Tokens per second of prompts and of answers, and the memory."""
    from deploykit.checks.language_speed import speeds
    from deploykit.sessions.session import open as open_artifact

    with open_artifact(artifact, threads=threads, device=device) as session:
        with messages.status("measuring"):
            found = speeds(session, seconds)
        memory = session.memory
    if json_output:
        print_json({"threads": threads, "memory": memory._asdict(), "speeds": [asdict(speed) for speed in found]})
        return
    rows = table("", ">tokens per second", ">runs", title=f"{threads} thread(s)")
    for speed in found:
        rows.add_row(speed.what, f"{speed.rate:.1f}", str(speed.runs))
    results.print(rows)
    results.print(
        f"memory: weights {text_bytes(memory.weights)}, pages {text_bytes(memory.states)}, "
        f"results {text_bytes(memory.arenas)}"
    )


def _listed(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in sizes.items()) or "fixed sizes"


def _show_callers(result: Crowded, threads: int, against: Reference | None, *, json_output: bool) -> None:
    if json_output:
        print_json({**asdict(result), "threads": threads, "ratio": result.ratio})
        return
    title = f"{_listed(result.sizes)}, {result.callers} caller(s), {threads} thread(s) each"
    rows = table("", ">calls per second", ">median", ">95 %", ">calls", title=title)
    for load in result.loads:
        rate = f"{load.per_second:.{0 if load.per_second >= 100 else 2}f}"
        rows.add_row(load.name, rate, text_seconds(load.median), text_seconds(load.p95), str(load.calls))
    results.print(rows)
    if result.ratio is not None:
        results.print(f"deploykit answers {result.ratio:.2f}x as many calls as {against}")


def _document(result: Benchmark) -> dict[str, Any]:
    timings = [result.ours, *([result.peer] if result.peer else [])]
    document: dict[str, Any] = {"timings": [asdict(timing) for timing in timings], "ratio": result.ratio}
    if (profile := result.profile) is not None:
        document["profile"] = {
            "seconds": profile.seconds,
            "runs": profile.runs,
            "kernels": [{**asdict(kernel), "share": profile.share(kernel)} for kernel in profile.kernels()],
            "steps": [{**asdict(step), "share": profile.share(step)} for step in profile.steps],
        }
    return document


def _show(result: Benchmark, title: str, against: Reference | None) -> None:
    rows = table("", ">median", ">fastest", ">10 %", ">90 %", ">runs", title=title)
    for timing in [result.ours, *([result.peer] if result.peer else [])]:
        times = (timing.median, timing.fastest, timing.p10, timing.p90)
        rows.add_row(timing.name, *(text_seconds(value) for value in times), str(timing.runs))
    results.print(rows)
    if result.ratio is not None:
        results.print(f"deploykit takes {result.ratio:.2f}x the time of {against}")


def _show_profile(profile: Profile) -> None:
    title = f"{text_seconds(profile.seconds)} in kernels and copies, each the fastest of {profile.runs} runs"
    rows = table("kernel", ">calls", ">time", ">share", ">GFLOP/s", ">GB/s", title=title)
    for kernel in profile.kernels():
        share = f"{100 * profile.share(kernel):.1f} %"
        rows.add_row(kernel.name, str(kernel.calls), text_seconds(kernel.seconds), share, *_speeds(kernel))
    results.print(rows)


def _speeds(work: Work) -> tuple[str, str]:
    flops, traffic = work.flops_per_second, work.bytes_per_second
    return f"{flops / 1e9:.1f}" if flops else "", f"{traffic / 1e9:.1f}" if traffic else ""
