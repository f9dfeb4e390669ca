"""Imports a node of another domain as a combination of standard ONNX operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np
import onnx_ir as ir

from deploykit.compiler.operators.building.value import AnyValue, Value
from deploykit.frontends.onnx import folding, registry, symbolic
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.ranges import with_ranges

if TYPE_CHECKING:
    from deploykit.compiler.operators.building.context import Context

OPSET = 23
"""The opset of the operators that nodes are combined of."""

Attribute: TypeAlias = "int | float | str | Sequence[int] | Sequence[float] | ir.TensorProtocol"


class Standard:
    """Standard operators in the place of `node`: `onnx("Add", x, y)` returns their value.

    As in a graph, what is constant is folded, and shapes are computed with."""

    def __init__(self, ctx: Context, node: Node) -> None:
        self._ctx, self._node = ctx, node

    def __call__(self, op_type: str, *inputs: Value | None, **attributes: Attribute) -> Value:
        """The first result of an operator. Other results are not computed."""
        return self.several(1, op_type, *inputs, **attributes)[0]

    def several(self, outputs: int, op_type: str, *inputs: Value | None, **attributes: Attribute) -> tuple[Value, ...]:
        """The first results of an operator."""
        node = Node(
            op_type,
            "",
            self._node.name,
            OPSET,
            {attribute.name: attribute for attribute in ir.convenience.convert_attributes(attributes)},
            tuple(None if value is None else ir.Value(name=f"x{i}") for i, value in enumerate(inputs)),
            tuple(ir.Value(name=f"y{i}") for i in range(outputs)),
            {"": OPSET},
        )
        results = with_ranges(self._ctx, node, inputs, self._import(node, inputs))
        return cast("tuple[Value, ...]", results[:outputs])

    def _import(self, node: Node, inputs: Sequence[Value | None]) -> tuple[AnyValue | None, ...]:
        known = folding.fold(node, inputs) or symbolic.evaluate(self._ctx, node, inputs)
        if known is not None:
            return known
        importer = registry.find("", node.op_type, OPSET)
        assert importer is not None, node.op_type
        given = list(inputs)
        while given and given[-1] is None:
            given.pop()
        result = importer(self._ctx, node, *given)
        return result if isinstance(result, tuple) else (result,)

    def ints(self, *values: int) -> Value:
        """A constant int64 tensor with one axis."""
        return self._ctx.constant(np.array(values, np.int64))

    def like(self, number: float, x: Value) -> Value:
        """A constant scalar of the dtype of `x`."""
        return self._ctx.constant(number, x.dtype)
