"""Expressions of ragged operators as TIR."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tvm_ffi
from tvm import ir, tirx

from deploykit.compiler.dims.conversion import as_expr
from deploykit.compiler.ragged.storage import Storage
from deploykit.compiler.tir.extrema import maximum, minimum
from deploykit.compiler.tir.rewriting import Buffer, Expr
from deploykit.ragged.bounds import nonnegative, room
from deploykit.ragged.indices import Index
from deploykit.ragged.values import Apply, Literal, Load, OfIndex, Tensor, Value

FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "max": maximum,
    "min": minimum,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "eq": lambda a, b: a == b,
    "and": tirx.And,
    "or": tirx.Or,
    "not": tirx.Not,
    "where": tirx.Select,
    "exp": tirx.exp,
    "log": tirx.log,
    "sqrt": tirx.sqrt,
    "tanh": tirx.tanh,
    "sigmoid": tirx.sigmoid,
    "erf": tirx.erf,
}
"""The functions of `deploykit.ragged` by name."""


class Elements:
    """Expressions over the elements of tensors. `buffers` are the flat buffers of tensors; loads of lengths and of
    sums of lengths refer to the buffers of `storage`."""

    def __init__(self, storage: Storage, buffers: Mapping[Tensor, Buffer]) -> None:
        self.storage, self.buffers = storage, buffers

    def expr(self, value: Value, known: Mapping[Value, Expr] | None = None) -> Expr:
        """The value over the variables that stand for dims. `known` are parts that are computed already."""
        if known and value in known:
            return known[value]
        if isinstance(value, Literal):
            return tirx.const(value.number, value.of)
        if isinstance(value, OfIndex):
            return self.storage.expr(value.index)
        if isinstance(value, Load):
            return self._load(value)
        assert isinstance(value, Apply)
        operands = [self.expr(operand, known) for operand in value.operands]
        if value.function == "cast":
            return operands[0].astype(value.of)
        return _plain(FUNCTIONS[value.function](*operands))

    def place(self, tensor: Tensor, indices: tuple[Index, ...]) -> Expr:
        """The offset of an element."""
        return self.storage.layout(tensor.dims, tensor.padding).offset([self.storage.expr(i) for i in indices])

    def _load(self, load: Load) -> Expr:
        element: Expr = tirx.BufferLoad(self.buffers[load.tensor], [self.place(load.tensor, load.indices)])
        if load.outside is None:
            return element
        outside = tirx.const(load.outside, load.dtype)
        for position in reversed(range(len(load.indices))):
            left = room(load.tensor.dims, load.indices, position)
            for index in (left, load.indices[position]):
                if not nonnegative(index):
                    element = tirx.if_then_else(self.storage.expr(index) >= 0, element, outside)
        return element


def over(node: Any, buffers: Mapping[Buffer, Buffer]) -> Any:
    """`node` with every access to a buffer of `buffers` replaced by the same access to another one."""

    def load(found: ir.TensorLoad) -> Expr:
        other = buffers.get(found.source)
        return found if other is None else tirx.BufferLoad(other, list(found.indices))

    def store(found: tirx.BufferStore) -> tirx.Stmt:
        other = buffers.get(found.buffer)
        return found if other is None else tirx.BufferStore(other, found.value, list(found.indices))

    return tvm_ffi.structural_map(node, [(ir.TensorLoad, load), (tirx.BufferStore, store)], order="post")


def _plain(expr: Any) -> Expr:
    return as_expr(expr)
