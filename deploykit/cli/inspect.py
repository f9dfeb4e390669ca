"""`deploykit inspect`: what is in a model file, a Hugging Face folder or an artifact folder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from deploykit.cli.build import board_lines, files_table, memory_lines
from deploykit.cli.console import messages, print_json, results, table, text_bytes
from deploykit.cli.options import Dims, Json, read_dims, read_size
from deploykit.cli.verb import verb
from deploykit.errors import Problem, UnsupportedModelError, UsageError

if TYPE_CHECKING:
    from deploykit.artifact.manifest import DimEntry, DynamicEntry, Manifest, PortEntry
    from deploykit.inspection.folder import FolderReport
    from deploykit.inspection.lengths import LengthsReport
    from deploykit.inspection.model import ModelReport
    from deploykit.inspection.reports import ArtifactReport


@verb
def inspect(
    what: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL|DIR", help="An ONNX file, a Hugging Face folder, or an artifact folder.", show_default=False
        ),
    ],
    *,
    dim: Dims = None,
    plan_picture: Annotated[
        Path | None,
        typer.Option(
            "--plan-picture",
            metavar="FILE",
            help="Draw the memory plan of an artifact, arena offset over step: a .png or .svg file.",
            show_default=False,
        ),
    ] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(
            "--at",
            metavar="NAME=SIZE",
            help="Size of a symbolic dim to draw at; by default its maximum. Several are separated by commas, or the "
            "option is repeated.",
            show_default=False,
        ),
    ] = None,
    lengths: Annotated[
        list[str] | None,
        typer.Option(
            "--lengths",
            metavar="LENGTHS",
            help="Lengths of the instances of ragged inputs, [b]12,80,7[/]: the memory that they need, the arithmetic "
            "that padding would waste, and the picture for them. If several inputs have lengths, [b]NAME=12,80,7[/] "
            "for each.",
            show_default=False,
        ),
    ] = None,
    export: Annotated[
        bool,
        typer.Option(
            "--export",
            help="Export a Hugging Face folder that PyTorch imports, which may take minutes, to tell its inputs, "
            "outputs and dims.",
        ),
    ] = False,
    json_output: Json = False,
) -> None:
    """Describe a model or an artifact without running it.

    A model: operators and counts, symbolic dims with bounds, every unsupported operator with node, opset and reason,
    floating-point operations and bytes moved as formulas. Exit code 3 when the model cannot be compiled.

    A Hugging Face folder: the route by which it is imported and why, its tokenizer, what a session does with texts,
    inputs, outputs and dims. Exit code 3 when no route covers it.

    An artifact: inputs, outputs, dims, files, memory, the steps of its program, and a picture of its memory plan.
    """
    from deploykit.inspection.reports import ArtifactReport
    from deploykit.inspection.reports import inspect as described

    if not what.is_dir() and (plan_picture is not None or at or lengths):
        raise UsageError("--plan-picture, --at and --lengths go with an artifact folder; build the model first")
    if at and plan_picture is None and not lengths:
        raise UsageError("--at gives sizes for --plan-picture, which is not asked for")
    report = described(what, read_dims(dim or ()), export=export)
    if isinstance(report, ArtifactReport):
        given = _read_lengths(report, lengths) if lengths else None
        sizes = read_size(at or ())
        at_lengths = report.at_lengths(given, sizes) if given else None
        _print_artifact(report, what, at_lengths, json_output=json_output)
        if plan_picture is not None:
            report.draw(plan_picture, sizes, given)
            messages.print(f"drew {plan_picture}")
        return
    from deploykit.inspection.folder import FolderReport

    if isinstance(report, FolderReport):
        _print_folder(report, json_output=json_output)
    else:
        _print_model(report, json_output=json_output)


def _print_folder(report: FolderReport, *, json_output: bool) -> None:
    if json_output:
        print_json(_document(report) | {"supported": report.supported})
    else:
        _show_folder(report)
    if not report.supported:
        raise UnsupportedModelError(report.reason)


def _show_folder(report: FolderReport) -> None:
    results.print(f"{report.name}  {report.architecture}, a model of type '{report.model_type}'", markup=False)
    if report.route is not None:
        results.print(f"Route     {report.route}: {report.reason}", markup=False)
    if report.tokenizer:
        results.print(f"Tokenizer {report.tokenizer}")
    if report.session:
        limit = "" if report.most_tokens is None else f", of at most {report.most_tokens} tokens"
        results.print(f"Session   {report.session}{limit}")
    if report.labels:
        results.print(f"Classes   {', '.join(report.labels)}", markup=False)
    if report.inputs:
        _show_interface(report.inputs, report.outputs, report.dims)
    size = f"{report.weight_bytes:,} bytes ({text_bytes(report.weight_bytes)}) in {report.weights} tensors"
    results.print(f"Weights   {size}")
    for note in report.notes:
        results.print(f"Note      {note}", markup=False)


def _document(report: ModelReport | FolderReport) -> dict[str, Any]:
    ports = {
        key: [port.model_dump(mode="json") for port in getattr(report, key)] for key in ("inputs", "outputs", "dims")
    }
    return asdict(report) | ports


def _print_model(report: ModelReport, *, json_output: bool) -> None:
    if json_output:
        print_json(_document(report) | {"supported": report.supported})
    else:
        _show_model(report)
    if not report.supported:
        raise UnsupportedModelError(f"{report.name} cannot be compiled because of {len(report.problems)} nodes")


def _show_model(report: ModelReport) -> None:
    opsets = ", ".join(f"{domain} {version}" for domain, version in report.opsets.items())
    results.print(f"{report.name}  {sum(report.operators.values())} nodes, opset {opsets}")
    _show_interface(report.inputs, report.outputs, report.dims)
    rows = table("operator", ">nodes")
    for operator, count in report.operators.items():
        rows.add_row(operator, str(count))
    results.print(rows)
    results.print(
        f"Weights  {report.weight_bytes:,} bytes ({text_bytes(report.weight_bytes)}) in {report.weights} tensors"
    )
    if report.flops is not None:
        results.print(f"FLOPs    {report.flops}")
        results.print(f"Bytes    {report.traffic}  (read and written, before fusion)")
    if report.problems:
        _show_problems(report.problems)
    for note in report.notes:
        results.print(f"Note     {note}")


def _show_problems(problems: Iterable[Problem]) -> None:
    rows = table("not supported", ">opset", "node", "reason")
    for problem in problems:
        rows.add_row(problem.operator, str(problem.opset), problem.node, problem.reason)
    results.print(rows)


def _read_lengths(report: ArtifactReport, texts: Sequence[str]) -> dict[str, list[int]]:
    from deploykit.checks.lengths import read_lengths
    from deploykit.sessions.ragged_ports import ragged_ports

    sources = read_lengths(ragged_ports(report.manifest), texts)
    return {name: source.value.tolist() for name, source in sources.items()}


def _print_artifact(report: ArtifactReport, folder: Path, lengths: LengthsReport | None, *, json_output: bool) -> None:
    if json_output:
        document = {key: getattr(report, key).model_dump(mode="json") for key in ("manifest", "plan")}
        print_json(document | ({"lengths": {**asdict(lengths), "wasted": lengths.wasted}} if lengths else {}))
        return
    _show_artifact(report.manifest, folder)
    if lengths is not None:
        _show_lengths(lengths)
    results.print()
    results.print(report.listing, end="")


def _show_lengths(report: LengthsReport) -> None:
    sizes = ", ".join(f"{name}={size}" for name, size in report.sizes.items())
    for name, lengths in report.lengths.items():
        longest = max(lengths, default=0)
        padded = f"{len(lengths) * longest:,} if padded to the longest, {longest:,}"
        results.print(f"Lengths {name}: {len(lengths)} instances, {sum(lengths):,} in total, {padded}")
    results.print(f"        {report.arena:,} bytes ({text_bytes(report.arena)}) of arena at {sizes}")
    if report.wasted is not None:
        steps = f"{report.uncounted} {'step' if report.uncounted == 1 else 'steps'}"
        left = f", not counting {steps} whose cost depends on data" if report.uncounted else ""
        results.print(
            f"        {100 * report.wasted:.1f} % of the arithmetic would be wasted if all were padded to the longest: "
            f"{report.padded:,} instead of {report.useful:,} operations{left}"
        )


def _show_artifact(manifest: Manifest, folder: Path) -> None:
    results.print(f"{manifest.name}  for {manifest.machine}, by {manifest.generator}")
    if manifest.dynamic is not None:
        _show_dynamic(manifest.dynamic)
    _show_interface(manifest.inputs, manifest.outputs, manifest.dims)
    results.print(files_table(manifest, f"{folder}/"))
    for line in (*memory_lines(manifest), *board_lines(folder)):
        results.print(line)
    for note in manifest.notes:
        results.print(f"Note    {note}")


def _show_dynamic(entry: DynamicEntry) -> None:
    """What a dynamic model takes and returns, its functions and its cells."""
    from deploykit.dynamic.policies import MEANINGS

    takes = ", ".join(f"{name}: {kind}" for name, kind in entry.takes.items())
    results.print(f"main({takes}) -> {entry.gives}", markup=False)
    for union, variants in entry.unions.items():
        forms = (f"{v.name}({', '.join(f'{name}: {kind}' for name, kind in v.fields.items())})" for v in variants)
        results.print(f"{union}: {' or '.join(forms)}", markup=False)
    rows = table("function", "calls", "records nodes of", "waits for tensors")
    for each in entry.functions:
        calls = (f"{name} at once" if name in each.together else name for name in each.calls)
        rows.add_row(each.name, ", ".join(calls), ", ".join(each.cells), "yes" if each.waits else "no")
    results.print(rows)
    rows = table("cell", "takes", "gives", ">operators", ">side by side", ">copied")
    for cell in entry.cells:
        numbers = [f"{cell.numbers} int"] if cell.numbers else []
        takes, gives = ", ".join([*cell.takes, *numbers]), ", ".join(cell.gives)
        operators = f"{cell.written} -> {cell.operators}" if cell.operators < cell.written else str(cell.operators)
        counts = ["look-up", "0", "0"] if cell.looked_up else [operators, str(cell.beside), str(cell.gathered)]
        rows.add_row(cell.name, Text(takes), Text(gives), *counts)
    results.print(rows)
    rows = table(">phase", "cell", "after", ">depth", ">words a node", ">elements a node")
    for cell in sorted(entry.cells, key=lambda cell: cell.phase):
        depth = "by instance" if cell.depth is None else str(cell.depth)
        rows.add_row(str(cell.phase), cell.name, ", ".join(cell.after), depth, str(cell.words), str(cell.elements))
    results.print(rows)
    results.print(f"Policy  {entry.policy}: {MEANINGS[entry.policy]}")
    words = " + ".join(f"{4 * cell.words}*{cell.name}" for cell in entry.cells)
    elements = " + ".join(f"{4 * cell.elements}*{cell.name}" for cell in entry.cells)
    results.print(f"Nodes   {words} bytes of control flow, counting the nodes of each cell;")
    results.print(f"        {elements} bytes of tensors")


def _show_interface(inputs: Iterable[PortEntry], outputs: Iterable[PortEntry], dims: Iterable[DimEntry]) -> None:
    rows = table("", "name", "dtype", "shape")
    for direction, ports in (("input", inputs), ("output", outputs)):
        for port in ports:
            rows.add_row(direction, port.name, port.dtype, _shape(port))
    for dim in dims:
        upper = "" if dim.maximum is None else dim.maximum
        rows.add_row(
            "dim", dim.name, "", f"{dim.minimum}..{upper}" + (f" of {dim.capacity_of}" if dim.capacity_of else "")
        )
    results.print(rows)


def _shape(port: PortEntry) -> str:
    """The shape of a port; of a ragged one that of an instance, and that of the values of all."""
    shape = f"[{', '.join(map(str, port.shape))}]"
    return shape if port.instance is None else f"[{', '.join(map(str, port.instance))}] each, in {shape}"
