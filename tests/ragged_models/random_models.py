"""Random small models of padded batches: some that padding affects, most not.

A model takes x[batch, seq, 8] and attention_mask[batch, seq]. It grows node by node, from operators on random earlier
values and from the idioms of masks: sums, maxima and softmax over elements that are present. Values that could grow go
through Tanh.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH = 8
BATCH, SEQ = "batch", "seq"
LOWEST = (float(np.finfo(np.float32).min), -1e9, -1e4)
Shape = tuple[int | str, ...]


class Impossible(Exception):
    """The drawn node does not fit the drawn values."""


@dataclass(frozen=True)
class Value:
    name: str
    shape: Shape

    @property
    def seqs(self) -> list[int]:
        """The axes that are `seq`."""
        return [axis for axis, extent in enumerate(self.shape) if extent == SEQ]


@dataclass
class Growing:
    """A model that grows. `risky` is the probability of a mask that is left out."""

    rng: random.Random
    risky: float
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)

    def add(self, operator: str, shape: Shape, *inputs: str, **attributes: Any) -> Value:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], name=name, **attributes))
        return Value(name, shape)

    def constant(self, array: object, dtype: type = np.float32) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def integers(self, *numbers: int) -> str:
        return self.constant(numbers, np.int64)

    def weight(self, *shape: int) -> str:
        drawn = np.random.default_rng(self.rng.randrange(1 << 30)).standard_normal(shape)
        return self.constant(drawn / max(1, shape[0]) ** 0.5)

    def pick(self, fits: Callable[[Value], bool] = lambda _: True) -> Value:
        found = [value for value in self.values if fits(value)]
        if not found:
            raise Impossible
        return self.rng.choice(found[-6:])

    def mask_along(self, value: Value, axis: int, *, present: bool) -> Value:
        """The mask as floats in a shape that broadcasts along an axis of `value`: 1 where elements are present, or
        where they are absent."""
        shape = tuple(extent if place in (0, axis) else 1 for place, extent in enumerate(value.shape))
        found = self.add("Cast", (BATCH, SEQ), "attention_mask", to=TensorProto.FLOAT)
        if not present:
            found = self.add("Sub", found.shape, self.constant(1), found.name)
        others = [place for place in range(len(shape)) if place not in (0, axis)]
        if others:
            found = self.add("Unsqueeze", shape, found.name, self.integers(*others))
        return found


def is_batched(value: Value) -> bool:
    return bool(value.shape) and value.shape[0] == BATCH


def ends_in_number(value: Value) -> bool:
    return isinstance(value.shape[-1], int) and value.shape[-1] > 1


def unary(g: Growing) -> Value:
    value = g.pick()
    return g.add(g.rng.choice(["Relu", "Tanh", "Sigmoid", "Neg", "Abs"]), value.shape, value.name)


def with_constant(g: Growing) -> Value:
    value = g.pick()
    number = round(g.rng.uniform(0.3, 1.5), 2)
    other = g.constant(g.rng.choice([number, [number]]))
    if ends_in_number(value) and g.rng.random() < 0.4:
        other = g.weight(int(value.shape[-1]))
    inputs = [value.name, other]
    g.rng.shuffle(inputs)
    return g.add(g.rng.choice(["Add", "Mul", "Sub"]), value.shape, *inputs)


def binary(g: Growing) -> Value:
    a = g.pick()
    b = g.pick(lambda other: _broadcast(a.shape, other.shape) is not None)
    shape = _broadcast(a.shape, b.shape)
    assert shape is not None
    return g.add(g.rng.choice(["Add", "Mul", "Sub", "Max"]), shape, a.name, b.name)


def linear(g: Growing) -> Value:
    value = g.pick(ends_in_number)
    width = g.rng.choice([4, WIDTH])
    return g.add("MatMul", (*value.shape[:-1], width), value.name, g.weight(int(value.shape[-1]), width))


def norm(g: Growing) -> Value:
    value = g.pick(ends_in_number)
    return g.add("LayerNormalization", value.shape, value.name, g.weight(int(value.shape[-1])))


def split(g: Growing) -> Value:
    value = g.pick(lambda other: other.shape[-1] == WIDTH and len(other.shape) <= 3)
    target = [0] * (len(value.shape) - 1)
    return g.add("Reshape", (*value.shape[:-1], 2, 4), value.name, g.integers(*target, 2, 4))


def merge(g: Growing) -> Value:
    value = g.pick(lambda other: other.shape[-2:] == (2, 4))
    target = [0] * (len(value.shape) - 2)
    return g.add("Reshape", (*value.shape[:-2], WIDTH), value.name, g.integers(*target, WIDTH))


def transpose(g: Growing) -> Value:
    value = g.pick(lambda other: len(other.shape) > 2)
    order = list(range(1, len(value.shape)))
    g.rng.shuffle(order)
    order = [0, *order]
    return g.add("Transpose", tuple(value.shape[axis] for axis in order), value.name, perm=order)


def product(g: Growing) -> Value:
    a = g.pick(lambda other: is_batched(other) and len(other.shape) >= 3)
    b = g.pick(lambda other: other.shape[:-2] == a.shape[:-2] and other.shape[-2] == a.shape[-1])
    shape = (*a.shape[:-1], b.shape[-1])
    if a.shape[-1] == SEQ and g.rng.random() >= g.risky:
        mask = g.mask_along(a, len(a.shape) - 1, present=True)
        a = g.add("Mul", a.shape, a.name, mask.name)
    return g.add("Tanh", shape, g.add("MatMul", shape, a.name, b.name).name)


def softmax(g: Growing) -> Value:
    value = g.pick(lambda other: is_batched(other) and len(other.shape) > 1)
    axis = g.rng.choice(value.seqs if value.seqs and g.rng.random() < 0.7 else range(1, len(value.shape)))
    if value.shape[axis] == SEQ and g.rng.random() >= g.risky:
        value = _lowered(g, value, axis)
    return g.add("Softmax", value.shape, value.name, axis=axis)


def reduced(g: Growing) -> Value:
    value = g.pick(lambda other: is_batched(other) and len(other.shape) > 1)
    axis = g.rng.choice(range(1, len(value.shape)))
    operator, keeps = g.rng.choice(["ReduceSum", "ReduceMax", "ReduceMean"]), g.rng.randrange(2)
    if value.shape[axis] == SEQ and g.rng.random() >= g.risky:
        operator = g.rng.choice(["ReduceSum", "ReduceMax"])
        value = _lowered(g, value, axis) if operator == "ReduceMax" else _zeroed(g, value, axis)
    shape = tuple(1 if place == axis else extent for place, extent in enumerate(value.shape))
    if not keeps:
        shape = (*shape[:axis], *shape[axis + 1 :])
    if operator == "ReduceSum":
        found = g.add(operator, shape, value.name, g.integers(axis), keepdims=keeps)
        return g.add("Tanh", shape, found.name)
    return g.add(operator, shape, value.name, axes=[axis], keepdims=keeps)


def _zeroed(g: Growing, value: Value, axis: int) -> Value:
    mask = g.mask_along(value, axis, present=True)
    if g.rng.random() < 0.5:
        return g.add("Mul", value.shape, value.name, mask.name)
    chosen = g.add("Cast", mask.shape, mask.name, to=TensorProto.BOOL)
    return g.add("Where", value.shape, chosen.name, value.name, g.constant(0))


def _lowered(g: Growing, value: Value, axis: int) -> Value:
    mask = g.mask_along(value, axis, present=False)
    low = g.constant(g.rng.choice(LOWEST))
    if g.rng.random() < 0.5:
        added = g.add("Mul", mask.shape, mask.name, low)
        return g.add("Add", value.shape, value.name, added.name)
    chosen = g.add("Cast", mask.shape, mask.name, to=TensorProto.BOOL)
    return g.add("Where", value.shape, chosen.name, low, value.name)


def masked(g: Growing) -> Value:
    value = g.pick(lambda other: is_batched(other) and bool(other.seqs))
    return _zeroed(g, value, g.rng.choice(value.seqs))


def resized(g: Growing) -> Value:
    """Add or remove a dim of one element."""
    value = g.pick()
    ones = [axis for axis, extent in enumerate(value.shape) if extent == 1]
    if ones and g.rng.random() < 0.5:
        axis = g.rng.choice(ones)
        return g.add("Squeeze", (*value.shape[:axis], *value.shape[axis + 1 :]), value.name, g.integers(axis))
    if len(value.shape) > 3:
        raise Impossible
    axis = g.rng.randrange(1, len(value.shape) + 1)
    return g.add("Unsqueeze", (*value.shape[:axis], 1, *value.shape[axis:]), value.name, g.integers(axis))


def first(g: Growing) -> Value:
    value = g.pick(lambda other: is_batched(other) and bool(other.seqs))
    axis = g.rng.choice(value.seqs)
    shape = (*value.shape[:axis], *value.shape[axis + 1 :])
    return g.add("Gather", shape, value.name, g.constant(0, np.int64), axis=axis)


def joined(g: Growing) -> Value:
    a = g.pick(ends_in_number)
    b = g.pick(lambda other: other.shape[:-1] == a.shape[:-1] and ends_in_number(other))
    width = int(a.shape[-1]) + int(b.shape[-1])
    return g.add("Concat", (*a.shape[:-1], width), a.name, b.name, axis=-1)


def piece(g: Growing) -> Value:
    value = g.pick(ends_in_number)
    begin = g.rng.randrange(int(value.shape[-1]) - 1)
    places = g.integers(begin), g.integers(begin + 1 + g.rng.randrange(int(value.shape[-1]) - begin - 1))
    width = int(numpy_helper.to_array(g.constants[-1])[0]) - begin
    return g.add("Slice", (*value.shape[:-1], width), value.name, *places, g.integers(-1))


def earlier_only(g: Growing) -> Value:
    """Softmax over earlier elements only."""
    value = g.pick(lambda other: is_batched(other) and other.shape[-2:] == (SEQ, SEQ))
    later = g.add("Less", (SEQ, SEQ), *_places(g, value))
    lowered = g.add("Where", value.shape, later.name, g.constant(g.rng.choice(LOWEST)), value.name)
    if g.rng.random() < 0.5:
        lowered = _lowered(g, lowered, len(value.shape) - 1)
    return g.add("Softmax", value.shape, lowered.name, axis=-1)


def distances(g: Growing) -> Value:
    """Add a function of the distance of two elements."""
    value = g.pick(lambda other: is_batched(other) and other.shape[-2:] == (SEQ, SEQ))
    apart = g.add("Cast", (SEQ, SEQ), g.add("Sub", (SEQ, SEQ), *_places(g, value)).name, to=TensorProto.FLOAT)
    return g.add("Add", value.shape, value.name, g.add("Sin", (SEQ, SEQ), apart.name).name)


def _places(g: Growing, value: Value) -> tuple[str, str]:
    """The numbers of elements as a column and as a row."""
    extent = g.add("Gather", (), g.add("Shape", (len(value.shape),), value.name).name, g.constant(-1, np.int64))
    places = g.add("Range", (SEQ,), g.constant(0, np.int64), extent.name, g.constant(1, np.int64))
    column, row = (g.add("Unsqueeze", (), places.name, g.integers(axis)).name for axis in (1, 0))
    return column, row


OPERATORS: dict[Callable[[Growing], Value], int] = {
    **dict.fromkeys((unary, with_constant, binary, linear, transpose, product), 4),
    **dict.fromkeys((softmax, reduced, masked, split, merge), 3),
    **dict.fromkeys((norm, resized, first, joined, piece, earlier_only, distances), 2),
}
"""The functions that add a node, and how often each is drawn."""


def random_model(seed: int, size: int = 14) -> onnx.ModelProto:
    """A model of about `size` operators. In one of three models, some masks are left out."""
    rng = random.Random(seed)
    g = Growing(rng, rng.choice([0, 0, 0.3]))
    g.values.append(Value("x", (BATCH, SEQ, WIDTH)))
    while len(g.values) <= size:
        try:
            (operator,) = rng.choices(list(OPERATORS), list(OPERATORS.values()))
            g.values.append(operator(g))
        except Impossible:
            continue
    candidates = [value for value in g.values[1:] if is_batched(value) and _may_be_output(value)]
    outputs = candidates[-2:]
    if not outputs:
        return random_model(seed + 1_000_000, size)
    graph = helper.make_graph(
        g.nodes,
        f"random_{seed}",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, (BATCH, SEQ, WIDTH)),
            helper.make_tensor_value_info("attention_mask", TensorProto.INT64, (BATCH, SEQ)),
        ],
        [helper.make_tensor_value_info(value.name, TensorProto.FLOAT, value.shape) for value in outputs],
        g.constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def _may_be_output(value: Value) -> bool:
    return value.seqs in ([], [1]) or len(value.seqs) == 2


def _broadcast(a: Shape, b: Shape) -> Shape | None:
    """The shape of a result; None if the operands do not broadcast, or if a batch meets another dim."""
    if BATCH in a and BATCH in b and len(a) != len(b):
        return None
    longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
    padded = (1,) * (len(longer) - len(shorter)) + shorter
    found: list[int | str] = []
    for one, other in zip(longer, padded, strict=True):
        if one != other and 1 not in (one, other):
            return None
        found.append(other if one == 1 else one)
    return tuple(found)
