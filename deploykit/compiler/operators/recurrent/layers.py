"""Recurrent layers: `rnn`, `gru`, `lstm`, over symbolic sequence length and batch.

One matrix product computes the projections of all inputs, for every time step, direction and gate, with biases added.
The rest is one imperative kernel per layer (`scan`). For each direction, step and sequence it adds the projection of
the state to the gates, and the cell (`cells`) computes the next state from them. Weights are rearranged here for the
kernel; constant ones at import. States and gates are kept in float32 or wider.

* A sequence shorter than the longest one (`lengths`) keeps its state when it ends, and its later outputs are 0. The
  reverse direction starts at the sequence's own last step.
* `Form.clip` bounds the operands of the gates' activations.
* `Form.batch_first` puts the batch first in inputs, states and outputs.

Operands: inputs `x` (length, batch, features); weights of the inputs `w` (directions, gates * hidden, features) and of
the states `r` (directions, gates * hidden, hidden); `bias` of both (directions, 2 * gates * hidden); `lengths`
(batch,); first states `h` and `c` (directions, batch, hidden). Results: the states of all steps (length, directions,
batch, hidden), or `None` if they are not wanted, and the last states (directions, batch, hidden). (Source: ONNX
operators RNN, GRU, LSTM.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from tvm import ir, te, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.building.broadcast import elementwise
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.conversion import compute_dtype
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.expressions import compute
from deploykit.compiler.operators.building.imperative import Array, Code, imperative
from deploykit.compiler.operators.building.integers import equal, exprs
from deploykit.compiler.operators.building.sizes import require_equal, require_rank
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.joining import concat
from deploykit.compiler.operators.layout import transpose
from deploykit.compiler.operators.matmul import wide_matmul
from deploykit.compiler.operators.recurrent import cells
from deploykit.compiler.operators.recurrent.cells import LANES, Cell, Phase
from deploykit.compiler.operators.recurrent.roles import annotation
from deploykit.compiler.operators.recurrent.scan import Function, Layer, scan
from deploykit.compiler.tir.extrema import maximum, minimum


@dataclass(frozen=True)
class Form:
    """What all kinds of layers have in common. `backwards` and `activations` have one entry per direction: whether it
    runs from the end, and the activations of its gates. `hidden` is the size of the states, if the model gives it.
    `steps`: whether the states of all steps are wanted."""

    backwards: tuple[bool, ...]
    activations: tuple[tuple[Function, ...], ...]
    hidden: int | None = None
    clip: float | None = None
    batch_first: bool = False
    steps: bool = True


def rnn(
    ctx: Context,
    x: Value,
    w: Value,
    r: Value,
    bias: Value | None = None,
    lengths: Value | None = None,
    h: Value | None = None,
    *,
    form: Form,
) -> tuple[Value | None, ...]:
    """A layer of one gate with one activation: `h = f(x W + h R + b)`."""
    layer = _layer(ctx, form, cells.rnn, 1, r)
    return _run(ctx, "rnn", form, layer, x, w, r, bias=bias, lengths=lengths, h=h)


def gru(
    ctx: Context,
    x: Value,
    w: Value,
    r: Value,
    bias: Value | None = None,
    lengths: Value | None = None,
    h: Value | None = None,
    *,
    form: Form,
    linear_before_reset: bool = False,
) -> tuple[Value | None, ...]:
    """A layer of gates z, r, h with two activations: one of the first two gates, one of the last (`cells.gru`)."""
    layer = _layer(ctx, form, partial(cells.gru, linear_before_reset=linear_before_reset), 3, r)
    return _run(ctx, "gru", form, layer, x, w, r, bias=bias, lengths=lengths, h=h)


def lstm(
    ctx: Context,
    x: Value,
    w: Value,
    r: Value,
    bias: Value | None = None,
    lengths: Value | None = None,
    h: Value | None = None,
    c: Value | None = None,
    peephole: Value | None = None,
    *,
    form: Form,
    coupled: bool = False,
) -> tuple[Value | None, ...]:
    """A layer of gates i, o, f, c with three activations: of the first three gates, of the last, and of the cell
    (`cells.lstm`). `peephole` are weights (directions, 3 * hidden) of the cell for the first three gates. The last
    result is the last cell states."""
    layer = _layer(ctx, form, partial(cells.lstm, coupled=coupled), 4, r)
    return _run(ctx, "lstm", form, layer, x, w, r, bias=bias, lengths=lengths, h=h, c=c, peephole=peephole)


def _layer(ctx: Context, form: Form, cell: Callable[[int], Cell], gates: int, r: Value) -> Layer:
    require_rank(ctx, r, 3)
    hidden = r.shape[2] if form.hidden is None else form.hidden
    if not isinstance(hidden, int):
        raise Unsupported("the size of the state is not known")
    ctx.require(equal(r.shape[2], hidden), f"weights of states of size {{}}, hidden_size is {hidden}", r.shape[2])
    ctx.require(equal(r.shape[1], hidden * gates), f"{{}} rows of weights for {gates} gates", r.shape[1])
    return Layer(cell(hidden), hidden, form.backwards, form.activations, partial(_bounded, form.clip))


def _run(
    ctx: Context, name: str, form: Form, layer: Layer, x: Value, w: Value, r: Value, **operands: Value | None
) -> tuple[Value | None, ...]:
    """The results of the layer, with a kernel of this name. `operands` are the optional operands by name."""
    dtype, batch_first = x.dtype, form.batch_first
    wide = compute_dtype(dtype)
    directions = len(layer.backwards)
    require_rank(ctx, x, 3)
    require_rank(ctx, w, 3)
    ctx.require(equal(w.shape[0], directions), f"weights of {{}} directions for a layer of {directions}", w.shape[0])
    _check_operands(ctx, layer, x.shape[0 if batch_first else 1], r, batch_first, operands)
    if batch_first:
        x = transpose(ctx, x, [1, 0, 2])
        for each in ("h", "c"):
            state = operands.get(each)
            operands[each] = None if state is None else transpose(ctx, state, [1, 0, 2])
    given = {n: v if n == "lengths" else ctx.cast(v, wide) for n, v in operands.items() if v is not None}
    bias, peephole = given.pop("bias", None), given.pop("peephole", None)
    arrays = {
        "projected": _projected(ctx, layer, x, w, bias),
        "weights": ctx.cast(_packed(ctx, layer, r), wide),
        **given,
        **({} if bias is None else _state_bias(ctx, layer, bias)),
        **({} if peephole is None else _peepholes(ctx, layer, peephole)),
    }
    y, states = _scan(ctx, name, form, layer, arrays)
    order = [2, 0, 1, 3] if batch_first else [0, 1, 2, 3]
    whole = None if y is None else transpose(ctx, ctx.cast(y, dtype), order)
    return (whole, *(transpose(ctx, ctx.cast(s, dtype), [1, 0, 2] if batch_first else [0, 1, 2]) for s in states))


def _scan(
    ctx: Context, name: str, form: Form, layer: Layer, operands: dict[str, Value]
) -> tuple[Value | None, list[Value]]:
    """The states of all steps (if wanted) and the last states."""
    names = list(operands)
    length, batch = operands["projected"].shape[:2]
    dtype = operands["projected"].dtype
    directions = len(layer.backwards)
    states = ("h", "c") if name == "lstm" else ("h",)
    outputs: dict[str, Sequence[IntExpr]] = {f"last_{s}": (directions, batch, layer.hidden) for s in states}
    outputs["states"] = (2, directions, batch, layer.units)
    for vector in (*(["cells"] if "c" in states else []), *layer.cell.vectors):
        outputs[vector] = (directions, batch, layer.units)
    if form.steps:
        outputs["y"] = (length, directions, batch, layer.hidden)

    def body(code: Code, *arrays: Array) -> None:
        scan(code, layer, dict(zip([*names, *outputs], arrays, strict=True)), (length, batch), dtype)

    def build(*tensors: te.Tensor) -> Sequence[te.Tensor]:
        shapes = [(exprs(shape), dtype) for shape in outputs.values()]
        return imperative(name, tensors, shapes, body, annotation(names, list(outputs), layer.backwards))

    results = ctx.kernel(name, build, *operands.values(), dtype=(dtype,) * len(outputs))
    found = dict(zip(outputs, results, strict=True))
    return found.get("y"), [found[f"last_{s}"] for s in states]


def _bounded(limit: float | None, x: ir.Expr) -> ir.Expr:
    """`x` clipped to `-limit..limit`."""
    if limit is None:
        return x
    dtype = str(x.ty.dtype)
    return maximum(tirx.const(-limit, dtype), minimum(tirx.const(limit, dtype), x))


def _check_operands(
    ctx: Context, layer: Layer, batch: IntExpr, r: Value, batch_first: bool, operands: dict[str, Value | None]
) -> None:
    """Require that the sizes of all other operands fit those of the inputs and their weights."""
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


def _projected(ctx: Context, layer: Layer, x: Value, w: Value, bias: Value | None) -> Value:
    """The inputs times their weights, plus the biases: (length, batch, directions * width)."""
    columns = len(layer.backwards) * layer.width
    arranged = ctx.reshape(_taken(ctx, w, layer.columns()), (columns, w.shape[2]))
    product = wide_matmul(ctx, x, transpose(ctx, arranged, [1, 0]))
    if bias is None:
        return product
    order = layer.columns()
    own = _taken(ctx, bias, order)
    of_state = np.where(order >= 0, order + layer.hidden * layer.gates, -1)
    starts = np.concatenate([_starts_projected(phase, layer) for phase in layer.cell.phases])
    other = _taken(ctx, bias, np.where(starts, of_state, -1))
    if own.array is not None and other.array is not None:
        total = ctx.constant(own.array + other.array)
    else:
        total = elementwise(ctx, "gate_bias", lambda a, b: a + b, own, other)
    return elementwise(ctx, "add_bias", lambda a, b: a + b, product, ctx.reshape(total, (columns,)))


def _starts_projected(phase: Phase, layer: Layer) -> np.ndarray:
    """For each column of a phase, whether its sum starts from the projected input."""
    starts = np.repeat(phase.projects or (True,) * len(phase.gates), LANES)
    return np.tile(starts, layer.units // LANES)


def _packed(ctx: Context, layer: Layer, r: Value) -> Value:
    """The weights of the states, (directions, hidden * width), panel by panel; within a panel, by units of the
    state."""
    parts = []
    for phase, start in zip(layer.cell.phases, layer.starts(), strict=True):
        panels = layer.units // phase.units
        rows = _taken(ctx, r, layer.columns()[start : start + panels * phase.width])
        split = ctx.reshape(rows, (len(layer.backwards), panels, phase.width, layer.hidden))
        turned = transpose(ctx, split, [0, 1, 3, 2])
        parts.append(ctx.reshape(turned, (len(layer.backwards), panels * phase.width * layer.hidden)))
    return concat(ctx, parts, 1)


def _state_bias(ctx: Context, layer: Layer, bias: Value) -> dict[str, Value]:
    """The state's bias of the last gate, if a sum starts from it."""
    if all(all(phase.projects) for phase in layer.cell.phases):
        return {}
    first = (2 * layer.gates - 1) * layer.hidden
    return {"bias": _taken(ctx, bias, _filled(layer, first))}


def _peepholes(ctx: Context, layer: Layer, peephole: Value) -> dict[str, Value]:
    """The peephole weights of the three gates that have them."""
    return {f"p{i}": _taken(ctx, peephole, _filled(layer, i * layer.hidden)) for i in range(3)}


def _filled(layer: Layer, first: int) -> np.ndarray:
    """The positions of a vector over the hidden units that begins at `first`; -1 for padding units."""
    units = np.arange(layer.units)
    return np.where(units < layer.hidden, units + first, -1)


def _taken(ctx: Context, x: Value, positions: np.ndarray) -> Value:
    """The elements of axis 1 at these positions; zeros for position -1."""
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
