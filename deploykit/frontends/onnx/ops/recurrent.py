"""Recurrent layers: RNN, GRU, LSTM, over symbolic sequence length and batch.

The projections of all inputs, of every time step, direction and gate, are one matrix product with the biases added.
What is left is one imperative kernel a layer: for each direction, step and sequence it adds the projection of the
state to a row of gates, and the cell (`recurrence`) makes the next state of it. States and gates are kept in float32
or wider.

* a sequence shorter than the longest one (`sequence_lens`) keeps its state when it ends, and its outputs beyond are 0;
  the reverse direction starts at its own last step;
* `clip` bounds what the activations of the gates see;
* `layout` 1 puts the batch first in inputs, states and outputs.

Weights are (directions, gates * hidden, ...). (Source: ONNX operators RNN, GRU, LSTM.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tvm import ir, te, tirx

from deploykit.compiler.program.ir import IntExpr
from deploykit.frontends.onnx.broadcast import compute_dtype, elementwise
from deploykit.frontends.onnx.context import Context
from deploykit.frontends.onnx.imperative import Array, Code, imperative
from deploykit.frontends.onnx.integers import clamp, equal, expr, exprs
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.ops.activations import ACTIVATIONS
from deploykit.frontends.onnx.ops.layout import transpose
from deploykit.frontends.onnx.ops.matmul import wide_matmul
from deploykit.frontends.onnx.recurrence import Row, Vector, gru, lstm, rnn
from deploykit.frontends.onnx.registry import Unsupported, operator
from deploykit.frontends.onnx.value import Value

Function = Callable[[ir.Expr], ir.Expr]

_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


@dataclass(frozen=True)
class _Layer:
    """A layer: `gates` and the names of its default activations are the cell's; `backwards` and `functions` have one
    entry a direction. With `split_bias` the last gate's bias of the state is left to the cell."""

    cell: Callable[[Row], None]
    gates: int
    hidden: IntExpr
    backwards: tuple[bool, ...]
    functions: tuple[tuple[Function, ...], ...]
    bounded: Function
    split_bias: bool = False


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
    linear = node.int("linear_before_reset", 0) != 0
    cell = partial(gru, linear_before_reset=linear)
    layer = _layer(ctx, node, cell, ("Sigmoid", "Tanh"), 3, r, split_bias=linear)
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
    ctx: Context,
    node: Node,
    cell: Callable[[Row], None],
    defaults: tuple[str, ...],
    gates: int,
    r: Value,
    *,
    split_bias: bool = False,
) -> _Layer:
    direction = node.string("direction", "forward").lower()
    if direction not in _DIRECTIONS:
        raise Unsupported(f"direction '{direction}'")
    backwards = _DIRECTIONS[direction]
    functions = _functions(node, defaults, len(backwards))
    clip = node.float("clip", 0.0) if node.has("clip") else None
    hidden = node.int("hidden_size") if node.has("hidden_size") else r.shape[2]
    ctx.require(equal(r.shape[2], hidden), f"weights of states of size {{}}, hidden_size is {hidden}", r.shape[2])
    ctx.require(equal(r.shape[1], hidden * gates), f"{{}} rows of weights for {gates} gates", r.shape[1])
    return _Layer(cell, gates, hidden, backwards, functions, partial(_bounded, clip), split_bias)


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
    ctx: Context, node: Node, layer: _Layer, x: Value, w: Value, r: Value, **operands: Value | None
) -> tuple[Value | None, ...]:
    """Outputs Y, Y_h and (LSTM) Y_c. `operands` are the optional inputs by name."""
    dtype, batch_first = x.dtype, node.int("layout", 0) == 1
    wide = compute_dtype(dtype)
    directions = len(layer.backwards)
    ctx.require(equal(w.shape[0], directions), f"weights of {{}} directions for a layer of {directions}", w.shape[0])
    if batch_first:
        x = transpose(ctx, x, [1, 0, 2])
        for name in ("h", "c"):
            state = operands.get(name)
            operands[name] = None if state is None else transpose(ctx, state, [1, 0, 2])
    given = {n: v if n == "lengths" else ctx.cast(v, wide) for n, v in operands.items() if v is not None}
    projected = _projected(ctx, layer, x, w, given.get("bias"))
    kept = {n: v for n, v in given.items() if n != "bias" or layer.split_bias}
    factors = ctx.cast(transpose(ctx, r, [0, 2, 1]), wide)
    y, states = _scan(ctx, node, layer, {"projected": projected, "weights": factors, **kept})
    order = [2, 0, 1, 3] if batch_first else [0, 1, 2, 3]
    whole = None if y is None else transpose(ctx, ctx.cast(y, dtype), order)
    return (whole, *(transpose(ctx, ctx.cast(s, dtype), [1, 0, 2] if batch_first else [0, 1, 2]) for s in states))


def _projected(ctx: Context, layer: _Layer, x: Value, w: Value, bias: Value | None) -> Value:
    """(length, batch, directions * gates * hidden): inputs times weights, plus the biases."""
    columns = ctx.product(w.shape[:2])
    product = wide_matmul(ctx, x, transpose(ctx, ctx.reshape(w, (columns, w.shape[2])), [1, 0]))
    if bias is None:
        return product
    width = ctx.simplify(w.shape[1])
    both = width - layer.hidden if layer.split_bias else width

    def build(t: te.Tensor) -> te.Tensor:
        def total(d: ir.Expr, j: ir.Expr) -> ir.Expr:
            own = t(d, j)
            return own + tirx.if_then_else(j < both, t(d, j + width), tirx.const(0, own.ty.dtype))

        return te.compute(exprs((bias.shape[0], width)), total, name="gate_bias")

    added = ctx.reshape(ctx.kernel("gate_bias", build, bias, dtype=bias.dtype), (columns,))
    return elementwise(ctx, "add_bias", lambda a, b: a + b, product, added)


def _scan(ctx: Context, node: Node, layer: _Layer, operands: dict[str, Value]) -> tuple[Value | None, list[Value]]:
    """Outputs over all steps (if used) and the last states, from the first states."""
    names = list(operands)
    length, batch = operands["projected"].shape[:2]
    dtype = operands["projected"].dtype
    states = ("h", "c") if node.op_type == "LSTM" else ("h",)
    state_shape = exprs((len(layer.backwards), batch, layer.hidden))
    outputs = {f"last_{s}": state_shape for s in states}
    outputs["gates"] = exprs((layer.hidden * (layer.gates + 1),))
    if node.uses_output(0):
        outputs["y"] = exprs((length, len(layer.backwards), batch, layer.hidden))

    def body(code: Code, *arrays: Array) -> None:
        _steps(code, layer, dict(zip([*names, *outputs], arrays, strict=True)), (length, batch), dtype)

    def build(*tensors: te.Tensor) -> Sequence[te.Tensor]:
        return imperative(node.op_type.lower(), tensors, [(shape, dtype) for shape in outputs.values()], body)

    results = ctx.kernel(node.op_type.lower(), build, *operands.values(), dtype=(dtype,) * len(outputs))
    found = dict(zip(outputs, results, strict=True))
    return found.get("y"), [found[f"last_{s}"] for s in states]


def _steps(code: Code, layer: _Layer, arrays: dict[str, Array], sizes: tuple[IntExpr, IntExpr], dtype: str) -> None:
    """All steps of all directions."""
    length, batch = sizes
    zero = tirx.const(0, dtype)
    for d, backwards in enumerate(layer.backwards):
        for name in ("h", "c"):
            if f"last_{name}" in arrays:
                with code.loop("b", batch) as b, code.loop("j", layer.hidden) as j:
                    arrays[f"last_{name}"][d, b, j] = arrays[name][d, b, j] if name in arrays else zero
        with code.loop("step", length) as step, code.loop("b", batch) as b:
            valid = expr(length)
            if "lengths" in arrays:
                valid = expr(clamp(tirx.Cast("int64", arrays["lengths"][b]), 0, length))
            place = valid - 1 - step if backwards else step
            with code.when(step < valid):
                row = _row(code, layer, arrays, (d, b, place))
                layer.cell(row)
                if "y" in arrays:
                    with code.loop("j", layer.hidden) as j:
                        arrays["y"][place, d, b, j] = row.h[j]
            if "y" in arrays and "lengths" in arrays:
                with code.when(step >= valid), code.loop("j", layer.hidden) as j:
                    arrays["y"][step, d, b, j] = zero


def _row(code: Code, layer: _Layer, arrays: dict[str, Array], where: tuple[int, ir.Expr, ir.Expr]) -> Row:
    d, b, place = where
    return Row(
        code=code,
        hidden=layer.hidden,
        projected=Vector(arrays["projected"], (place, b), layer.hidden * (layer.gates * d)),
        gates=Vector(arrays["gates"]),
        h=Vector(arrays["last_h"], (d, b)),
        c=Vector(arrays["last_c"], (d, b)) if "last_c" in arrays else None,
        weights=lambda k: Vector(arrays["weights"], (d, k)),
        peephole=Vector(arrays["peephole"], (d,)) if "peephole" in arrays else None,
        bias=Vector(arrays["bias"], (d,)) if "bias" in arrays else None,
        functions=layer.functions[d],
        bounded=layer.bounded,
    )
