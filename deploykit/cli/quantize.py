"""`deploykit quantize`: an ONNX file of floats in, one of integers out."""

from __future__ import annotations

import importlib.util
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deploykit.cli.console import doubtful, messages, print_json, results, table, text_bytes
from deploykit.cli.options import Json
from deploykit.cli.verb import verb
from deploykit.errors import ToolchainError

if TYPE_CHECKING:
    from deploykit.quantization.static import Quantized


class Method(StrEnum):
    """The names in `deploykit.quantization.static.METHODS`."""

    MINMAX = "minmax"
    PERCENTILE = "percentile"
    ENTROPY = "entropy"


class Weights(StrEnum):
    """What weights are."""

    INT8 = "int8"
    INT4 = "int4"


class Activations(StrEnum):
    """What intermediate results are."""

    INT8 = "int8"
    INT16 = "int16"


class Ends(StrEnum):
    """What inputs and outputs are."""

    FLOAT = "float"
    INT8 = "int8"
    INT16 = "int16"


@verb
def quantize(
    model: Annotated[Path, typer.Argument(metavar="MODEL.onnx", help="An ONNX file in float32.", show_default=False)],
    *,
    calibrate: Annotated[
        list[Path],
        typer.Option(
            "--calibrate",
            metavar="FILE.npz",
            help="Samples of the inputs: an array for each, whose first axis counts samples. Or a folder of such "
            "files. May be repeated.",
            show_default=False,
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE.onnx", help="Where the model goes.")] = Path(
        "int8.onnx"
    ),
    method: Annotated[
        Method, typer.Option("--method", help="How ranges of activations are found from samples.")
    ] = Method.MINMAX,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            "--keep",
            metavar="NAME",
            help="A node that stays in float, by its name or that of its result; or all nodes of an operator, such as "
            "Softmax. May be repeated.",
            show_default=False,
        ),
    ] = None,
    weights: Annotated[
        Weights,
        typer.Option("--weights", help="What weights are; int4 takes half the flash and loses more."),
    ] = Weights.INT8,
    activations: Annotated[
        Activations,
        typer.Option(
            "--activations", help="What intermediate results are; int16 takes twice the memory and loses less."
        ),
    ] = Activations.INT8,
    ends: Annotated[
        Ends,
        typer.Option("--io", help="What inputs and outputs are; integers leave out the conversions at both ends."),
    ] = Ends.FLOAT,
    json_output: Json = False,
) -> None:
    """Make an ONNX file of integers, with ranges of activations from samples; print what it loses.

    The file is in QDQ form: weights are symmetric with a scale for each channel, activations int8 with a zero point, or
    symmetric int16. Of five runs or more, one in five is held out of calibration, and accuracy is measured on these.

      deploykit quantize model.onnx --calibrate inputs.npz -o int8.onnx
    """
    if importlib.util.find_spec("onnxruntime") is None:
        raise ToolchainError("onnxruntime quantises models, and is not installed; run: pip install onnxruntime")
    with messages.status("reading samples") as status:
        from deploykit.quantization.static import quantize as quantize_model

        found = quantize_model(
            model,
            calibrate,
            output,
            method=method.value,
            keep=keep or (),
            weights=weights.value,
            activations=activations.value,
            ends=ends.value,
            on_step=status.update,
        )
    if json_output:
        print_json({"output": str(output), **asdict(found)})
    else:
        _show(found, output)


def _show(found: Quantized, output: Path) -> None:
    count = "1 run" if found.compared == 1 else f"{found.compared} runs"
    runs = f"{count} that calibration has not seen" if found.held_out else "the runs of calibration"
    rows = table("output", ">max error", ">largest number", ">cosine", ">same argmax", title=f"Accuracy over {runs}")
    for each in found.outputs:
        share = "" if each.same_argmax is None else f"{each.same_argmax:.1%}"
        rows.add_row(each.name, f"{each.largest:.3g}", f"{each.magnitude:.3g}", f"{each.cosine:.5f}", share)
    results.print(rows)
    layers = table("tensor", "computed by", ">signal to noise", title="What loses most")
    for loss in found.layers:
        layers.add_row(loss.tensor, f"{loss.operator} {loss.node}", f"{loss.decibels:.1f} dB")
    if found.layers:
        results.print(layers)
    if not found.held_out:
        messages.print(
            doubtful("There are fewer than five runs: none was held out, so accuracy looks better than it is.")
        )
    for note in found.notes:
        messages.print(doubtful(note))
    sizes = f"{text_bytes(found.after)} instead of {text_bytes(found.before)}"
    messages.print(f"Wrote {output}: {sizes}, calibrated with {found.calibrated} runs.")
