"""An ONNX node as the importers of operators see it: typed attributes, a name for messages, and the opset."""

from __future__ import annotations

import builtins
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import onnx_ir as ir

from deploykit.compiler.operators.building.axes import from_front
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.frontends.onnx.tensors import elements

Choice = TypeVar("Choice")

_DTYPES = {
    ir.DataType.FLOAT: "float32",
    ir.DataType.DOUBLE: "float64",
    ir.DataType.FLOAT16: "float16",
    ir.DataType.BFLOAT16: "bfloat16",
    ir.DataType.FLOAT8E4M3FN: "float8_e4m3fn",
    ir.DataType.FLOAT8E4M3FNUZ: "float8_e4m3fnuz",
    ir.DataType.FLOAT8E5M2: "float8_e5m2",
    ir.DataType.FLOAT8E5M2FNUZ: "float8_e5m2fnuz",
    ir.DataType.FLOAT8E8M0: "float8_e8m0",
    ir.DataType.FLOAT4E2M1: "float4_e2m1",
    ir.DataType.BOOL: "bool",
    ir.DataType.STRING: "string",
    **{
        ir.DataType[f"{sign}INT{bits}"]: f"{sign.lower()}int{bits}"
        for sign in ("", "U")
        for bits in (2, 4, 8, 16, 32, 64)
    },
}

DATA_TYPES_ARE_NUMBERS = 6
"""From this opset on, attributes give data types by their numbers, not by their names."""


def dtype_name(data_type: ir.DataType | int | None) -> str:
    """Logical dtype of an ONNX data type. Raises `Unsupported` for complex numbers."""
    number = int(data_type or 0)
    if number not in {known.value for known in ir.DataType}:
        raise Unsupported(f"ONNX has no tensor type number {number}")
    data_type = ir.DataType(number)
    if data_type not in _DTYPES:
        raise Unsupported(f"tensors of type {data_type.name} are not supported")
    return _DTYPES[data_type]


def _text(attribute: str, value: bytes | str) -> str:
    """The text of an attribute. Raises `Unsupported` for bytes that are not UTF-8."""
    try:
        return value.decode() if isinstance(value, bytes) else str(value)
    except UnicodeDecodeError as error:
        raise Unsupported(f"its attribute '{attribute}' is not text in UTF-8") from error


@dataclass(frozen=True)
class Node:
    """An ONNX node. `attributes` are resolved: references into a function's attributes are replaced.

    The methods that read an attribute raise `Unsupported` if it is missing and has no default, or if its type is wrong.
    """

    op_type: str
    domain: str
    name: str
    opset: builtins.int
    attributes: Mapping[str, ir.Attr]
    inputs: tuple[ir.Value | None, ...]
    outputs: tuple[ir.Value, ...]
    opsets: Mapping[str, builtins.int]

    def has(self, name: str) -> bool:
        return name in self.attributes

    def int(self, name: str, default: builtins.int | None = None) -> builtins.int:
        return builtins.int(self._get(name, default, ir.AttributeType.INT))

    def axis(self, rank: builtins.int, default: builtins.int | None = None, name: str = "axis") -> builtins.int:
        """An axis attribute for a tensor of `rank`, counted from the front. Raises `Unsupported` if out of range."""
        return from_front(self.int(name, default), rank, name)

    def axes(
        self, rank: builtins.int, default: Iterable[builtins.int] | None = None, name: str = "axes"
    ) -> list[builtins.int]:
        """An attribute of several axes, each like `axis`; by default all axes."""
        return [
            from_front(axis, rank, name) for axis in self.ints(name, list(range(rank) if default is None else default))
        ]

    def float(self, name: str, default: builtins.float | None = None) -> builtins.float:
        return builtins.float(self._get(name, default, ir.AttributeType.FLOAT, ir.AttributeType.INT))

    def string(self, name: str, default: str | None = None) -> str:
        return _text(name, self._get(name, default, ir.AttributeType.STRING))

    def choice(self, name: str, choices: Collection[str], default: str | None = None) -> str:
        """A string attribute that must be one of `choices`; upper and lower case are the same.

        Raises `Unsupported` for another value."""
        given = self.string(name, default)
        chosen = {choice.lower(): choice for choice in choices}.get(given.lower())
        if chosen is None:
            raise Unsupported(f"{name} is '{given}'; it must be one of {', '.join(filter(None, choices))}")
        return chosen

    def numbered(self, name: str, choices: Sequence[Choice], default: builtins.int) -> Choice:
        """The element of `choices` whose index an integer attribute gives.

        Raises `Unsupported` for an index out of range."""
        number = self.int(name, default)
        if not 0 <= number < len(choices):
            raise Unsupported(f"{name} is {number}; it must be from 0 to {len(choices) - 1}")
        return choices[number]

    def ints(self, name: str, default: list[builtins.int] | None = None) -> list[builtins.int]:
        return [builtins.int(v) for v in self._get(name, default, ir.AttributeType.INTS)]

    def floats(self, name: str, default: list[builtins.float] | None = None) -> list[builtins.float]:
        values = self._get(name, default, ir.AttributeType.FLOATS, ir.AttributeType.INTS)
        return [builtins.float(v) for v in values]

    def strings(self, name: str, default: list[str] | None = None) -> list[str]:
        return [_text(name, v) for v in self._get(name, default, ir.AttributeType.STRINGS)]

    def tensor(self, name: str) -> np.ndarray:
        tensor = self._get(name, None, ir.AttributeType.TENSOR)
        try:
            return elements(tensor)
        except Unsupported as error:
            raise Unsupported(f"the tensor in its attribute '{name}' cannot be read: {error}") from error

    def dtype(self, name: str, default: str | None = None) -> str:
        """A data type attribute (`to`, `dtype`) as a logical dtype. Before opset 6 it is a name."""
        if name not in self.attributes and default is not None:
            return default
        if self.opset < DATA_TYPES_ARE_NUMBERS and self.has(name) and not self.domain:
            return dtype_name(ir.DataType[self.choice(name, ir.DataType.__members__)])
        return dtype_name(self.int(name))

    def float_dtype(self, name: str, default: str) -> str:
        """A data type attribute that must be a float dtype. Raises `Unsupported` for another one."""
        dtype = self.dtype(name, default)
        if not dtype.startswith(("float", "bfloat")):
            raise Unsupported(f"{name} is {dtype}; it must be a type of floats")
        return dtype

    def graph(self, name: str, inputs: builtins.int, outputs: builtins.int) -> ir.Graph:
        """A graph attribute with exactly this many inputs and at least this many outputs.

        Raises `Unsupported` for another graph."""
        graph: ir.Graph = self._get(name, None, ir.AttributeType.GRAPH)
        if len(graph.inputs) != inputs or len(graph.outputs) < outputs:
            found = f"{len(graph.inputs)} inputs and {len(graph.outputs)} outputs"
            raise Unsupported(f"its graph '{name}' has {found}; it must have {inputs} and {outputs}")
        return graph

    def uses_output(self, index: builtins.int) -> bool:
        """Whether output `index` has a name, so that it may be read."""
        return index < len(self.outputs) and bool(self.outputs[index].name)

    def _get(self, name: str, default: object, *types: ir.AttributeType) -> Any:
        attribute = self.attributes.get(name)
        if attribute is not None:
            if attribute.type not in types:
                raise Unsupported(f"its attribute '{name}' is of type {attribute.type.name}, not {types[0].name}")
            return attribute.value
        if default is None:
            raise Unsupported(f"the required attribute '{name}' is missing")
        return default
