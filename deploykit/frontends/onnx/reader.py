"""Reading an ONNX model: file, bytes or `ModelProto` -> onnx-ir `Model`, with errors that name the file.

Large weights stay in their files, which are memory-mapped, so that models of any size are read without copying. The
opset must be one of `OPSETS`. The graph must have no cycles, and every name must be defined.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import onnx
import onnx.shape_inference
import onnx_ir as ir
from google.protobuf.message import DecodeError

from deploykit.basics.mapped import MappedFile, mapped
from deploykit.errors import UnsupportedModelError, UsageError
from deploykit.frontends.onnx.extremes import refuse_extremes
from deploykit.frontends.onnx.order import in_order
from deploykit.frontends.onnx.registry import normalise_domain
from deploykit.frontends.onnx.sparse import dense
from deploykit.frontends.onnx.weights import LARGE, Weights, parse, weight

OPSETS = range(1, 29)
"""The opsets of the default domain that the importer knows."""

FILES = "files"
"""The key in `Model.meta` of the `MappedFile`s that hold the weights of a model."""

LONGEST_REASON = 240
"""How many characters of a message of the ONNX checker are shown."""


def read(source: str | Path | bytes | onnx.ModelProto) -> ir.Model:
    """Read a model. Raises `UsageError` for a missing file and `UnsupportedModelError` for a broken one."""
    if not isinstance(source, str | Path | bytes | onnx.ModelProto):
        kind = type(source).__name__
        raise UsageError(f"a model is the path of an ONNX file, its bytes, or an onnx.ModelProto; found {kind}")
    label = str(source) if isinstance(source, (str, Path)) else "the model"
    proto, large, file = (source, {}, None) if isinstance(source, onnx.ModelProto) else _parse(source, label)
    if not proto.HasField("graph") or not (proto.graph.node or proto.graph.output):
        raise UnsupportedModelError(
            f"{label} is not an ONNX model: it holds no graph. Check that the file is complete."
        )
    _refuse_maps(proto, label)
    _refuse_shapeless(proto, label)
    _refuse_opsets(proto, label)
    proto = in_order(_with_unknown_sizes(dense(proto, label)))
    refuse_extremes(proto, label)
    light = _without_weights(proto, large, label, in_file=isinstance(source, (str, Path)))
    _check_form(light, label)
    _check_types(light, label)
    try:
        model = ir.from_proto(proto)
    except ir.serde.SerdeError as error:
        reason = " ".join(str(_first(error)).split())[:LONGEST_REASON]
        raise UnsupportedModelError(f"{label} is a broken ONNX model: {reason}. Export it again.") from error
    for name, tensor in large.items():
        model.graph.initializers[name].const_value = tensor
    model.meta[FILES] = [file] if file else []
    if isinstance(source, (str, Path)):
        model.meta[FILES] += _attach_external_data(model, Path(source))
    else:
        _refuse_external_data(model)
    _check_order(model.graph, set(), label)
    return model


def _first(error: BaseException) -> BaseException:
    """The original error of a chain of causes."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _parse(source: str | Path | bytes, label: str) -> tuple[onnx.ModelProto, Weights, MappedFile | None]:
    """The model without its large weights, these weights by name, and the file that holds them, if there are any."""
    file = None
    if isinstance(source, bytes):
        data = memoryview(source)
    else:
        try:
            file = mapped(Path(source))
        except OSError as error:
            raise UsageError(f"cannot read {label}: {error.strerror or error}") from error
        data = file.data
    try:
        proto, large = parse(data)
    except (DecodeError, UnicodeDecodeError) as error:
        raise UnsupportedModelError(
            f"{label} is not a readable ONNX file ({len(data)} bytes): it is corrupt or truncated. "
            "Download or export it again."
        ) from error
    return proto, large, file if large else None


def _attach_external_data(model: ir.Model, path: Path) -> list[MappedFile]:
    """Map the weights that are in other files into memory; returns these files."""
    for name, outside in _external(model):
        outside.base_dir = path.parent
        _check_external(outside, name, path)
    files: dict[Path, MappedFile] = {}
    for value in model.graph.initializers.values():
        tensor = value.const_value
        if not isinstance(tensor, ir.ExternalTensor):
            continue
        name = value.name or ""
        begin, end = _check_external(tensor, name, path)
        place = Path(tensor.path)
        file = files[place] = files.get(place) or mapped(place)
        value.const_value = weight(name, file.data[begin:end], tensor.dtype, list(tensor.shape.numpy())) or tensor
    return list(files.values())


def _refuse_external_data(model: ir.Model) -> None:
    for name, tensor in _external(model):
        raise UsageError(
            f"weight '{name}' lies in the file '{tensor.location}', and the model was given without its folder. "
            "Give the path of the model."
        )


def _external(model: ir.Model) -> Iterator[tuple[str, ir.ExternalTensor]]:
    """The initializers and attributes that are in other files, with their names, in all graphs and functions."""
    for graph in model.graphs():
        for value in graph.initializers.values():
            if isinstance(value.const_value, ir.ExternalTensor):
                yield value.name or "", value.const_value
    nodes = [model.graph.all_nodes(), *(function.all_nodes() for function in model.functions.values())]
    for node in itertools.chain(*nodes):
        for attribute in node.attributes.values():
            if isinstance(attribute.value, ir.ExternalTensor):
                yield attribute.value.name or attribute.name, attribute.value


def _check_external(tensor: ir.ExternalTensor, name: str, path: Path) -> tuple[int, int]:
    """Check the file of an external tensor; returns the first and the last byte offset (exclusive) of the tensor."""
    file = Path(tensor.path)
    if path.parent.resolve() not in file.resolve().parents:
        raise UnsupportedModelError(f"{path}: weight '{name}' refers to {file}, outside the model's folder.")
    if not file.is_file():
        raise UnsupportedModelError(
            f"{path}: weight '{name}' lies in {file.name}, which is missing. Put the file beside the model."
        )
    begin = tensor.offset or 0
    end = begin + (tensor.length if tensor.length is not None else tensor.nbytes)
    if file.stat().st_size < end:
        raise UnsupportedModelError(
            f"{path}: weight '{name}' ends at byte {end} of {file.name}, which has only {file.stat().st_size} bytes. "
            "The file is truncated; copy it again."
        )
    return begin, end


def _refuse_maps(proto: onnx.ModelProto, label: str) -> None:
    for port in proto.graph.input:
        if port.type.HasField("map_type"):
            raise UnsupportedModelError(
                f"{label}: input '{port.name}' is a map, which a tensor cannot hold. Let the model take a column for "
                "each key instead: OneHotEncoder or ColumnTransformer in place of DictVectorizer."
            )
    for node in proto.graph.node:
        if node.op_type == "ZipMap":
            raise UnsupportedModelError(
                f"{label}: ZipMap '{node.name or ', '.join(node.output)}' makes a map per row, which a tensor cannot "
                "hold. Convert the classifier with the option zipmap=False, which gives the tensor of probabilities."
            )


def _refuse_shapeless(proto: onnx.ModelProto, label: str) -> None:
    given = {tensor.name for tensor in proto.graph.initializer}
    for port in proto.graph.input:
        if port.type.HasField("tensor_type") and not port.type.tensor_type.HasField("shape") and port.name not in given:
            raise UnsupportedModelError(
                f"{label}: input '{port.name}' has no shape, so it is not known how many axes it has. Write its shape "
                "into the model, with names for the sizes that a run chooses, such as "
                f"onnx.helper.make_tensor_value_info('{port.name}', "
                f"{_type_name(port.type.tensor_type.elem_type)}, ['n', 3])."
            )


def _type_name(number: int) -> str:
    names = onnx.TensorProto.DataType
    return f"onnx.TensorProto.{names.Name(number)}" if number in names.values() else "its type"


def _refuse_opsets(proto: onnx.ModelProto, label: str) -> None:
    for entry in proto.opset_import:
        if normalise_domain(entry.domain) == "" and entry.version not in OPSETS:
            raise UnsupportedModelError(
                f"{label} uses opset {entry.version}; deploykit imports opsets 1 to {OPSETS.stop - 1}. "
                "Convert it with onnx.version_converter.convert_version."
            )


def _without_weights(proto: onnx.ModelProto, known: Collection[str], label: str, *, in_file: bool) -> onnx.ModelProto:
    """A copy in which large initializers are inputs, because no check of the graph needs their values.

    The initializers themselves are checked here, except those that are `known` to be right, and those in other files,
    which are checked later."""
    light = onnx.ModelProto()
    _check(partial(_copy, proto, light, "graph"), label)
    _check(partial(_copy, proto.graph, light.graph, "initializer"), label)
    inputs = {port.name for port in proto.graph.input}
    for tensor in proto.graph.initializer:
        external = tensor.data_location == onnx.TensorProto.EXTERNAL
        if tensor.name not in known and tensor.ByteSize() < LARGE and not (external and in_file):
            light.graph.initializer.append(tensor)
            continue
        if not external and tensor.name not in known:
            _check(partial(onnx.checker.check_tensor, tensor), label)
        if tensor.name not in inputs:
            light.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    return light


def _copy(source: Any, target: Any, but: str) -> None:
    """Copy the fields of a protobuf message except `but`. Raises `UnicodeDecodeError` for a text that is not UTF-8."""
    for field, value in source.ListFields():
        if field.name == but:
            continue
        if field.is_repeated:
            getattr(target, field.name).extend(value)
        elif field.message_type is not None:
            getattr(target, field.name).CopyFrom(value)
        else:
            setattr(target, field.name, value)


def _check_form(proto: onnx.ModelProto, label: str) -> None:
    """Run the ONNX checker.

    Three of its demands are not made: shapes of outputs, which follow from the graph, known operators, because the
    importer lists all unknown ones together, and no GroupNormalization of opset 18, which exporters wrote."""
    complete = _with_output_shapes(proto)
    _check(lambda: onnx.checker.check_model(complete), label)


def _check(check: Callable[[], None], label: str) -> None:
    """Run a check of the onnx package; raises `UnsupportedModelError` if it finds a fault."""
    try:
        check()
    except onnx.checker.ValidationError as error:
        reason = " ".join(str(error).split())[:LONGEST_REASON]
        tolerated = ("no op registered", "groupnormalization is deprecated", "external")
        if not any(words in reason.lower() for words in tolerated):
            raise UnsupportedModelError(f"{label} breaks the ONNX specification: {reason}") from error
    except (ValueError, RuntimeError) as error:
        raise UnsupportedModelError(
            f"{label} cannot be checked: {error}. It may be corrupt; export it again."
        ) from error


def _with_unknown_sizes(proto: onnx.ModelProto) -> onnx.ModelProto:
    """`proto`, or a copy without negative sizes, which some exporters write for unknown sizes."""

    def negative(model: onnx.ModelProto) -> list[onnx.TensorShapeProto.Dimension]:
        values = (*model.graph.input, *model.graph.output, *model.graph.value_info)
        return [dim for value in values for dim in value.type.tensor_type.shape.dim if dim.dim_value < 0]

    if not negative(proto):
        return proto
    known = onnx.ModelProto()
    known.CopyFrom(proto)
    for dim in negative(known):
        dim.ClearField("dim_value")
    return known


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
    """Check that operators get inputs of the dtypes that they are declared for."""
    try:
        onnx.shape_inference.infer_shapes(proto, check_type=True)
    except onnx.shape_inference.InferenceError as error:
        reason = " ".join(str(error).removeprefix("[ShapeInferenceError]").split())[:LONGEST_REASON]
        raise UnsupportedModelError(f"{label} mixes dtypes: {reason}") from error
    except (ValueError, RuntimeError, MemoryError):  # the model is larger than a protobuf message may be
        return


def _check_order(graph: ir.Graph, outer: set[str], label: str) -> None:
    """Check that every input of every node is defined earlier: no cycles, no undefined names."""
    defined = outer | {v.name for v in graph.inputs if v.name} | set(graph.initializers)
    for node in graph:
        for value in node.inputs:
            if value is not None and value.name and value.name not in defined:
                raise UnsupportedModelError(
                    f"{label}: node '{node.name or node.op_type}' reads '{value.name}', which nothing before it "
                    "computes: the graph has a cycle, or misses a tensor."
                )
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH:
                _check_order(attribute.as_graph(), defined, label)
        defined |= {v.name for v in node.outputs if v.name}
    for value in graph.outputs:
        if value.name not in defined:
            raise UnsupportedModelError(f"{label}: output '{value.name}' is not computed by any node.")
