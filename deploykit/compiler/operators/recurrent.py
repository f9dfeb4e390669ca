"""Recurrent layers: RNN, GRU, LSTM, over symbolic sequence length and batch.

The projections of all inputs, of every time step, direction and gate, are one matrix product with the biases added.
What is left is one imperative kernel a layer (`recurrent_scan`): for each direction, step and sequence it adds the
projection of the state to the gates, and the cell (`recurrence`) makes the next state of them. Weights are arranged for
it here, constant ones at import. States and gates are kept in float32 or wider.

* a sequence shorter than the longest one (`sequence_lens`) keeps its state when it ends, and its outputs beyond are 0;
  the reverse direction starts at its own last step;
* `clip` bounds what the activations of the gates see;
* `layout` 1 puts the batch first in inputs, states and outputs.

Weights are (directions, gates * hidden, ...). (Source: ONNX operators RNN, GRU, LSTM.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tvm import ir, te, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.broadcast import elementwise
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.errors import Unsupported
from deploykit.compiler.operators.expressions import compute
from deploykit.compiler.operators.joining import concat
from deploykit.compiler.operators.layout import transpose
from deploykit.compiler.operators.matmul import wide_matmul
from deploykit.compiler.operators.recurrence import LANES, Phase
from deploykit.compiler.operators.recurrent_scan import Layer
from deploykit.compiler.operators.sizes import require_equal
from deploykit.compiler.operators.value import Value


def bounded(limit: float | None, x: ir.Expr) -> ir.Expr:
    if limit is None:
        return x
    dtype = str(x.ty.dtype)
    return tirx.max(tirx.min(x, tirx.const(limit, dtype)), tirx.const(-limit, dtype))


def check_operands(
    ctx: Context, layer: Layer, batch: IntExpr, r: Value, batch_first: bool, operands: dict[str, Value | None]
) -> None:
    """Demand that all operands beside the inputs and their weights have the sizes that follow from these."""
    directions = len(layer.backwards)
    state = (batch, directions, layer.hidden) if batch_first else (directions, batch, layer.hidden)
    expected: dict[str, tuple[str, Sequence[IntExpr]]] = {
        "bias": ("biases", (directions, 2 * layer.gates * layer.hidden)),
        "lengths": ("lengths of sequences", (batch,)),
        "h": ("first states", state),
        "c": ("first cells", state),
        "peephole": ("weights of peepholes", (directions, 3 * layer.hidden)),
    }
    require_equal(ctx, "the directions of the weights of states differ from those of the layer", r.shape[0], directions)
    for name, value in operands.items():
        if value is None:
            continue
        what, shape = expected[name]
        if value.rank != len(shape):
            raise Unsupported(f"{what} with {value.rank} dims")
        for size, wanted in zip(value.shape, shape, strict=True):
            require_equal(ctx, f"the sizes of the {what} do not fit the layer", size, wanted)


def projected_of(ctx: Context, layer: Layer, x: Value, w: Value, bias: Value | None) -> Value:
    """(length, batch, directions * width): inputs times weights, plus the biases."""
    columns = len(layer.backwards) * layer.width
    arranged = ctx.reshape(taken(ctx, w, layer.columns()), (columns, w.shape[2]))
    product = wide_matmul(ctx, x, transpose(ctx, arranged, [1, 0]))
    if bias is None:
        return product
    order = layer.columns()
    own = taken(ctx, bias, order)
    of_state = np.where(order >= 0, order + layer.hidden * layer.gates, -1)
    starts = np.concatenate([_starts_projected(phase, layer) for phase in layer.cell.phases])
    other = taken(ctx, bias, np.where(starts, of_state, -1))
    if own.array is not None and other.array is not None:
        total = ctx.constant(own.array + other.array)
    else:
        total = elementwise(ctx, "gate_bias", lambda a, b: a + b, own, other)
    return elementwise(ctx, "add_bias", lambda a, b: a + b, product, ctx.reshape(total, (columns,)))


def _starts_projected(phase: Phase, layer: Layer) -> np.ndarray:
    """For each column of a phase whether its sum starts from the projected input."""
    starts = np.repeat(phase.projects or (True,) * len(phase.gates), LANES)
    return np.tile(starts, layer.units // LANES)


def packed(ctx: Context, layer: Layer, r: Value) -> Value:
    """Weights of the states, (directions, hidden * width): for each panel, unit by unit of the state."""
    parts = []
    for phase, start in zip(layer.cell.phases, layer.starts(), strict=True):
        panels = layer.units // phase.units
        rows = taken(ctx, r, layer.columns()[start : start + panels * phase.width])
        split = ctx.reshape(rows, (len(layer.backwards), panels, phase.width, layer.hidden))
        turned = transpose(ctx, split, [0, 1, 3, 2])
        parts.append(ctx.reshape(turned, (len(layer.backwards), panels * phase.width * layer.hidden)))
    return concat(ctx, parts, 1)


def state_bias(ctx: Context, layer: Layer, bias: Value) -> dict[str, Value]:
    """The state's bias of the last gate where a sum starts from it."""
    if all(all(phase.projects) for phase in layer.cell.phases):
        return {}
    first = (2 * layer.gates - 1) * layer.hidden
    return {"bias": taken(ctx, bias, _filled(layer, first))}


def peepholes_of(ctx: Context, layer: Layer, peephole: Value) -> dict[str, Value]:
    return {f"p{i}": taken(ctx, peephole, _filled(layer, i * layer.hidden)) for i in range(3)}


def _filled(layer: Layer, first: int) -> np.ndarray:
    """The positions of a vector over the hidden units that begins at `first`, -1 for units to fill up."""
    units = np.arange(layer.units)
    return np.where(units < layer.hidden, units + first, -1)


def taken(ctx: Context, x: Value, positions: np.ndarray) -> Value:
    """Elements of axis 1 by their positions; zeros for -1."""
    shape = (x.shape[0], len(positions), *x.shape[2:])
    if x.array is not None:
        rows = x.array[:, np.maximum(positions, 0)]
        keep = (positions >= 0).reshape(1, -1, *[1] * (x.rank - 2))
        return ctx.constant(np.where(keep, rows, np.zeros((), x.array.dtype)))

    def build(t: te.Tensor, where: te.Tensor) -> te.Tensor:
        def element(d: ir.Expr, i: ir.Expr, *rest: ir.Expr) -> ir.Expr:
            at = where(i)
            return tirx.if_then_else(at >= 0, t(d, tirx.max(at, 0), *rest), tirx.const(0, t.dtype))

        return compute(shape, element, name="taken")

    return ctx.kernel("taken", build, x, ctx.constant(positions.astype(np.int64)), dtype=x.dtype)
