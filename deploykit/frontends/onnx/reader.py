"""Reading an ONNX model: file, bytes or `ModelProto` -> onnx-ir `Model`, with errors that name the file.

External data is memory-mapped by onnx-ir, so models above 2 GB are read without copying. The opset must lie in
`OPSETS`; the graph must be free of cycles and every name must be defined before it is used.
"""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx.shape_inference
import onnx_ir as ir
from google.protobuf.message import DecodeError

from deploykit.errors import UnsupportedModelError, UsageError
from deploykit.frontends.onnx.registry import normalise_domain

OPSETS = range(6, 29)
"""Opsets of the default domain that the importer knows."""


LONGEST_REASON = 240
"""Characters of a message of the ONNX checker that are shown."""


def read(source: str | Path | bytes | onnx.ModelProto) -> ir.Model:
    """Read a model. Raises `UsageError` for a missing file and `UnsupportedModelError` for a broken one."""
    label = str(source) if isinstance(source, (str, Path)) else "the model"
    proto = source if isinstance(source, onnx.ModelProto) else _parse(source, label)
    if not proto.HasField("graph") or not (proto.graph.node or proto.graph.output):
        raise UnsupportedModelError(
            f"{label} is not an ONNX model: it holds no graph. Check that the file is complete."
        )
    _check_opset(proto, label)
    _check_form(proto, source, label)
    _check_types(proto, label)
    try:
        model = ir.from_proto(proto)
    except Exception as error:
        raise UnsupportedModelError(f"{label} is a broken ONNX model: {error}. Export it again.") from error
    if isinstance(source, (str, Path)):
        _attach_external_data(model, Path(source))
    _check_order(model.graph, set(), label)
    return model


def _parse(source: str | Path | bytes, label: str) -> onnx.ModelProto:
    if isinstance(source, bytes):
        data = source
    else:
        try:
            data = Path(source).read_bytes()
        except OSError as error:
            raise UsageError(f"cannot read {label}: {error.strerror or error}") from error
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except (DecodeError, ValueError, RuntimeError) as error:
        raise UnsupportedModelError(
            f"{label} is not a readable ONNX file ({len(data)} bytes): it is corrupt or truncated. "
            "Download or export it again."
        ) from error
    return proto


def _attach_external_data(model: ir.Model, path: Path) -> None:
    ir.external_data.set_base_dir(model.graph, path.parent)
    for value in model.graph.initializers.values():
        tensor = value.const_value
        if isinstance(tensor, ir.ExternalTensor):
            _check_external(tensor, value.name or "", path)


def _check_external(tensor: ir.ExternalTensor, name: str, path: Path) -> None:
    file = Path(tensor.path)
    if path.parent.resolve() not in file.resolve().parents:
        raise UnsupportedModelError(f"{path}: weight '{name}' refers to {file}, outside the model's folder.")
    if not file.is_file():
        raise UnsupportedModelError(
            f"{path}: weight '{name}' lies in {file.name}, which is missing. Put the file beside the model."
        )
    end = (tensor.offset or 0) + (tensor.length if tensor.length is not None else tensor.nbytes)
    if file.stat().st_size < end:
        raise UnsupportedModelError(
            f"{path}: weight '{name}' ends at byte {end} of {file.name}, which has only {file.stat().st_size} bytes. "
            "The file is truncated; copy it again."
        )


def _check_opset(proto: onnx.ModelProto, label: str) -> None:
    for entry in proto.opset_import:
        if normalise_domain(entry.domain) == "" and entry.version not in OPSETS:
            raise UnsupportedModelError(
                f"{label} uses opset {entry.version}; deploykit imports opsets {OPSETS.start} to {OPSETS.stop - 1}. "
                "Convert it with onnx.version_converter.convert_version."
            )


def _check_form(proto: onnx.ModelProto, source: str | Path | bytes | onnx.ModelProto, label: str) -> None:
    """What the ONNX checker demands, but for shapes of outputs, which follow from the graph, and operators that it does
    not know, which the importer lists all at once."""
    complete = _with_output_shapes(proto)
    in_file = complete is proto and isinstance(source, (str, Path))
    try:
        onnx.checker.check_model(str(source) if in_file else complete)
    except onnx.checker.ValidationError as error:
        reason = " ".join(str(error).split())[:LONGEST_REASON]
        if "No Op registered" not in reason and "external" not in reason.lower():
            raise UnsupportedModelError(f"{label} breaks the ONNX specification: {reason}") from error
    except (ValueError, RuntimeError) as error:
        raise UnsupportedModelError(
            f"{label} cannot be checked: {error}. It may be corrupt; export it again."
        ) from error


def _with_output_shapes(proto: onnx.ModelProto) -> onnx.ModelProto:
    """`proto`, or a copy that states some shape for every output."""

    def shapeless(model: onnx.ModelProto) -> list[onnx.TypeProto.Tensor]:
        types = [output.type.tensor_type for output in model.graph.output if output.type.HasField("tensor_type")]
        return [type_ for type_ in types if not type_.HasField("shape")]

    if not shapeless(proto):
        return proto
    complete = onnx.ModelProto()
    complete.CopyFrom(proto)
    for type_ in shapeless(complete):
        type_.shape.SetInParent()
    return complete


def _check_types(proto: onnx.ModelProto, label: str) -> None:
    """Operators get inputs of the dtypes that they are declared for."""
    try:
        onnx.shape_inference.infer_shapes(proto, check_type=True)
    except onnx.shape_inference.InferenceError as error:
        reason = " ".join(str(error).removeprefix("[ShapeInferenceError]").split())[:LONGEST_REASON]
        raise UnsupportedModelError(f"{label} mixes dtypes: {reason}") from error
    except (ValueError, RuntimeError, MemoryError):  # larger than a protobuf message may be
        return


def _check_order(graph: ir.Graph, outer: set[str], label: str) -> None:
    """Every input of every node is defined earlier: no cycles, no dangling names."""
    defined = outer | {v.name for v in graph.inputs if v.name} | set(graph.initializers)
    for node in graph:
        for value in node.inputs:
            if value is not None and value.name and value.name not in defined:
                raise UnsupportedModelError(
                    f"{label}: node '{node.name or node.op_type}' reads '{value.name}', which nothing before it "
                    "computes: the graph has a cycle, is not sorted, or misses a tensor."
                )
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH:
                _check_order(attribute.as_graph(), defined, label)
        defined |= {v.name for v in node.outputs if v.name}
    for value in graph.outputs:
        if value.name not in defined:
            raise UnsupportedModelError(f"{label}: output '{value.name}' is not computed by any node.")
