"""Constant folding and function bodies, both by means of the onnx package.

A node whose inputs are all constant is evaluated during import by ONNX's reference implementation. An operator without
an importer is expanded through the function body in its schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnx.shape_inference
import onnx_ir as ir
from onnx.reference import ReferenceEvaluator

from deploykit.compiler.dtypes import numpy_dtype
from deploykit.compiler.operators.building.value import AnyValue, Value, constant
from deploykit.frontends.onnx.schemas import schema_of

if TYPE_CHECKING:
    from deploykit.frontends.onnx.node import Node

MAXIMUM_FOLDED_ELEMENTS = 1 << 28
"""A result with more elements is computed at run time instead."""

_NEVER = {
    "RandomNormal",
    "RandomUniform",
    "RandomNormalLike",
    "RandomUniformLike",
    "Bernoulli",
    "Multinomial",
    "Dropout",
}
_OWN = {"DequantizeLinear", "Cast", "CastLike", "MaxPool"}
"""Operators that fold constants themselves, because their results keep a record of what they were computed from, or
whose results for special values differ from those of the reference implementation."""

_MODEST = 1 << 22
_SMALL = 64
"""Constants of at most this many elements are passed to shape inference with their values."""
_HEAVY = {"Conv", "ConvTranspose", "MatMul", "Gemm"}
_GROWING = {
    *("CenterCropPad", "ConstantOfShape", "Expand", "EyeLike", "OneHot", "Pad", "Range", "Resize", "Tile", "Upsample"),
    *("BlackmanWindow", "HammingWindow", "HannWindow", "MelWeightMatrix"),
}
"""Operators whose results may be larger than all of their operands."""


def fold(node: Node, inputs: Sequence[AnyValue | None]) -> tuple[AnyValue | None, ...] | None:
    """The constant results of a node, or `None` if it must not be folded."""
    if node.op_type in _NEVER | _OWN or any(a.type == ir.AttributeType.GRAPH for a in node.attributes.values()):
        return None
    if any(i is not None and not (isinstance(i, Value) and i.is_constant) for i in inputs):
        return None
    if not inputs and node.op_type != "Constant":
        return None
    if node.op_type == "Constant":
        return _constant(node)
    arrays = [i.array for i in inputs if isinstance(i, Value)]
    if node.op_type in _HEAVY and max(a.size for a in arrays if a is not None) > _MODEST:
        return None
    if node.op_type in _GROWING and not _fits(node, inputs):
        return None
    if node.op_type == "ConstantOfShape":
        return (_constant_of_shape(node, arrays[0]),)
    results = evaluate(node, inputs)
    if results is None or not all(isinstance(r, np.ndarray | np.generic) and r.dtype.kind != "c" for r in results):
        return None
    return tuple(constant(r) for r in results)


def _fits(node: Node, inputs: Sequence[AnyValue | None]) -> bool:
    """Whether all results are known to have at most `MAXIMUM_FOLDED_ELEMENTS` elements."""
    try:
        found = inferred(node, inputs)
    except onnx.shape_inference.InferenceError:
        return False
    shapes = [[d.dim_value if d.HasField("dim_value") else None for d in t.tensor_type.shape.dim] for t in found]
    return all(None not in shape and prod(n or 0 for n in shape) <= MAXIMUM_FOLDED_ELEMENTS for shape in shapes)


def inferred(node: Node, inputs: Sequence[AnyValue | None]) -> list[onnx.TypeProto]:
    """The types of a node's results by ONNX's shape inference; an empty list if it cannot tell.

    Raises `onnx.shape_inference.InferenceError` for an invalid node."""
    schema = schema_of(node)
    if schema is None or not all(i is None or isinstance(i, Value) for i in inputs):
        return []
    named = [(f"x{position}" if value is not None else "", value) for position, value in enumerate(inputs)]
    outputs = [f"y{position}" if v.name else "" for position, v in enumerate(node.outputs)]
    proto = onnx.helper.make_node(node.op_type, [n for n, _ in named], outputs, domain=node.domain)
    known = {name: value for name, value in named if isinstance(value, Value)}
    small = {n: v.array for n, v in known.items() if v.array is not None and v.array.size <= _SMALL}
    proto.attribute.extend(ir.to_proto(a) for a in node.attributes.values())
    given = {name: _type_proto(value) for name, value in known.items()}
    data = {name: onnx.numpy_helper.from_array(array, name) for name, array in small.items()}
    imports = [onnx.helper.make_opsetid(d, v) for d, v in node.opsets.items()]
    try:
        types = onnx.shape_inference.infer_node_outputs(
            schema, proto, given, data, opset_imports=imports, ir_version=onnx.IR_VERSION
        )
    except onnx.shape_inference.InferenceError:
        raise
    except Exception:  # noqa: BLE001  the inference may raise any exception
        return []
    return list(types.values())


def _constant(node: Node) -> tuple[AnyValue, ...] | None:
    readers: Mapping[str, tuple[Callable[[str], Any], Any]] = {
        "value": (node.tensor, None),
        "value_int": (node.int, np.int64),
        "value_ints": (node.ints, np.int64),
        "value_float": (node.float, np.float32),
        "value_floats": (node.floats, np.float32),
        "value_string": (node.string, object),
        "value_strings": (node.strings, object),
    }
    given = next((name for name in readers if node.has(name)), None)
    if given is None:
        return None
    read, dtype = readers[given]
    return (constant(np.asarray(read(given), dtype)),)


def _constant_of_shape(node: Node, shape: np.ndarray | None) -> Value:
    assert shape is not None
    fill = node.tensor("value").reshape(-1)[0] if node.has("value") else np.float32(0)
    return constant(np.full(tuple(int(n) for n in shape), fill))


def evaluate(node: Node, inputs: Sequence[AnyValue | None]) -> list[np.ndarray] | None:
    """The results of the reference implementation for constant inputs, or `None` if it fails."""
    names = [f"x{i}" if value is not None else "" for i, value in enumerate(inputs)]
    feeds = {n: v.array for n, v in zip(names, inputs, strict=True) if isinstance(v, Value)}
    outputs = [f"y{i}" for i, value in enumerate(node.outputs) if value.name]
    if len(outputs) != len(node.outputs):
        return None
    proto = onnx.helper.make_node(node.op_type, names, outputs, domain=node.domain)
    proto.attribute.extend(ir.to_proto(a) for a in node.attributes.values())
    graph = onnx.helper.make_graph(
        [proto],
        "fold",
        [onnx.helper.make_value_info(n, onnx.TypeProto()) for n in names if n],
        [onnx.helper.make_value_info(n, onnx.TypeProto()) for n in outputs],
    )
    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in node.opsets.items()]
    try:
        with np.errstate(all="ignore"):
            return list(ReferenceEvaluator(onnx.helper.make_model(graph, opset_imports=imports)).run(None, feeds))
    except Exception:  # noqa: BLE001  it may raise any exception; the operator is then compiled
        return None


CHOICES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "NegativeLogLikelihoodLoss": ("reduction", ("none", "sum", "mean")),
    "SoftmaxCrossEntropyLoss": ("reduction", ("none", "sum", "mean")),
}
"""Attributes of operators with a function body, and the values that they may have: the bodies do not check them."""


def has_function_body(node: Node) -> bool:
    """Whether the operator's schema defines it in terms of other operators."""
    schema = schema_of(node)
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def function_body(node: Node, inputs: Sequence[AnyValue | None]) -> ir.Function | None:
    """The schema's function body for this node, or `None`. Raises `Unsupported` for an attribute whose value the
    operator has not."""
    schema = schema_of(node)
    if node.domain == "" and node.op_type in CHOICES:
        name, values = CHOICES[node.op_type]
        node.choice(name, values, "mean")
    if schema is None:
        return None
    if schema.has_function:
        return _function(schema.function_body)
    if not schema.has_context_dependent_function:
        return None
    proto = onnx.helper.make_node(
        node.op_type,
        [v.name or "" if v is not None else "" for v in node.inputs],
        [v.name or "" for v in node.outputs],
        domain=node.domain,
    )
    proto.attribute.extend(ir.to_proto(a) for a in node.attributes.values())
    types = [_type_proto(i) for i in inputs]
    versions = [v for v in schema.context_dependent_function_opset_versions if v <= node.opset]
    if not versions:
        return None
    body = schema.get_context_dependent_function_with_opset_version(
        max(versions), proto.SerializeToString(), [t.SerializeToString() for t in types]
    )
    function = onnx.FunctionProto()
    function.ParseFromString(body)
    computed = {name for inner in function.node for name in inner.output}
    kept = [name for name in function.output if name in computed]
    assert kept == list(function.output)[: len(kept)], "only trailing outputs may be left out"
    del function.output[len(kept) :]
    return _function(function)


def _function(proto: onnx.FunctionProto) -> ir.Function:
    function = ir.from_proto(proto)
    assert isinstance(function, ir.Function)
    return function


def _type_proto(value: AnyValue | None) -> onnx.TypeProto:
    if not isinstance(value, Value):
        return onnx.TypeProto()
    element = onnx.helper.np_dtype_to_tensor_dtype(numpy_dtype(value.dtype))
    return onnx.helper.make_tensor_type_proto(element, [n if isinstance(n, int) else None for n in value.shape])
