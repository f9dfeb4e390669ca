"""ONNX: RNN, GRU, LSTM (`compiler.operators.recurrent`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tvm import te

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.broadcast import compute_dtype
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.errors import Unsupported
from deploykit.compiler.operators.imperative import Array, Code, imperative
from deploykit.compiler.operators.integers import equal, exprs
from deploykit.compiler.operators.layout import transpose
from deploykit.compiler.operators.recurrence import Cell, gru, lstm, rnn
from deploykit.compiler.operators.recurrent import (
    bounded,
    check_operands,
    packed,
    peepholes_of,
    projected_of,
    state_bias,
)
from deploykit.compiler.operators.recurrent_scan import Function, Layer, scan
from deploykit.compiler.operators.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.ops.activations import ACTIVATIONS
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
    return Layer(cell(hidden), hidden, backwards, functions, partial(bounded, clip))


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
    check_operands(ctx, layer, x.shape[0 if batch_first else 1], r, batch_first, operands)
    if batch_first:
        x = transpose(ctx, x, [1, 0, 2])
        for name in ("h", "c"):
            state = operands.get(name)
            operands[name] = None if state is None else transpose(ctx, state, [1, 0, 2])
    given = {n: v if n == "lengths" else ctx.cast(v, wide) for n, v in operands.items() if v is not None}
    bias, peephole = given.pop("bias", None), given.pop("peephole", None)
    arrays = {
        "projected": projected_of(ctx, layer, x, w, bias),
        "weights": ctx.cast(packed(ctx, layer, r), wide),
        **given,
        **({} if bias is None else state_bias(ctx, layer, bias)),
        **({} if peephole is None else peepholes_of(ctx, layer, peephole)),
    }
    y, states = _scan(ctx, node, layer, arrays)
    order = [2, 0, 1, 3] if batch_first else [0, 1, 2, 3]
    whole = None if y is None else transpose(ctx, ctx.cast(y, dtype), order)
    return (whole, *(transpose(ctx, ctx.cast(s, dtype), [1, 0, 2] if batch_first else [0, 1, 2]) for s in states))


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
