"""Random valid graphs: `generate(seed)` returns a model with symbolic dims, inputs at several sizes, and its outputs.

The graph grows by proposals (`proposals/`). Nodes read weights, inputs that share dims, and earlier results. The
outputs are all results that no node reads, and some intermediate results.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.fuzz.drawing import Draw, Value
from tests.fuzz.proposals import elementwise, layout, products, reductions

OPSETS = (17, 18, 21)
LONGEST = 22
"""The largest number of proposals in a graph."""

PROPOSALS: Mapping[Callable[[Draw], object], int] = (
    elementwise.PROPOSALS | layout.PROPOSALS | reductions.PROPOSALS | products.PROPOSALS
)

SHAPES: tuple[tuple[str | int, ...], ...] = (
    ("n",),
    ("n", 8),
    ("n", "m"),
    ("n", "m", 6),
    ("n", 4, "m"),
    (2, "n", "m"),
    ("n", "m", "k"),
    ("n", 3, 8, 8),
    ("n", 4, "m", "k"),
    ("n", "m", 2, 4),
    (1, "m", 12),
    (5,),
    (),
)


@dataclass(frozen=True)
class Case:
    """A model, its inputs at every sample, and the expected outputs in float64."""

    model: onnx.ModelProto
    feeds: tuple[dict[str, np.ndarray], ...]
    expected: tuple[dict[str, np.ndarray], ...]


def generate(seed: int) -> Case:
    """The graph of a seed. The same seed always gives the same graph."""
    chooser = random.Random(seed)
    draw = Draw(chooser, chooser.choice(OPSETS))
    for _ in range(chooser.randint(1, 3)):
        draw.input(chooser.choice(SHAPES))
    if chooser.random() < 0.4:
        draw.input(
            chooser.choice(SHAPES[:6]), chooser.choice([TensorProto.INT64, TensorProto.INT64, TensorProto.INT32])
        )
    if chooser.random() < 0.15:
        draw.input(chooser.choice(SHAPES[:6]), TensorProto.BOOL)
    wanted = chooser.randint(2, LONGEST)
    for _ in range(20 * wanted):
        proposal = chooser.choices(list(PROPOSALS), list(PROPOSALS.values()))[0]
        wanted -= draw.attempt(proposal)
        if not wanted:
            break
    return case_of(draw, _outputs(draw))


def _outputs(draw: Draw) -> list[Value]:
    """The results that no node reads, and some of those that nodes read."""
    read = {name for node in draw.nodes for name in node.input}
    computed = [v for v in draw.pool if v.name not in draw.inputs]
    kept = [v for v in computed if v.name not in read]
    inner = [v for v in computed if v.name in read]
    return kept + draw.random.sample(inner, min(len(inner), draw.random.choice([0, 0, 1, 3])))


def case_of(draw: Draw, outputs: Sequence[Value]) -> Case:
    """The part of a graph that computes these outputs."""
    nodes = needed(draw.nodes, [v.name for v in outputs])
    read = {name for node in nodes for name in node.input} | {v.name for v in outputs}
    inputs = {name: found for name, found in draw.inputs.items() if name in read}
    graph = helper.make_graph(
        nodes,
        "fuzzed",
        [helper.make_tensor_value_info(name, value.dtype, shape) for name, (value, shape) in inputs.items()],
        [
            helper.make_tensor_value_info(v.name, v.dtype, [f"{v.name}_{axis}" for axis in range(v.rank)])
            for v in outputs
        ],
        [tensor for name, tensor in draw.weights.items() if name in read],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", draw.opset)], ir_version=10)
    samples = range(len(draw.samples))
    return Case(
        model,
        tuple({name: stored(value, i) for name, (value, _) in inputs.items()} for i in samples),
        tuple({v.name: v.arrays[i] for v in outputs} for i in samples),
    )


def stored(value: Value, sample: int) -> np.ndarray:
    """A value at a sample in the dtype of the model."""
    return value.arrays[sample].astype(helper.tensor_dtype_to_np_dtype(value.dtype))


def needed(nodes: Iterable[onnx.NodeProto], outputs: Iterable[str]) -> list[onnx.NodeProto]:
    """The nodes that outputs depend on, in order."""
    wanted = set(outputs)
    kept = []
    for node in reversed(list(nodes)):
        if wanted & set(node.output):
            kept.append(node)
            wanted |= set(node.input)
    return kept[::-1]
