"""`import_decoder`: an ONNX file of a decoder as a model that generates (`frontends.stepping`).

All of the graph but its attention is imported as it is, for one text whose length is the number of tokens of a step:
that is right for tokens of any texts, because each node has to compute each token for itself (`rules`). Attention
reads keys and values in pages (`attentions`). What depends on places alone is a table of rows by position (`places`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import onnx
import onnx_ir as ir

from deploykit.compiler.dims import checked_bounds
from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.model import DimBounds, ImportedModel
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.model import ModelBuilder
from deploykit.compiler.operators.building.value import POISON, AnyValue, Value
from deploykit.compiler.operators.indexing import pick
from deploykit.errors import UnsupportedModelError, UsageError
from deploykit.frontends.memory import Cached, Memory, cache_name
from deploykit.frontends.onnx.decoders.attentions import Attention, attend
from deploykit.frontends.onnx.decoders.bits import Bits
from deploykit.frontends.onnx.decoders.dependence import Needed, On, called, dependences, needed
from deploykit.frontends.onnx.decoders.graph import Decoder, Past, decoder_of
from deploykit.frontends.onnx.decoders.grouped import OPERATOR, PAST_KEY, Grouped
from deploykit.frontends.onnx.decoders.joined import Joined
from deploykit.frontends.onnx.decoders.places import Places, Rows
from deploykit.frontends.onnx.decoders.rules import ELEMENTWISE, require_apart, tokens_of
from deploykit.frontends.onnx.importer import GraphImporter, Scope, weight_value
from deploykit.frontends.onnx.names import license_of
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.reader import FILES, read
from deploykit.frontends.onnx.registry import Spoiled
from deploykit.frontends.stepping import TOKENS, Step, add_step, common_window, context_of

if TYPE_CHECKING:
    from tvm import tirx

    from deploykit.frontends.onnx.registry import Importer

PRODUCTS = ("MatMul", "Gemm", "MatMulNBits", "MatMulBnb4")


@dataclass(frozen=True)
class Stepping:
    """A decoder that was imported to generate, its number of words, the most tokens of a text, and how far back layers
    look (None: to the first token)."""

    model: ImportedModel
    words: int
    context: int
    window: int | None
    memory: Memory


def import_decoder(
    source: bytes | onnx.ModelProto | ir.Model,
    dims: DimBounds | None = None,
    longest: int | None = None,
    *,
    name: str | None = None,
    keep_bits: bool = True,
    cache: str = "float32",
) -> Stepping | None:
    """Import a decoder whose texts have at most `longest` tokens; None: it is not known. `cache` is the dtype of what
    it remembers. Returns None for a model that takes no keys and values of earlier steps. A model that was read is
    changed.

    Raises `UsageError` (no such dim) and `UnsupportedModelError` for a model that is not recognised."""
    model = source if isinstance(source, ir.Model) else read(source)
    name = name or model.graph.name or "model"
    try:
        decoder = decoder_of(model)
        if decoder is None:
            return None
        return _imported(decoder, name, checked_bounds(dims or {}), longest, Bits() if keep_bits else None, cache)
    except Unsupported as error:
        raise UnsupportedModelError(f"{name} does not generate: {error}") from error


def _imported(
    decoder: Decoder, name: str, bounds: DimBounds, longest: int | None, bits: Bits | None, cache: str
) -> Stepping:
    context = context_of(bounds, longest)
    attentions = attentions_of(decoder, context)
    if isinstance(bounds.get(TOKENS), int):
        raise UsageError(f"'{TOKENS}' is a range in a model from an ONNX file, as in --dim {TOKENS}=..{bounds[TOKENS]}")
    builder = ModelBuilder(name)
    importer = StepImporter(decoder, attentions, name, context, bits)
    importer.shared = builder.shared
    words: list[IntExpr] = []

    def body(ctx: Context, step: Step, states: dict[str, Value]) -> Value:
        logits = importer.logits(ctx, step, states)
        words.append(logits.shape[1])
        return logits

    memory = {cache_name(layer): Cached(each.heads[1], each.size) for layer, each in enumerate(attentions)}
    add_step(builder, bounds, context, memory, body, cache)
    if not isinstance(words[0], int):
        raise Unsupported(f"'{decoder.logits.name}' has no fixed number of words")
    model = builder.model()
    notes = (*model.notes, *(importer.bits.notes() if importer.bits else ()))
    files = tuple(decoder.model.meta.get(FILES, ()))
    model = replace(model, notes=notes, files=files, license=license_of(decoder.model.metadata_props))
    return Stepping(model, words[0], context, common_window([each.window for each in attentions]), memory)


def attentions_of(decoder: Decoder, context: int) -> list[Attention]:
    """The attention of each layer. Raises `Unsupported` if a layer has none that is known."""
    return [_attention_of(decoder, past, context) for past in decoder.pasts]


def _attention_of(decoder: Decoder, past: Past, context: int) -> Attention:
    readers = [node for node, place in past.key.uses() if node.op_type == OPERATOR and place == PAST_KEY]
    if not readers:
        return Joined.of(decoder, past, context)
    try:
        found = Grouped.of(readers[0])
    except Unsupported as error:
        raise Unsupported(f"{called(readers[0])}: {error}") from error
    if len(readers) > 1 or readers[0].inputs[PAST_KEY + 1] is not past.value or found.heads[1] != past.heads:
        raise Unsupported(f"'{past.key.name}' and '{past.value.name}' are not those of {called(readers[0])}")
    return found


class StepImporter(GraphImporter):
    """Imports the nodes of a decoder that a step needs. `bits` keeps weights in few bits; None: they become floats."""

    def __init__(
        self, decoder: Decoder, attentions: Sequence[Attention], name: str, context: int, bits: Bits | None
    ) -> None:
        super().__init__(decoder.model, {}, name, None, {}, None, may_give_up=False)
        self.decoder, self.bits = decoder, bits
        self.layers = {attention.result: (layer, attention) for layer, attention in enumerate(attentions)}
        self.places = Places(decoder, context, attentions[0].size)
        self.depends = dependences(decoder, self.layers.keys())
        self.needed: Needed = needed(
            decoder, self.depends, {result: each.reads for result, (_, each) in self.layers.items()}
        )
        for attention in attentions:
            attention.check(self.places)
        self.asked_at = self._product_of_words()
        self.step: Step
        self.memory: dict[str, Value]
        self.dims_of_tokens: tuple[tirx.Var, ...] = ()

    def logits(self, ctx: Context, step: Step, states: dict[str, Value]) -> Value:
        """The scores (rows, words) of a step."""
        self.step, self.memory = step, states
        count, asked = step.ids.shape[0], step.rows.shape[0]
        self.dims_of_tokens = (count, asked)
        ids = ctx.reshape(step.ids, (1, count))
        rows = Rows(self.places, step.pages.positions)
        scope: Scope = {self.decoder.ids.name or "": ctx.cast(ids, _dtype(self.decoder.ids))}
        for value in self.decoder.positions:
            scope[value.name or ""] = rows.value(ctx, value)
        for name, weight in self.decoder.initializers.items():
            if weight.const_value is not None:
                scope[name] = weight_value(name, weight.const_value)
        scope |= {value.name or "": rows.value(ctx, value) for value in self.needed.places}
        for node in self.decoder.nodes:
            if node in self.needed.nodes:
                for operand in node.inputs:
                    if operand is not None:
                        scope.setdefault(operand.name or "", None)
                self.node(ctx, node, scope, self.opsets)
        if self.problems:
            self._refuse()
        found = scope[self.decoder.logits.name or ""]
        assert isinstance(found, Value)
        found = self._asked(ctx, found) if self.asked_at is None else found
        return ctx.cast(ctx.reshape(found, (asked, found.shape[-1])), "float32")

    def _asked(self, ctx: Context, x: Value) -> Value:
        """`x` for the tokens whose next words are asked for."""
        tokens = tokens_of(ctx, x, self.dims_of_tokens)
        if tokens is None or tokens.each != 1:
            raise Unsupported(f"'{self.decoder.logits.name}' has no scores for each token")
        return pick(ctx, x, self.step.rows, tokens.axis)

    def _product_of_words(self) -> ir.Value | None:
        """The result of the product that scores words, if nothing but elementwise operators follows it: only some
        tokens need it."""
        value = self.decoder.logits
        while (node := value.producer()) is not None and len(value.uses()) <= 1:
            if node.op_type in PRODUCTS:
                return node.outputs[0]
            of_tokens = [v for v in node.inputs if v is not None and On.WORDS in self.depends.get(v, On.NOTHING)]
            if node.op_type not in ELEMENTWISE or len(of_tokens) != 1 or self.needed.places.keys() & {*node.inputs}:
                return None
            (value,) = of_tokens
        return None

    def _import(
        self, context: Context, node: Node, inputs: list[AnyValue | None], scope: Scope
    ) -> tuple[AnyValue | None, ...]:
        if any(attribute.type == ir.AttributeType.GRAPH for attribute in node.attributes.values()):
            raise Unsupported("control flow that depends on words")
        if node.outputs and node.outputs[0] in self.layers:
            layer, attention = self.layers[node.outputs[0]]
            if any(scope.get(value.name or "") is POISON for value in attention.reads if value is not None):
                raise Spoiled

            def find(value: ir.Value | None) -> Value | None:
                found = None if value is None else scope.get(value.name or "")
                assert found is None or isinstance(found, Value)
                return found

            y = attend(context, attention, layer, self.step, self.memory, find, self.step.pages.positions)
            return (y, *(POISON for _ in node.outputs[1:]))
        if node.outputs and node.outputs[0] is self.asked_at:
            inputs = [self._asked(context, inputs[0]) if isinstance(inputs[0], Value) else None, *inputs[1:]]
        return super()._import(context, node, inputs, scope)

    def imported_by(
        self, importer: Importer, context: Context, node: Node, inputs: Sequence[AnyValue | None]
    ) -> tuple[AnyValue | None, ...]:
        results = self._in_bits(context, node, inputs) or super().imported_by(importer, context, node, inputs)
        require_apart(context, node, inputs, results, self.dims_of_tokens)
        return results

    def _in_bits(
        self, context: Context, node: Node, inputs: Sequence[AnyValue | None]
    ) -> tuple[AnyValue | None, ...] | None:
        """The result of an operator whose weights keep their bits, if they do."""
        if self.bits is None:
            return None
        ways = {"MatMulNBits": self.bits.product, "GatherBlockQuantized": self.bits.rows}
        way = ways.get(node.op_type)
        found = None if way is None else way(context, node, [v if isinstance(v, Value) else None for v in inputs])
        return None if found is None else (found,)


def _dtype(value: ir.Value) -> str:
    return "int32" if value.dtype == ir.DataType.INT32 else "int64"
