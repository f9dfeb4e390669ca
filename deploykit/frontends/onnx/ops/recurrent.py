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

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from tvm import ir, te, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.broadcast import compute_dtype, elementwise
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.errors import Unsupported
from deploykit.compiler.operators.expressions import compute
from deploykit.compiler.operators.imperative import Array, Code, imperative
from deploykit.compiler.operators.integers import equal, exprs
from deploykit.compiler.operators.recurrence import LANES, Cell, Phase, gru, lstm, rnn
from deploykit.compiler.operators.recurrent_scan import Function, Layer, scan
from deploykit.compiler.operators.sizes import require_equal
from deploykit.compiler.operators.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.ops.activations import ACTIVATIONS
from deploykit.frontends.onnx.ops.joining import concat
from deploykit.frontends.onnx.ops.layout import transpose
from deploykit.frontends.onnx.ops.matmul import wide_matmul
from deploykit.frontends.onnx.registry import operator

_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


@operator("RNN")
def rnn_operator(
    ctx: Context,
    node: Node,
    x: Value,
    w: Value,
    r: Value,
    bias: Value | None = None,
    lengths: Value | None = None,
    h: Value | None = None,
) -> tuple[Value | None, ...]:
    layer = _layer(ctx, node, rnn, ("Tanh",), 1, r)
    return _run(ctx, node, layer, x, w, r, bias=bias, lengths=lengths, h=h)


@operator("GRU")
def gru_operator(
    ctx: Context,
    node: Node,
    x: Value,
    w: Value,
    r: Value,
    bias: Value | None = None,
    lengths: Value | None = None,
    h: Value | None = None,
) -> tuple[Value | None, ...]:
    cell = partial(gru, linear_before_reset=node.int("linear_before_reset", 0) != 0)
    layer = _layer(ctx, node, cell, ("Sigmoid", "Tanh"), 3, r)
    return _run(ctx, node, layer, x, w, r, bias=bias, lengths=lengths, h=h)


@operator("LSTM")
def lstm_operator(
    ctx: Context,
    node: Node,
    x: Value,
    w: Value,
    r: Value,
    bias: Value | None = None,
    lengths: Value | None = None,
    h: Value | None = None,
    c: Value | None = None,
    peephole: Value | None = None,
) -> tuple[Value | None, ...]:
    cell = partial(lstm, coupled=node.int("input_forget", 0) != 0)
    layer = _layer(ctx, node, cell, ("Sigmoid", "Tanh", "Tanh"), 4, r)
    return _run(ctx, node, layer, x, w, r, bias=bias, lengths=lengths, h=h, c=c, peephole=peephole)


def _layer(
    ctx: Context, node: Node, cell: Callable[[int], Cell], defaults: tuple[str, ...], gates: int, r: Value
) -> Layer:
    backwards = _DIRECTIONS[node.choice("direction", _DIRECTIONS, "forward")]
    functions = _functions(node, defaults, len(backwards))
    clip = node.float("clip", 0.0) if node.has("clip") else None
    hidden = node.int("hidden_size") if node.has("hidden_size") else r.shape[2]
    if not isinstance(hidden, int):
        raise Unsupported("the size of the state is not known")
    ctx.require(equal(r.shape[2], hidden), f"weights of states of size {{}}, hidden_size is {hidden}", r.shape[2])
    ctx.require(equal(r.shape[1], hidden * gates), f"{{}} rows of weights for {gates} gates", r.shape[1])
    return Layer(cell(hidden), hidden, backwards, functions, partial(_bounded, clip))


def _bounded(limit: float | None, x: ir.Expr) -> ir.Expr:
    if limit is None:
        return x
    dtype = str(x.ty.dtype)
    return tirx.max(tirx.min(x, tirx.const(limit, dtype)), tirx.const(-limit, dtype))


def _functions(node: Node, defaults: tuple[str, ...], directions: int) -> tuple[tuple[Function, ...], ...]:
    """The activations of each direction. Those that have an alpha or beta take theirs from the lists in turn."""
    names = node.strings("activations", list(defaults) * directions)
    if len(names) != len(defaults) * directions:
        raise Unsupported(f"{len(names)} activations, expected {len(defaults) * directions}")
    known = {name.lower(): activation for name, activation in ACTIVATIONS.items()}
    given = {"alpha": iter(node.floats("activation_alpha", [])), "beta": iter(node.floats("activation_beta", []))}
    functions = []
    for name in names:
        if name.lower() not in known:
            raise Unsupported(f"activation '{name}'")
        activation = known[name.lower()]
        taken = {p: next(given[p], default) for p, default in activation.parameters.items() if p in given}
        functions.append(activation.of(taken))
    count = len(defaults)
    return tuple(tuple(functions[d * count : (d + 1) * count]) for d in range(directions))


def _run(
    ctx: Context, node: Node, layer: Layer, x: Value, w: Value, r: Value, **operands: Value | None
) -> tuple[Value | None, ...]:
    """Outputs Y, Y_h and (LSTM) Y_c. `operands` are the optional inputs by name."""
    dtype, batch_first = x.dtype, node.int("layout", 0) == 1
    wide = compute_dtype(dtype)
    directions = len(layer.backwards)
    ctx.require(equal(w.shape[0], directions), f"weights of {{}} directions for a layer of {directions}", w.shape[0])
    _check_operands(ctx, layer, x.shape[0 if batch_first else 1], r, batch_first, operands)
    if batch_first:
        x = transpose(ctx, x, [1, 0, 2])
        for name in ("h", "c"):
            state = operands.get(name)
            operands[name] = None if state is None else transpose(ctx, state, [1, 0, 2])
    given = {n: v if n == "lengths" else ctx.cast(v, wide) for n, v in operands.items() if v is not None}
    bias, peephole = given.pop("bias", None), given.pop("peephole", None)
    arrays = {
        "projected": _projected(ctx, layer, x, w, bias),
        "weights": ctx.cast(_packed(ctx, layer, r), wide),
        **given,
        **({} if bias is None else _state_bias(ctx, layer, bias)),
        **({} if peephole is None else _peepholes(ctx, layer, peephole)),
    }
    y, states = _scan(ctx, node, layer, arrays)
    order = [2, 0, 1, 3] if batch_first else [0, 1, 2, 3]
    whole = None if y is None else transpose(ctx, ctx.cast(y, dtype), order)
    return (whole, *(transpose(ctx, ctx.cast(s, dtype), [1, 0, 2] if batch_first else [0, 1, 2]) for s in states))


def _check_operands(
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


def _projected(ctx: Context, layer: Layer, x: Value, w: Value, bias: Value | None) -> Value:
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


def _packed(ctx: Context, layer: Layer, r: Value) -> Value:
    """Weights of the states, (directions, hidden * width): for each panel, unit by unit of the state."""
    parts = []
    for phase, start in zip(layer.cell.phases, layer.starts(), strict=True):
        panels = layer.units // phase.units
        rows = taken(ctx, r, layer.columns()[start : start + panels * phase.width])
        split = ctx.reshape(rows, (len(layer.backwards), panels, phase.width, layer.hidden))
        turned = transpose(ctx, split, [0, 1, 3, 2])
        parts.append(ctx.reshape(turned, (len(layer.backwards), panels * phase.width * layer.hidden)))
    return concat(ctx, parts, 1)


def _state_bias(ctx: Context, layer: Layer, bias: Value) -> dict[str, Value]:
    """The state's bias of the last gate where a sum starts from it."""
    if all(all(phase.projects) for phase in layer.cell.phases):
        return {}
    first = (2 * layer.gates - 1) * layer.hidden
    return {"bias": taken(ctx, bias, _filled(layer, first))}


def _peepholes(ctx: Context, layer: Layer, peephole: Value) -> dict[str, Value]:
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


def _scan(ctx: Context, node: Node, layer: Layer, operands: dict[str, Value]) -> tuple[Value | None, list[Value]]:
    """Outputs over all steps (if used) and the last states, from the first states."""
    names = list(operands)
    length, batch = operands["projected"].shape[:2]
    dtype = operands["projected"].dtype
    directions = len(layer.backwards)
    states = ("h", "c") if node.op_type == "LSTM" else ("h",)
    outputs: dict[str, Sequence[IntExpr]] = {f"last_{s}": (directions, batch, layer.hidden) for s in states}
    outputs["states"] = (2, directions, batch, layer.units)
    for name in (*(["cells"] if "c" in states else []), *layer.cell.vectors):
        outputs[name] = (directions, batch, layer.units)
    if node.uses_output(0):
        outputs["y"] = (length, directions, batch, layer.hidden)

    def body(code: Code, *arrays: Array) -> None:
        scan(code, layer, dict(zip([*names, *outputs], arrays, strict=True)), (length, batch), dtype)

    def build(*tensors: te.Tensor) -> Sequence[te.Tensor]:
        return imperative(node.op_type.lower(), tensors, [(exprs(shape), dtype) for shape in outputs.values()], body)

    results = ctx.kernel(node.op_type.lower(), build, *operands.values(), dtype=(dtype,) * len(outputs))
    found = dict(zip(outputs, results, strict=True))
    return found.get("y"), [found[f"last_{s}"] for s in states]
