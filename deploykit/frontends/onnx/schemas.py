"""The ONNX schemas of operators, and the check that the inputs of a node have dtypes that its schema allows.

The reader already lets ONNX check this for a model. That check skips graphs inside nodes, functions, and operators
without a schema at their opset, so it is repeated here for every node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import onnx

from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.value import AnyValue, Value

if TYPE_CHECKING:
    from deploykit.frontends.onnx.node import Node

_OTHER_NAMES = {"float32": "float", "float64": "double"}


@dataclass(frozen=True)
class _Parameter:
    """An input in a schema. `dtypes` are those that a tensor may have; `variable` names the type that it shares with
    other inputs."""

    dtypes: frozenset[str]
    variable: str | None


def schema_of(node: Node) -> Any:
    """The operator's schema at the node's opset, `None` if there is none. The class of schemas is untyped."""
    return _schema(node.op_type, node.opset, node.domain)


def require_dtypes(node: Node, inputs: Sequence[AnyValue | None]) -> None:
    """Raise `Unsupported` for a tensor of a dtype that the operator does not take, or that conflicts with others."""
    parameters = _parameters(node.op_type, node.opset, node.domain)
    chosen: dict[str, str] = {}
    for position, value in enumerate(inputs if parameters else ()):
        parameter = parameters[min(position, len(parameters) - 1)]
        if not isinstance(value, Value) or not parameter.dtypes:
            continue
        if _OTHER_NAMES.get(value.dtype, value.dtype.replace("_", "")) not in parameter.dtypes:
            raise Unsupported(f"its input {position + 1} is {value.dtype}, which the operator does not take")
        first = chosen.setdefault(parameter.variable or f"input {position}", value.dtype)
        if value.dtype != first:
            raise Unsupported(f"its inputs are {first} and {value.dtype}; they must be of one type")


@cache
def _schema(name: str, opset: int, domain: str) -> Any:
    try:
        return onnx.defs.get_schema(name, opset, domain)
    except (onnx.defs.SchemaError, TypeError):  # a TypeError for versions beyond int32
        return None


@cache
def _parameters(name: str, opset: int, domain: str) -> tuple[_Parameter, ...]:
    """The inputs in the schema of an operator; if it has none at this opset, those of its newest schema."""
    schema = _schema(name, opset, domain)
    if schema is None and onnx.defs.has(name, domain):
        schema = onnx.defs.get_schema(name, domain)
    return tuple(map(_parameter, schema.inputs)) if schema else ()


def _parameter(formal: Any) -> _Parameter:
    tensors = {text.removeprefix("tensor(").removesuffix(")") for text in formal.types if text.startswith("tensor(")}
    return _Parameter(frozenset(tensors), formal.type_str if formal.is_homogeneous else None)
