"""Attention that is written out: earlier keys and values are joined with those of a step by Concat.

    k = Concat(past_k, new_k)    v = Concat(past_v, new_v)    y = MatMul(Softmax(MatMul(q, k) ...), v)

What lies between may be written in many ways: factors, repeated heads, masks made of comparisons. So its numbers are
measured with ONNX's reference evaluator on few tokens: the factor of scores, and how far back a query sees. Then random
operands, read in several parts, have to give what attention with these numbers gives. Attention of opset 23 and later
counts as written out, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir
from onnx.reference import ReferenceEvaluator

from deploykit.compiler.operators.attention import join_heads, split_heads
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.frontends.onnx.decoders.attentions import Attention, Find
from deploykit.frontends.onnx.decoders.graph import Decoder, Past
from deploykit.frontends.onnx.decoders.places import Places, Read, evaluator

if TYPE_CHECKING:
    from deploykit.compiler.operators.building.context import Context
    from deploykit.compiler.operators.building.value import Value

SAME = ("Identity", "Cast")
MOVED = (*SAME, "Unsqueeze", "Expand", "Reshape", "Transpose", "Mul", "Div")
"""Operators between joined keys or values and their product."""

CLOSE = 1e-4
"""How near measured results have to be."""

MOST_IN_GROUP = 64
"""The most heads of queries that share a head of keys."""


class Misfit(Unsupported):
    """The graph cannot be computed for operands of these shapes."""


@dataclass(frozen=True)
class Joined(Attention):
    """Attention of `q` (1, heads, tokens, size) to `k` and `v` of a step, and to earlier ones."""

    past: Past
    q: ir.Value
    k: ir.Value
    v: ir.Value

    @classmethod
    def of(cls, decoder: Decoder, past: Past, context: int) -> Joined:
        """Raises `Unsupported` if what reads the past is no attention."""
        size = None if past.key.shape is None else past.key.shape[3]
        if not isinstance(size, int) or past.value.shape is None or past.value.shape[3] != size:
            raise Unsupported(f"the size of the heads of '{past.key.name}' and '{past.value.name}' is not one number")
        node, k, v = _attention(past)
        q = node.inputs[0] if node.op_type == "Attention" else _queries(node)
        if q is None:
            raise Unsupported(f"what '{node.name}' multiplies with '{past.value.name}' is no softmax of scores")
        places = Places(decoder, context, size)
        for group in range(1, MOST_IN_GROUP + 1):
            heads = group * past.heads, past.heads
            found = cls(node.outputs[0], heads, size, 1.0, None, _softcap(node), past, q, k, v)
            try:
                return found.measured(places)
            except Misfit:
                continue
        raise Unsupported(f"'{node.outputs[0].name}' cannot be computed for any number of heads of queries")

    @property
    def reads(self) -> tuple[ir.Value | None, ...]:
        return self.q, self.k, self.v

    def operands(self, ctx: Context, find: Find, positions: Value) -> tuple[Value, Value, Value]:
        del positions
        q, k, v = (find(value) for value in self.reads)
        assert q is not None
        assert k is not None
        assert v is not None
        return join_heads(ctx, q), join_heads(ctx, k), join_heads(ctx, v)

    def shaped(self, ctx: Context, y: Value) -> Value:
        return split_heads(ctx, y, self.heads[0])

    def measured(self, places: Places) -> Joined:
        """The same with its factor and its window."""
        run = self.runner(places)
        _, shared = self.heads
        q, k = np.zeros((1, self.heads[0], 2, self.size)), np.zeros((1, shared, 2, self.size))
        v = np.zeros_like(k)
        q[..., 0] = k[..., 0, 0] = v[..., 0, 0] = 1
        share = float(self.result_of(run, places, (0, 2), q, k, v)[0, 0, 1, 0])
        if not 0.5 < share < 1:
            raise Unsupported(f"'{self.result.name}' is no softmax of products of queries and keys")
        score = np.log(share / (1 - share))
        factor = score if not self.softcap else self.softcap * np.arctanh(min(score / self.softcap, 0.999999))
        usual = (self.size**-0.5, self.size**-0.25, 1.0)
        factor = next((value for value in usual if abs(factor - value) < CLOSE * value), float(factor))
        seen = self.seen(run, places)
        window = None if seen >= places.context else seen
        return type(self)(
            self.result, self.heads, self.size, factor, window, self.softcap, self.past, self.q, self.k, self.v
        )

    def seen(self, run: ReferenceEvaluator, places: Places) -> int:
        """How many tokens the last one of the longest text sees, from the mean of their positions."""
        last = places.context - 1
        _, shared = self.heads
        v = np.zeros((1, shared, places.context, self.size))
        v[..., 0] = last - np.arange(places.context)
        q, k = np.zeros((1, self.heads[0], 1, self.size)), np.zeros_like(v)
        mean = float(self.result_of(run, places, (last, 1), q, k, v)[0, 0, 0, 0])
        if not 0 <= mean <= last:
            raise Unsupported(f"'{self.result.name}' is no mean of values")
        return round(2 * mean) + 1

    def runner(self, places: Places) -> ReferenceEvaluator:
        return evaluator(places.decoder, [self.result], (self.q, self.k, self.v))

    def result_of(
        self, run: ReferenceEvaluator, places: Places, read: Read, q: np.ndarray, k: np.ndarray, v: np.ndarray
    ) -> np.ndarray:
        """What the graph computes of queries, and of keys and values of which the first were read before."""
        past, _ = read
        dtype = ir.DataType(self.past.key.dtype or ir.DataType.FLOAT).numpy()
        given = {
            self.q: q,
            self.past.key: k[:, :, :past],
            self.past.value: v[:, :, :past],
            self.k: k[:, :, past:],
            self.v: v[:, :, past:],
        }
        try:
            named = {value.name or "": array.astype(dtype) for value, array in given.items()}
            (found,) = run.run(None, places.inputs(read) | named)
        except Exception as error:
            reason = (str(error).splitlines() or [""])[0][:200]
            raise Misfit(
                f"'{self.result.name}' cannot be computed for {read[1]} tokens behind {read[0]}: {reason}"
            ) from error
        return np.asarray(found, np.float64)

    def check(self, places: Places) -> None:
        """Random operands have to give what attention gives."""
        run, random = self.runner(places), np.random.default_rng(0)
        reads = places.reads()[1:]
        if self.window is not None:
            reads.append((self.window, min(3, places.context - self.window)))
        for past, count in reads:
            q = random.standard_normal((1, self.heads[0], count, self.size))
            k, v = random.standard_normal((2, 1, self.heads[1], past + count, self.size))
            found, expected = self.result_of(run, places, (past, count), q, k, v), self.expected(q, k, v)
            if found.shape != expected.shape or not np.allclose(found, expected, rtol=0, atol=CLOSE):
                raise Unsupported(
                    f"'{self.result.name}' is not causal attention with a factor of {self.scale:g} and a window of "
                    f"{self.window}, for {count} tokens behind {past}"
                )

    def expected(self, q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
        group = self.heads[0] // self.heads[1]
        k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
        scores = q @ k.swapaxes(2, 3) * self.scale
        scores = np.tanh(scores / self.softcap) * self.softcap if self.softcap else scores
        places, keys = np.arange(k.shape[2] - q.shape[2], k.shape[2])[:, None], np.arange(k.shape[2])
        hidden = (keys > places) | (keys <= places - (self.window or k.shape[2]))
        scores = np.where(hidden, -np.inf, scores)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return np.asarray(weights / weights.sum(-1, keepdims=True) @ v)


def _attention(past: Past) -> tuple[ir.Node, ir.Value, ir.Value]:
    """The node whose result is that of attention, and the keys and values of a step."""
    for node, place in past.key.uses():
        if node.op_type == "Attention" and place == 4 and node.inputs[5] is past.value:
            k, v = node.inputs[1], node.inputs[2]
            if k is not None and v is not None:
                return node, k, v
    keys, k = _joined(past.key)
    values, v = _joined(past.value)
    for node in _products(values):
        if node.op_type != "Attention" or any(node is other for other in _products(keys)):
            return node, k, v
    raise Unsupported(f"what reads '{past.value.name}' is no attention that is known")


def _joined(past: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Where a past is joined with what is new: the result, and the new part."""
    for node, place in past.uses():
        joins = node.op_type == "Concat" and node.attributes["axis"].as_int() in (2, -2)
        if node.op_type in SAME or (joins and len(node.inputs) == 1):
            return _joined(node.outputs[0])
        if joins and place == 0 and len(node.inputs) == 2 and node.inputs[1] is not None:
            return node.outputs[0], node.inputs[1]
    raise Unsupported(f"what reads '{past.name}' is no attention that is known")


def _products(value: ir.Value) -> Iterator[ir.Node]:
    """The products that have a value, or copies of it, on their right."""
    for node, place in value.uses():
        if (node.op_type == "MatMul" and place == 1) or (node.op_type == "Attention" and place in (1, 2)):
            yield node
        elif node.op_type in MOVED and place == 0:
            yield from _products(node.outputs[0])


def _queries(product: ir.Node) -> ir.Value | None:
    """The queries of the scores whose softmax is the left operand of a product."""
    value, softmax = product.inputs[0], False
    while value is not None and (node := value.producer()) is not None:
        if node.op_type == "MatMul":
            return node.inputs[0] if softmax else None
        softmax = softmax or node.op_type == "Softmax"
        value = node.inputs[1] if node.op_type == "Where" and _constant(node.inputs[2]) else _scores(node)
    return None


def _scores(node: ir.Node) -> ir.Value | None:
    """The operand of a node between scores and their weights that leads to the scores."""
    if node.op_type == "Where":
        return node.inputs[2]
    if node.op_type in (*SAME, "Add", "Div", "Dropout", "Mul", "Softmax", "Tanh"):
        return node.inputs[0]
    return None


def _constant(value: ir.Value | None) -> bool:
    if value is None or value.const_value is not None:
        return True
    node = value.producer()
    return node is not None and node.op_type in ("Constant", "ConstantOfShape")


def _softcap(node: ir.Node) -> float:
    """The bound of scores, which a Tanh is multiplied with; 0: none."""
    if node.op_type == "Attention":
        given = node.attributes.get("softcap")
        return 0.0 if given is None else float(given.as_float())
    value = node.inputs[0]
    after: ir.Node | None = None
    while value is not None and (node_before := value.producer()) is not None and node_before.op_type != "MatMul":
        if (
            node_before.op_type == "Tanh"
            and after is not None
            and after.op_type == "Mul"
            and after.inputs[1] is not None
        ):
            bound = ir.convenience.get_const_tensor(after.inputs[1])
            if bound is not None and bound.size == 1:
                return float(bound.numpy().reshape(-1)[0])
        after = node_before
        value = (
            node_before.inputs[1]
            if node_before.op_type == "Where" and _constant(node_before.inputs[2])
            else _scores(node_before)
        )
    return 0.0
