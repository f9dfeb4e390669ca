"""`Draw`: a graph that grows node by node.

ONNX's reference implementation computes each new node at every sample (choice of sizes of the symbolic dims), with
floats as float64. The node is kept if this succeeds and its results are tame: not empty, finite and not large. So a
graph is valid by construction, and its float64 results are known. `proposals` draws the operators and operands of
nodes.
"""

from __future__ import annotations

import contextlib
import random
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

Sizes = tuple[int, ...]
"""One number per sample."""

DTYPES = {
    TensorProto.FLOAT: np.float64,
    TensorProto.INT64: np.int64,
    TensorProto.INT32: np.int32,
    TensorProto.BOOL: np.bool_,
}
"""The NumPy dtype in which a dtype of the model is evaluated."""

LARGEST_VALUE = 1e4
LARGEST_TENSOR = 60_000

SAMPLES: tuple[dict[str, int], ...] = (
    {"n": 1, "m": 1, "k": 1},
    {"n": 3, "m": 5, "k": 7},
    {"n": 6, "m": 1, "k": 9},
    {"n": 2, "m": 17, "k": 4},
)
"""Sizes of the symbolic dims: all 1, all odd, and mixed."""


class Reject(Exception):
    """The drawn node is not possible, or not useful."""


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor of the graph with its contents at every sample."""

    name: str
    dtype: int
    arrays: tuple[np.ndarray, ...]

    @property
    def rank(self) -> int:
        return int(self.arrays[0].ndim)

    @property
    def is_float(self) -> bool:
        return self.dtype == TensorProto.FLOAT

    @property
    def is_integer(self) -> bool:
        return self.dtype in (TensorProto.INT64, TensorProto.INT32)

    def sizes(self, axis: int) -> Sizes:
        return tuple(a.shape[axis] for a in self.arrays)

    def fixed(self, axis: int) -> int | None:
        """The size of an axis if it is the same at every sample, else `None`."""
        sizes = set(self.sizes(axis))
        return sizes.pop() if len(sizes) == 1 else None

    def fixed_axes(self) -> list[int]:
        return [axis for axis in range(self.rank) if self.fixed(axis) is not None]

    @property
    def largest(self) -> int:
        """The largest number of elements at any sample."""
        return max(a.size for a in self.arrays)

    @property
    def low(self) -> float:
        return min(float(a.min()) for a in self.arrays)

    @property
    def high(self) -> float:
        return max(float(a.max()) for a in self.arrays)


@dataclass
class Draw:
    """A graph under construction. `random` makes all choices that a call leaves open."""

    random: random.Random
    opset: int
    samples: Sequence[dict[str, int]] = SAMPLES
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    inputs: dict[str, tuple[Value, list[str | int]]] = field(default_factory=dict)
    weights: dict[str, onnx.TensorProto] = field(default_factory=dict)
    pool: list[Value] = field(default_factory=list)
    count: int = 0

    # Choices for a proposal

    def pick(self, suits: Callable[[Value], bool] = lambda _: True) -> Value:
        """A random value of the graph, more often one of the latest."""
        found = [v for v in self.pool if suits(v)]
        if not found:
            raise Reject
        recent = found[-4:]
        return self.random.choice(recent if self.random.random() < 0.6 else found)

    def floats(self, ranks: range = range(6)) -> Value:
        return self.pick(lambda v: v.is_float and v.rank in ranks)

    def axis(self, value: Value) -> int:
        """A random axis of a value, counted from either end."""
        if not value.rank:
            raise Reject
        return self.random.randrange(-value.rank, value.rank)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    # Additions to the graph

    def name(self, hint: str) -> str:
        self.count += 1
        return f"{hint}{self.count}"

    def input(self, shape: Sequence[str | int], dtype: int = TensorProto.FLOAT, high: int = 5) -> Value:
        """A new input of the model: normal numbers, or integers from `-high` to `high`, or booleans."""
        generator = np.random.default_rng(self.random.getrandbits(32))
        arrays = []
        for sample in self.samples:
            extents = [sample[n] if isinstance(n, str) else n for n in shape]
            drawn = generator.standard_normal(extents).astype(np.float32)
            if dtype in (TensorProto.INT64, TensorProto.INT32):
                drawn = generator.integers(-high, high, extents, endpoint=True)
            arrays.append(drawn > 0 if dtype == TensorProto.BOOL else drawn.astype(DTYPES[dtype]))
        value = Value(self.name("x"), dtype, tuple(arrays))
        self.inputs[value.name] = (value, list(shape))
        self.pool.append(value)
        return value

    def constant(self, array: np.ndarray | Sequence[int] | int, dtype: int = TensorProto.INT64) -> Value:
        """A weight of the model, which `pick` never returns. Floats are rounded to float32."""
        stored = np.asarray(array).astype(helper.tensor_dtype_to_np_dtype(dtype))
        name = self.name("w")
        self.weights[name] = numpy_helper.from_array(stored, name)
        return Value(name, dtype, (stored.astype(DTYPES[dtype]),) * len(self.samples))

    def weight(self, *shape: int, scale: float = 1.0) -> Value:
        """A weight of normal numbers."""
        generator = np.random.default_rng(self.random.getrandbits(32))
        return self.constant(np.asarray(generator.standard_normal(shape) * scale), TensorProto.FLOAT)

    def emit(self, operator: str, inputs: Sequence[Value | None], count: int = 1, **attributes: Any) -> list[Value]:
        """Add a node and return its outputs. Raises `Reject` if it cannot be computed or its results are not tame."""
        names = [v.name if v is not None else "" for v in inputs]
        outputs = [self.name("y") for _ in range(count)]
        node = helper.make_node(operator, names, outputs, **attributes)
        results = []
        for position in range(len(self.samples)):
            feeds = {v.name: v.arrays[position] for v in inputs if v is not None}
            results.append(evaluate(node, feeds, self.opset))
        values = []
        for index, name in enumerate(outputs):
            arrays = tuple(np.asarray(r[index]) for r in results)
            values.append(Value(name, _dtype_of(arrays[0]), arrays))
        for value in values:
            _check_tame(value)
        self.nodes.append(node)
        self.pool.extend(values)
        return values

    def one(self, operator: str, *inputs: Value | None, **attributes: Any) -> Value:
        """Add a node with one output."""
        return self.emit(operator, inputs, **attributes)[0]

    def attempt(self, proposal: Callable[[Draw], object]) -> bool:
        """Add either all nodes of a proposal, or none of them; returns whether it succeeded."""
        before = (len(self.nodes), len(self.pool), set(self.weights), set(self.inputs))
        try:
            proposal(self)
        except Reject:
            del self.nodes[before[0] :], self.pool[before[1] :]
            for name in set(self.weights) - before[2]:
                del self.weights[name]
            for name in set(self.inputs) - before[3]:
                del self.inputs[name]
            return False
        return True


def evaluate(node: onnx.NodeProto, feeds: dict[str, np.ndarray], opset: int) -> list[Any]:
    """The results of a node by ONNX's reference implementation, with floats as float64."""
    wide = onnx.NodeProto()
    wide.CopyFrom(node)
    for attribute in wide.attribute:
        if attribute.name in ("to", "dtype") and attribute.i == TensorProto.FLOAT:
            attribute.i = TensorProto.DOUBLE
        if attribute.HasField("t") and attribute.t.data_type == TensorProto.FLOAT:
            attribute.t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(attribute.t).astype(np.float64)))
    graph = helper.make_graph(
        [wide],
        "node",
        [helper.make_value_info(n, onnx.TypeProto()) for n in feeds],
        [helper.make_value_info(n, onnx.TypeProto()) for n in wide.output],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return list(ReferenceEvaluator(model).run(None, feeds))
    except Exception as error:
        raise Reject from error


def _dtype_of(array: np.ndarray) -> int:
    for dtype, wide in DTYPES.items():
        if array.dtype == wide:
            return dtype
    raise Reject


def _check_tame(value: Value) -> None:
    for array in value.arrays:
        if array.size == 0 or array.size > LARGEST_TENSOR or array.ndim != value.rank:
            raise Reject
        if array.dtype != np.bool_ and not np.abs(array.astype(np.float64)).max() <= LARGEST_VALUE:
            raise Reject


@contextlib.contextmanager
def quiet() -> Any:
    """Suppress the warnings of NumPy."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
