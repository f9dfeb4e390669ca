"""`deploykit verify`: an artifact against a reference, at several sizes of each symbolic dim."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from deploykit.cli.console import bad, doubtful, good, messages, print_json, results, table
from deploykit.cli.options import (
    ArtifactFolder,
    Inputs,
    Json,
    Lengths,
    OnDevice,
    SeveralSizes,
    Threads,
    read_sizes,
    read_sources,
)
from deploykit.cli.verb import verb
from deploykit.errors import MismatchError, UsageError

if TYPE_CHECKING:
    from deploykit.checks.comparison import Difference
    from deploykit.checks.verify import Report


class Reference(StrEnum):
    """The names in `deploykit.checks.reference.REFERENCES`."""

    ONNXRUNTIME = "onnxruntime"
    ONNX = "onnx"


@verb
def verify(
    artifact: ArtifactFolder,
    *,
    model: Annotated[
        Path | None,
        typer.Option(
            "--model",
            "-m",
            metavar="MODEL",
            help="The model to compare with; by default the file that the artifact was built from, when it is found "
            "in this folder or beside the artifact. Or another artifact of the same model.",
            show_default=False,
        ),
    ] = None,
    at: SeveralSizes = None,
    inputs: Inputs = None,
    lengths: Lengths = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of inputs that --input does not name.")] = 0,
    reference: Annotated[Reference, typer.Option("--reference", help="What to compare with.")] = Reference.ONNXRUNTIME,
    rtol: Annotated[
        float | None,
        typer.Option("--rtol", min=0, help="Relative tolerance.", show_default="1e-3, 1e-2 for 16-bit floats"),
    ] = None,
    atol: Annotated[
        float | None,
        typer.Option("--atol", min=0, help="Absolute tolerance.", show_default="1e-5, 1e-2 for 16-bit floats"),
    ] = None,
    threads: Threads = 1,
    device: OnDevice = None,
    json_output: Json = False,
) -> None:
    """Run an artifact and a reference on the same inputs; print the largest errors of each output.

    Without --at a dim has the size in the files given for inputs, else the smallest size, an odd one and a larger one
    within its bounds.

    Exit code 1 if an output is out of tolerance: |actual - expected| > atol + rtol * |expected|. Relative and ULP
    errors are taken where the expected value is at least atol in magnitude.

    Some models amplify rounding. Without --rtol and --atol an output out of tolerance is not judged if its error is at
    most 12 times the effect on the reference of changing weights and inputs in their last bit.
    """
    from deploykit.artifact.manifest import read_manifest
    from deploykit.checks.comparison import Tolerance
    from deploykit.checks.verify import mismatch, undecided
    from deploykit.checks.verify import verify as verify_artifact

    if (rtol is None) != (atol is None):
        raise UsageError("give both --rtol and --atol, or neither")
    tolerance = Tolerance(rtol, atol) if rtol is not None and atol is not None else None
    with messages.status("verifying"):
        report = verify_artifact(
            artifact,
            model,
            at=read_sizes(at or ()),
            inputs=read_sources(read_manifest(artifact), inputs or (), lengths or ()),
            seed=seed,
            tolerance=tolerance,
            reference=reference.value,
            threads=threads,
            device=device,
        )
    if json_output:
        print_json(_document(report))
    else:
        _show(report)
    if report.wrong:
        raise MismatchError(mismatch(report))
    if report.within:
        messages.print(good("All outputs are within tolerance."))
    for note in undecided(report):
        messages.print(doubtful(note))


def _document(report: Report) -> dict[str, Any]:
    checks = [
        {
            "sizes": check.sizes,
            "skipped": check.skipped,
            "within": check.within,
            "outputs": [
                {**asdict(difference), "within": difference.within, "wrong": difference.wrong}
                for difference in check.differences
            ],
        }
        for check in report.checks
    ]
    where = {"where": report.where} if report.where else {}
    return {"reference": report.reference, **where, "within": report.within, "wrong": report.wrong, "checks": checks}


def _show(report: Report) -> None:
    from deploykit.checks.verify import sizes_text

    rows = table("sizes", "output", "shape", ">max abs", ">max rel", ">max ULP", f"against {report.reference}")
    for check in report.checks:
        sizes = sizes_text(check)
        if check.skipped:
            rows.add_row(sizes, "", "", "", "", "", doubtful(f"skipped: {check.skipped}"))
        for difference in check.differences:
            rows.add_row(sizes, *_cells(difference))
            sizes = ""
    results.print(rows)
    if report.where:
        messages.print(f"Ran {report.where}.")


def _cells(difference: Difference) -> tuple[str | Text, ...]:
    from deploykit.checks.verify import error_text, fault

    if difference.undecided:
        verdict = doubtful(f"not judged: {difference.roundings:.1f} times the effect of rounding")
    else:
        verdict = good("within tolerance") if difference.within else bad(fault(difference))
    numbers = (error_text(difference), f"{difference.relative:.3g}")
    ulp = "" if difference.ulp is None else f"{difference.ulp:,}"
    return (difference.name, str(list(difference.shape)), *numbers, ulp, verdict)
