"""`quantize`: a model in QDQ form by ONNX Runtime's quantiser, whole or not at all.

Weights are symmetric int8 or int4 with a scale for each output channel. Activations are int8 with one scale and a zero
point, or symmetric int16 with one scale. The model is prepared first: constants are folded, batch norms become part of
convolutions, shapes are inferred. Where there are enough samples, a part of them is held out of calibration, and
accuracy is measured on that part.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import onnx
from onnx import version_converter

from deploykit.basics.scratch import Scratch
from deploykit.basics.whole_file import whole_file
from deploykit.errors import ToolchainError, UnsupportedModelError, UsageError
from deploykit.frontends.onnx.reader import read
from deploykit.quantization.static.accuracy import (
    LayerLoss,
    OutputAccuracy,
    Reader,
    layers_that_lose_most,
    outputs_accuracy,
)
from deploykit.quantization.static.clips import clip_before_rounding
from deploykit.quantization.static.ends import with_integer_ends
from deploykit.quantization.static.samples import Feed, inputs_of, read_samples

METHODS = ("minmax", "percentile", "entropy")
"""How a range is found from the numbers of a tensor: all of them, all but the outermost 0.001 %, or the range that
loses least information."""

Weights = Literal["int8", "int4"]

Activations = Literal["int8", "int16"]

Ends = Literal["float", "int8", "int16"]

_CALIBRATION = {"minmax": "MinMax", "percentile": "Percentile", "entropy": "Entropy"}

_PREPARE = "onnxruntime.quantization.preprocess"

_PER_CHANNEL = 13
"""The first opset whose DequantizeLinear takes a scale for each channel."""

_OTHER_BITS = 21
"""The first opset whose QuantizeLinear has int16 and int4."""

_LARGEST = 1 << 31
"""Bytes: models of this size and more do not fit into one file."""

_HELD_OUT, _FEWEST = 5, 5
"""One run in `_HELD_OUT` is held out of calibration, if there are at least `_FEWEST`."""


@dataclass(frozen=True)
class Quantized:
    """What became of a model: bytes of both files, runs of calibration and of comparison, accuracy of its outputs, the
    tensors that lose most, and notes. Without `held_out` both used the same runs."""

    before: int
    after: int
    calibrated: int
    compared: int
    held_out: bool
    outputs: tuple[OutputAccuracy, ...]
    layers: tuple[LayerLoss, ...]
    notes: tuple[str, ...] = ()


def quantize(
    model: str | Path,
    calibrate: Sequence[str | Path],
    output: str | Path,
    *,
    method: str = "minmax",
    keep: Sequence[str] = (),
    weights: Weights = "int8",
    activations: Activations = "int8",
    ends: Ends = "float",
    on_step: Callable[[str], None] = lambda _: None,
) -> Quantized:
    """Write the ONNX file `model` to `output` with `weights` and `activations` of integers. `calibrate` are .npz files,
    or folders of them (`samples`). Nodes in `keep`, given by name, by the name of a result, or by operator, stay in
    float. With `ends` other than "float" the inputs and outputs are these integers, too. `on_step` is told what is
    being done.

    Raises:
        UsageError: a file cannot be read or does not fit the model, a name in `keep` is unknown, the output is the
            model, the ends have another dtype than the activations, or there is nothing to quantise.
        UnsupportedModelError: ONNX Runtime cannot run or quantise the model.
        ToolchainError: ONNX Runtime is not installed.
    """
    source, target = Path(model), Path(output)
    if method not in METHODS:
        raise UsageError(f"there is no method '{method}'; choose from {', '.join(METHODS)}")
    if ends not in ("float", activations):
        raise UsageError(f"activations are {activations}, so inputs and outputs are {activations} or float: not {ends}")
    if not target.parent.is_dir():
        raise UsageError(f"cannot write {target}: there is no folder {target.parent}")
    if target.is_dir() or (target.exists() and target.samefile(source)):
        raise UsageError(f"cannot write {target}: it is {'a folder' if target.is_dir() else 'the model itself'}")
    read(source)  # refuses what is no sound model, with reasons
    proto = _loaded(source, _PER_CHANNEL if (weights, activations) == ("int8", "int8") else _OTHER_BITS)
    feeds = read_samples([Path(path) for path in calibrate], inputs_of(proto))
    calibration, comparison = _divided(feeds)
    with Scratch() as scratch:
        folder = Path(scratch)
        on_step("preparing the model")
        prepared = _prepared(proto, folder)
        excluded = _kept(prepared, keep)
        made = folder / "quantised.onnx"

        def on_run(index: int) -> None:
            on_step(f"calibrating, run {index + 1} of {len(calibration)}")

        result = _quantised(prepared, made, Reader(calibration, on_run), method, excluded, weights, activations)
        on_step(f"comparing {len(comparison)} runs")
        with _quietly("compare the models"):
            outputs = outputs_accuracy(prepared, made, comparison)
            layers = layers_that_lose_most(prepared, made, comparison, folder)
        notes = []
        if ends != "float":
            notes = [f"'{name}' stays as it is: it has no conversion of its own" for name in with_integer_ends(result)]
        onnx.checker.check_model(result)
        data = result.SerializeToString()
        with whole_file(target) as file:
            file.write(data)
    return Quantized(
        before=proto.ByteSize(),
        after=len(data),
        calibrated=len(calibration),
        compared=len(comparison),
        held_out=comparison is not calibration,
        outputs=tuple(outputs),
        layers=tuple(layers),
        notes=tuple(notes),
    )


def _divided(feeds: Sequence[Feed]) -> tuple[Sequence[Feed], Sequence[Feed]]:
    """The runs for calibration and those for comparison."""
    if len(feeds) < _FEWEST:
        return feeds, feeds
    held = feeds[_HELD_OUT - 1 :: _HELD_OUT]
    return [feed for index, feed in enumerate(feeds) if index % _HELD_OUT != _HELD_OUT - 1], held


def _loaded(source: Path, wanted: int) -> onnx.ModelProto:
    """The model, with an opset that has scales for each channel, and a name for each node. The opset is `wanted` or
    later, if the model can be converted; otherwise ONNX Runtime writes operators of its own."""
    proto: onnx.ModelProto = onnx.load(source)
    if proto.ByteSize() >= _LARGEST:
        raise UsageError(f"{source} has {proto.ByteSize():,} bytes; models of 2 GiB and more cannot be quantised")
    if any(node.op_type in ("QuantizeLinear", "QLinearConv") for node in proto.graph.node):
        raise UsageError(f"{source} is quantised already")
    opset = max((each.version for each in proto.opset_import if each.domain in ("", "ai.onnx")), default=_PER_CHANNEL)
    if opset < wanted:
        try:
            proto = version_converter.convert_version(proto, wanted)
        except Exception as error:  # the converter raises plain RuntimeErrors and others
            if opset < _PER_CHANNEL:
                raise UnsupportedModelError(
                    f"{source} is of opset {opset}, and cannot be converted to {wanted}: {error}. Export it with "
                    f"opset {wanted} or later"
                ) from error
    taken = {node.name for node in proto.graph.node}
    for index, node in enumerate(proto.graph.node):
        node.name = node.name or next(n for n in _names(node.op_type, index) if n not in taken)
    return proto


def _names(operator: str, index: int) -> Iterator[str]:
    yield f"{operator}_{index}"
    for number in range(index + 1):
        yield f"{operator}_{index}_{number}"


def _prepared(proto: onnx.ModelProto, folder: Path) -> Path:
    """The model with constants folded and shapes inferred; symbolic shapes where that succeeds."""
    source, prepared = folder / "model.onnx", folder / "prepared.onnx"
    onnx.save(proto, source)
    # ONNX Runtime writes what it could not infer into the working directory, so the work has a process of its own.
    command = [sys.executable, "-m", _PREPARE, "--input", str(source), "--output", str(prepared)]
    for options in ([], ["--skip_symbolic_shape", "True"]):
        done = subprocess.run([*command, *options], cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode == 0 and prepared.is_file():
            return prepared
    last = (done.stderr.strip() or "it gave no reason").splitlines()[-1]
    raise UnsupportedModelError(f"ONNX Runtime cannot prepare the model: {last}")


def _kept(prepared: Path, keep: Sequence[str]) -> list[str]:
    """The names of the nodes that stay in float."""
    nodes = onnx.load(prepared).graph.node
    found: list[str] = []
    for name in keep:
        named = [node.name for node in nodes if name in (node.name, node.op_type, *node.output)]
        if not named:
            known = [text for node in nodes for text in (node.name, *node.output)]
            near = difflib.get_close_matches(name, known, n=3)
            hint = f"; near are {', '.join(near)}" if near else ""
            raise UsageError(f"--keep: the prepared model has no node, result or operator '{name}'{hint}")
        found += named
    return found


def _quantised(
    prepared: Path,
    made: Path,
    reader: Reader,
    method: str,
    excluded: Sequence[str],
    weights: Weights,
    activations: Activations,
) -> onnx.ModelProto:
    """The quantised model, which is in the file `made`, too. Raises `UsageError` if no node changes."""
    from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quantize_static

    with _quietly("quantise the model"):
        quantize_static(
            str(prepared),
            str(made),
            reader,
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type={"int8": QuantType.QInt8, "int16": QuantType.QInt16}[activations],
            weight_type={"int8": QuantType.QInt8, "int4": QuantType.QInt4}[weights],
            nodes_to_exclude=list(excluded),
            calibrate_method=CalibrationMethod[_CALIBRATION[method]],
            extra_options={"WeightSymmetric": True, "ActivationSymmetric": activations == "int16"},
        )
    result: onnx.ModelProto = onnx.load(made)
    if activations == "int16":
        clip_before_rounding(result.graph)
        onnx.save(result, made)
    if not any(node.op_type == "QuantizeLinear" for node in result.graph.node):
        raise UsageError("there is nothing to quantise: no operator that ONNX Runtime quantises is left")
    return result


@contextlib.contextmanager
def _quietly(what: str) -> Iterator[None]:
    """Keep ONNX Runtime's advice and prints away, and name its errors. Raises `UnsupportedModelError`."""
    logger = logging.getLogger()
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    except (UsageError, UnsupportedModelError, ToolchainError, KeyboardInterrupt, MemoryError):
        raise
    except Exception as error:  # onnxruntime's exceptions share no base of their own
        raise UnsupportedModelError(f"ONNX Runtime cannot {what}: {error}") from error
    finally:
        logger.setLevel(level)
