"""Values that are the same for all texts: they depend on the places of tokens alone.

Such a value, like the angles of rotary positions, is computed with ONNX's reference evaluator as for texts that were
read in several ways: at once, and in parts. It has to be the same each time, a *constant*, or have the same row for a
token at the same position, a *table* of rows by position. The positions themselves are such a table, too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import onnx
import onnx_ir as ir
from onnx.reference import ReferenceEvaluator

from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.value import Value, constant
from deploykit.compiler.operators.indexing import pick
from deploykit.frontends.onnx.decoders.graph import IDS, Decoder, read_by
from deploykit.frontends.onnx.registry import normalise_domain

if TYPE_CHECKING:
    from deploykit.compiler.operators.building.context import Context

Read = tuple[int, int]
"""The tokens that were read before, and those of a step."""


@dataclass
class Places:
    """The place values of a decoder for texts of up to `context` tokens, whose heads of keys have `size` channels."""

    decoder: Decoder
    context: int
    size: int
    _known: dict[tuple[ir.Value, Read], np.ndarray] = field(default_factory=dict)
    _runs: dict[ir.Value, ReferenceEvaluator] = field(default_factory=dict)

    def reads(self) -> list[Read]:
        """The ways of reading that are compared; the first one reads the longest text at once."""
        last, some = self.context - 1, min(5, self.context)
        parts = [
            (0, self.context),
            (0, 1),
            (0, some),
            (last, 1),
            (last // 2, 1),
            (last // 2, min(3, self.context - last // 2)),
        ]
        return list(dict.fromkeys(parts))

    def at(self, value: ir.Value, read: Read) -> np.ndarray:
        """A place value in a step. Raises `Unsupported` if it cannot be computed."""
        if (value, read) not in self._known:
            if value not in self._runs:
                self._runs[value] = evaluator(self.decoder, [value], ())
            try:
                (found,) = self._runs[value].run(None, self.inputs(read))
                self._known[value, read] = np.asarray(found)
            except Exception as error:
                reason = (str(error).splitlines() or [""])[0][:200]
                raise Unsupported(
                    f"'{value.name}' cannot be computed for {read[1]} tokens behind {read[0]}: {reason}"
                ) from error
        return self._known[value, read]

    def inputs(self, read: Read) -> dict[str, np.ndarray]:
        """The inputs of the decoder in a step, with zeros for words and for what is remembered."""
        past, count = read
        found: dict[str, np.ndarray] = {IDS: np.zeros((1, count), np.int64)}
        for value in self.decoder.positions:
            numbers = np.arange(past, past + count)
            found[value.name or ""] = numbers[None] if len(value.shape or ()) == 2 else numbers
        if self.decoder.mask is not None:
            found[self.decoder.mask.name or ""] = np.ones((1, past + count), np.int64)
        for each in self.decoder.pasts:
            for value in (each.key, each.value):
                dtype = ir.DataType(value.dtype or ir.DataType.FLOAT).numpy()
                found[value.name or ""] = np.zeros((1, each.heads, past, self.size), dtype)
        return found

    def table(self, value: ir.Value) -> tuple[np.ndarray, int | None]:
        """The rows of a place value by position, and the axis that they are along; None for a constant.

        Raises `Unsupported` if it is neither."""
        first, *others = self.reads()
        whole = self.at(value, first)
        if all(_same(self.at(value, read), whole) for read in others):
            return whole, None
        for axis, extent in enumerate(whole.shape):
            if extent == self.context and all(
                _same(self.at(value, (past, count)), whole.take(range(past, past + count), axis))
                for past, count in others
            ):
                return whole, axis
        raise Unsupported(
            f"'{value.name}' depends on how many tokens are read at once, or were read before, and not only on "
            f"positions up to {self.context - 1}"
        )


@dataclass
class Rows:
    """Place values in a step, whose tokens have these `positions`. Equal tables are looked up once."""

    places: Places
    positions: Value
    _found: dict[tuple[bytes, tuple[int, ...], int], Value] = field(default_factory=dict)

    def value(self, ctx: Context, value: ir.Value) -> Value:
        table, axis = self.places.table(value)
        if axis is None:
            return constant(table)
        moved = np.moveaxis(table, axis, 0)
        if table.dtype.kind in "iu" and np.array_equal(moved.reshape(-1), np.arange(len(moved))):
            shape = [*table.shape[:axis], *self.positions.shape, *table.shape[axis + 1 :]]
            return ctx.reshape(ctx.cast(self.positions, str(table.dtype)), shape)
        key = (table.tobytes(), table.shape, axis)
        if key not in self._found:
            self._found[key] = pick(ctx, constant(table), self.positions, axis)
        return self._found[key]


def evaluator(decoder: Decoder, results: list[ir.Value], given: tuple[ir.Value, ...]) -> ReferenceEvaluator:
    """Computes `results` of a graph from the inputs of the decoder and from the values `given`."""
    within = set(decoder.nodes)
    nodes: set[ir.Node] = set()
    used: dict[ir.Value, None] = {}
    waiting = list(results)
    while waiting:
        value = waiting.pop()
        used[value] = None
        node = None if value in given else value.producer()
        if node is not None and node in within and node not in nodes:
            nodes.add(node)
            waiting += read_by(node)
    stored = (
        decoder.initializers[value.name or ""].const_value for value in used if value.name in decoder.initializers
    )
    weights = [ir.to_proto(weight) for weight in stored if weight is not None]
    inputs = {value.name or "": None for value in (*decoder.inputs, *given)}
    graph = onnx.helper.make_graph(
        [ir.to_proto(node) for node in decoder.nodes if node in nodes],
        "places",
        [onnx.helper.make_value_info(name, onnx.TypeProto()) for name in inputs],
        [onnx.helper.make_value_info(value.name or "", onnx.TypeProto()) for value in results],
        weights,
    )
    imports = {normalise_domain(domain): version for domain, version in decoder.model.opset_imports.items()}
    model = onnx.helper.make_model(
        graph,
        opset_imports=[onnx.helper.make_opsetid(domain, version) for domain, version in imports.items()],
        functions=[ir.to_proto(function) for function in decoder.model.functions.values()],
    )
    try:
        return ReferenceEvaluator(model)
    except Exception as error:
        raise Unsupported(f"'{results[0].name}' cannot be computed: {error!s:.200}") from error


def _same(found: np.ndarray, expected: np.ndarray) -> bool:
    return found.shape == expected.shape and bool(np.array_equal(found, expected, equal_nan=found.dtype.kind == "f"))
