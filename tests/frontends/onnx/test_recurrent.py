"""Recurrent layers over symbolic length and batch against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import numpy_helper

import deploykit
from tests.frontends.onnx.harness import Check, by_onnxruntime, parse

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
SIZES = [(4, 2), (1, 1), (7, 3)]
"""Length and batch size."""
HIDDEN, INPUTS = 5, 3

CASES = [
    ("RNN", "forward", ""),
    ("RNN", "bidirectional", 'activations=["Elu", "Softsign"], activation_alpha=[0.7]'),
    ("GRU", "forward", ""),
    ("GRU", "bidirectional", "linear_before_reset=1"),
    ("GRU", "reverse", 'clip=0.4, activations=["Affine", "Tanh"], activation_alpha=[0.3], activation_beta=[0.4]'),
    ("LSTM", "bidirectional", ""),
    ("LSTM", "reverse", "clip=0.3"),
    ("LSTM", "forward", "input_forget=1"),
    ("LSTM", "forward", 'activations=["HardSigmoid","LeakyRelu","Softsign"], activation_alpha=[0.3,0.05]'),
]


def weights(*shape: int, seed: int) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) / 2).astype(np.float32)


@pytest.mark.sampled(part=4)
@pytest.mark.parametrize(("operator", "direction", "options"), CASES)
def test_all_operands(check: Check, operator: str, direction: str, options: str) -> None:
    """Biases, sequence lengths, first states and peepholes are all given."""
    gates, directions = GATES[operator], 2 if direction == "bidirectional" else 1
    lstm = operator == "LSTM"
    shapes = {
        "x": ["t", "b", INPUTS],
        "w": [directions, gates * HIDDEN, INPUTS],
        "r": [directions, gates * HIDDEN, HIDDEN],
        "bias": [directions, 2 * gates * HIDDEN],
        "h": [directions, "b", HIDDEN],
        **({"c": [directions, "b", HIDDEN], "p": [directions, 3 * HIDDEN]} if lstm else {}),
    }
    inputs = ", ".join(f"float[{','.join(map(str, shape))}] {name}" for name, shape in shapes.items())
    names = ["y", "last_h", *(["last_c"] if lstm else [])]
    outputs = ", ".join(f"float[{','.join(f'{n}{i}' for i in range(4 if n == 'y' else 3))}] {n}" for n in names)
    attributes = ", ".join(filter(None, [f'hidden_size={HIDDEN}, direction="{direction}"', options]))
    operands = f"x, w, r, bias, l, h{', c, p' if lstm else ''}"
    text = f"({inputs}, int32[b] l) => ({outputs}) {{ {', '.join(names)} = {operator}<{attributes}>({operands}) }}"
    runs = [
        {
            **{
                n: weights(*[{"t": length, "b": batch}.get(str(s), s) for s in shape], seed=i)  # type: ignore[misc]
                for i, (n, shape) in enumerate(shapes.items())
            },
            "l": np.random.default_rng(batch).integers(1, length + 1, batch).astype(np.int32),
        }
        for length, batch in SIZES
    ]
    check(text, *runs, opset=14, expected=by_onnxruntime(text, *runs, opset=14), rtol=1e-4)


@pytest.mark.parametrize("layout", [0, 1])
def test_operands_of_other_sizes_are_refused(check: Check, layout: int) -> None:
    """Each operand has its own sizes. An operand whose sizes do not fit would be read beyond its end."""
    shapes = {"x": (5, 3, INPUTS), "bias": (1, 8 * HIDDEN), "l": (3,), "h": (1, 3, HIDDEN), "c": (1, 3, HIDDEN)}
    shapes |= {"r": (1, 4 * HIDDEN, HIDDEN), "w": (1, 4 * HIDDEN, INPUTS), "p": (1, 3 * HIDDEN)}
    if layout:
        shapes |= {n: (shapes[n][1], shapes[n][0], *shapes[n][2:]) for n in "xhc"}
    inputs = ", ".join(
        f"{'int32' if n == 'l' else 'float'}[{','.join(f'{n}{i}' for i in range(len(shape)))}] {n}"
        for n, shape in shapes.items()
        if n not in "wr"
    )
    fixed = ", ".join(f"float[{','.join(map(str, shapes[n]))}] {n}" for n in "wr")
    call = f"LSTM<hidden_size={HIDDEN}, layout={layout}>(x, w, r, bias, l, h, c, p)"
    model = parse(f"({inputs}, {fixed}) => (float[a,b,m,n] y) {{ y = {call} }}")
    with check.session(model, {n: np.empty(s) for n, s in shapes.items()}) as session:

        def run(shapes: dict[str, tuple[int, ...]]) -> None:
            session.run({n: np.ones(s, np.int32 if n == "l" else np.float32) for n, s in shapes.items()})

        run(shapes)
        for name in ("bias", "l", "h", "c", "p"):
            for axis, size in enumerate(shapes[name]):
                shape = [*shapes[name]]
                shape[axis] = size - 1
                with pytest.raises(deploykit.ShapeError):
                    run(shapes | {name: tuple(shape)})


def test_only_the_last_state(check: Check) -> None:
    """The outputs of all steps are not computed when nothing reads them; lengths and states are optional."""
    text = f"""(float[t,b,{INPUTS}] x, float[1,{4 * HIDDEN},{INPUTS}] w, float[1,{4 * HIDDEN},{HIDDEN}] r)
        => (float[d,b,k] h) {{ _, h = LSTM<hidden_size={HIDDEN}>(x, w, r) }}"""
    fixed = {"w": weights(1, 4 * HIDDEN, INPUTS, seed=1), "r": weights(1, 4 * HIDDEN, HIDDEN, seed=2)}
    runs = [{"x": weights(length, batch, INPUTS, seed=0), **fixed} for length, batch in SIZES]
    check(text, *runs, opset=14, expected=by_onnxruntime(text, *runs, opset=14), rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("operator", GATES)
def test_constant_weights_with_various_hidden_sizes(check: Check, operator: str) -> None:
    """Hidden sizes that fill whole runs of units, and others; batches of whole blocks, and others."""
    for hidden, linear in ((16, 0), (32, 0), (40, 0), (77, 1)):
        shape = GATES[operator] * hidden
        text = f"""(float[t,b,{INPUTS}] x) => (float[s,d,c,k] y, float[d1,b1,k1] h) {{
            y, h = {operator}<hidden_size={hidden}{", linear_before_reset=" + str(linear) if operator == "GRU" else ""}>
                (x, w, r, bias) }}"""
        model = parse(text, opset=14)
        for name, sizes in {"w": (1, shape, INPUTS), "r": (1, shape, hidden), "bias": (1, 2 * shape)}.items():
            values = weights(*sizes, seed=hidden) / np.float32(np.sqrt(hidden))
            model.graph.initializer.append(numpy_helper.from_array(values, name))
        runs = [{"x": weights(length, batch, INPUTS, seed=0)} for length, batch in ((1, 1), (20, 1), (5, 9))]
        check(model, *runs, expected=by_onnxruntime(model, *runs), rtol=1e-4)


LENGTHS = [
    (0,),
    (1,),
    (5,),
    (0, 0, 0, 0),
    (3, 3, 3, 3),
    (5, 0, 1, 4),
    (1, 2, 1, 2, 5),
    (2, 1, 0, 1, 1, 1, 1, 0, 5, 4, 3),
]


@pytest.mark.parametrize(("operator", "direction"), [("LSTM", "bidirectional"), ("GRU", "forward"), ("RNN", "reverse")])
def test_sequences_in_blocks_have_their_own_lengths(check: Check, operator: str, direction: str) -> None:
    """A block of sequences ends with its longest one. The outputs after that are zeros, and the last states are those
    at the end of each sequence, even after an odd number of steps. An empty sequence keeps its first state, where ONNX
    Runtime gives zeros."""
    directions, hidden = 2 if direction == "bidirectional" else 1, 20
    text = f"""(float[t,b,{INPUTS}] x, int32[b] l, float[{directions},b,{hidden}] h0) =>
        (float[s,d,c,k] y, float[d1,b1,k1] h) {{
        y, h = {operator}<hidden_size={hidden}, direction="{direction}">(x, w, r, , l, h0) }}"""
    model = parse(text, opset=14)
    for number, (name, size) in enumerate({"w": INPUTS, "r": hidden}.items()):
        values = weights(directions, GATES[operator] * hidden, size, seed=number) / np.float32(2)
        model.graph.initializer.append(numpy_helper.from_array(values, name))
    runs = [
        {
            "x": weights(5, len(lengths), INPUTS, seed=len(lengths)),
            "l": np.array(lengths, np.int32),
            "h0": weights(directions, len(lengths), hidden, seed=9),
        }
        for lengths in LENGTHS
    ]
    expected = [list(map(np.array, results)) for results in by_onnxruntime(model, *runs)]
    for given, (_, last) in zip(runs, expected, strict=True):
        empty = given["l"] == 0
        last[:, empty] = given["h0"][:, empty]
    check(model, *runs, expected=expected, rtol=1e-4)
