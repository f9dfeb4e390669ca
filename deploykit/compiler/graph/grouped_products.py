"""Replaces products with weights in groups of few bits, and look-ups of their rows, by kernels.

The calls that `operators.building.grouped_calls` describes become `call_tir`. Weights are packed once, also those that
a product and a look-up share. A CPU that has an instruction for it computes with integers
(`schedules.integer.grouped`); others compute in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tvm import relax, tirx

from deploykit.compiler.constants import array_of, constant
from deploykit.compiler.devices.cpu import Device
from deploykit.compiler.operators.anchors.grouped import GroupPacking, grouped_matmul, grouped_rows
from deploykit.compiler.operators.building.grouped_calls import MATMUL, GroupedCall, read
from deploykit.compiler.operators.building.kernel_calls import call_te
from deploykit.compiler.operators.quantized.groups import FORMATS
from deploykit.compiler.schedules.integer.grouped import dot_for, product, quantised

PLAIN_WIDTH = 16
"""Rows of a panel for devices without vectors."""


class GroupedProducts:
    """Replaces the calls of one module: for weights in the layout of one device, by instructions of another one. It
    remembers the weights that it packed, and the operands that it quantised."""

    def __init__(self, builder: relax.BlockBuilder, layout: Device, *, device: Device, narrow: bool) -> None:
        self._builder, self._layout, self._device, self._narrow = builder, layout, device, narrow
        self._packed: dict[int, tuple[relax.Expr, Sequence[relax.Constant]]] = {}
        self._quantised: dict[tuple[relax.Expr, str, int | None], list[relax.Var]] = {}

    def rule(self, call: relax.Call) -> Callable[[relax.Call], relax.Expr] | None:
        """What replaces `call` by kernels, if it is one of these."""
        found = read(call)
        if found is None:
            return None
        return partial(self._matmul if found.function == MATMUL else self._rows, found)

    def _matmul(self, found: GroupedCall, call: relax.Call) -> relax.Expr:
        x = found.operand
        packing, packed = self._weights(found.format, found.weight)
        shape = list(call.ty.shape)
        rows = _product(shape[:-1])
        flat = self._builder.emit(relax.op.reshape(x, relax.ShapeExpr([rows, tirx.IntImm("int64", packing.depth)])))
        dot = dot_for(self._device, packing)
        if dot is None:
            build = partial(grouped_matmul, packing=packing)
            result = call_te(self._builder, build, flat, *packed, name="grouped_matmul")
        else:
            build = partial(product, packing=packing, dot=dot, device=self._device, narrow=self._narrow)
            result = call_te(
                self._builder,
                build,
                *self._left(x, flat, dot.left, packing.format.zero),
                *packed,
                name="grouped_matmul",
            )
        return relax.op.reshape(self._builder.emit(result), relax.ShapeExpr(shape))

    def _left(self, x: relax.Expr, flat: relax.Expr, dtype: str, zero: int | None) -> list[relax.Var]:
        """The left operand in groups of integers, for codes with this zero."""
        key = x, dtype, zero
        if key not in self._quantised:
            build = partial(quantised, dtype=dtype, zero=zero, narrow=self._narrow)
            whole = self._builder.emit(call_te(self._builder, build, flat, name="quantise_groups"))
            self._quantised[key] = [self._builder.emit(relax.TupleGetItem(whole, i)) for i in range(3)]
        return self._quantised[key]

    def _rows(self, found: GroupedCall, _: relax.Call) -> relax.Expr:
        packing, packed = self._weights(found.format, found.weight)
        build = partial(grouped_rows, packing=packing)
        return call_te(self._builder, build, found.operand, *packed, name="grouped_rows")

    def _weights(self, name: str, weight: Sequence[relax.Constant]) -> tuple[GroupPacking, Sequence[relax.Constant]]:
        """The packing of a weight, and its arrays in it."""
        codes = weight[0]
        rows, depth = (int(extent) for extent in codes.ty.shape)
        width = self._layout.lanes(32) if self._layout.vector_bits else PLAIN_WIDTH
        packing = GroupPacking(FORMATS[name], rows, depth, width)
        key = hash(codes.value)
        if key not in self._packed:
            arrays = [packing.codes(array_of(codes)), *(packing.scales(array_of(part)) for part in weight[1:])]
            self._packed[key] = codes, tuple(map(constant, arrays))
        return packing, self._packed[key][1]


def _product(extents: Sequence[relax.Expr]) -> relax.Expr:
    total: relax.Expr = tirx.IntImm("int64", 1)
    for extent in extents:
        total = total * extent
    return total
