"""Imports the ONNX operators RNN, GRU, LSTM (`compiler.operators.recurrent.layers`). Attributes give activations by
name, and lists of their parameters."""

from __future__ import annotations

from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.recurrent import layers
from deploykit.compiler.operators.recurrent.layers import Form
from deploykit.compiler.operators.recurrent.scan import Function
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.ops.activations import ACTIVATIONS
from deploykit.frontends.onnx.registry import operator

_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


@operator("RNN")
def rnn(
    ctx: Context,
    node: Node,
    x: Value,
    w: Value,
    r: Value,
    bias: Value | None = None,
    lengths: Value | None = None,
    h: Value | None = None,
) -> tuple[Value | None, ...]:
    return layers.rnn(ctx, x, w, r, bias, lengths, h, form=_form(node, "Tanh"))


@operator("GRU")
def gru(
    ctx: Context,
    node: Node,
    x: Value,
    w: Value,
    r: Value,
    bias: Value | None = None,
    lengths: Value | None = None,
    h: Value | None = None,
) -> tuple[Value | None, ...]:
    form, linear = _form(node, "Sigmoid", "Tanh"), node.int("linear_before_reset", 0) != 0
    return layers.gru(ctx, x, w, r, bias, lengths, h, form=form, linear_before_reset=linear)


@operator("LSTM")
def lstm(
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
    form, coupled = _form(node, "Sigmoid", "Tanh", "Tanh"), node.int("input_forget", 0) != 0
    return layers.lstm(ctx, x, w, r, bias, lengths, h, c, peephole, form=form, coupled=coupled)


def _form(node: Node, *defaults: str) -> Form:
    """The attributes that all three operators share; `defaults` are the default activations of one direction."""
    backwards = _DIRECTIONS[node.choice("direction", _DIRECTIONS, "forward")]
    return Form(
        backwards,
        _activations(node, defaults, len(backwards)),
        hidden=node.int("hidden_size") if node.has("hidden_size") else None,
        clip=node.float("clip") if node.has("clip") else None,
        batch_first=node.int("layout", 0) == 1,
        steps=node.uses_output(0),
    )


def _activations(node: Node, defaults: tuple[str, ...], directions: int) -> tuple[tuple[Function, ...], ...]:
    """The activations of each direction. Activations with an alpha or beta take the next one of the attribute's
    list."""
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
