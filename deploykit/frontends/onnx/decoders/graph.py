"""`decoder_of`: what a decoder's graph takes and gives.

    input_ids, attention_mask (batch, past + length), position_ids, past_key_values.N.key (batch, heads, past, size)
    -> logits, and for each layer what it remembers now

Names are those of the exporters optimum and transformers and of ONNX Runtime GenAI. A file with one branch for the
first step and one for later ones, which an input chooses, is taken with the latter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from deploykit.compiler.operators.building.errors import Unsupported

IDS, MASK, LOGITS, BRANCH = "input_ids", "attention_mask", "logits", "use_cache_branch"
POSITIONS = ("position_ids", "cache_position")

PAST = re.compile(r"past(?:_key_values)?\.(\d+)\.(key|value)|past_(?P<kind>key|value)s?_(?P<layer>\d+)")


@dataclass(frozen=True)
class Past:
    """The inputs of a layer with what it remembers, which have so many `heads`."""

    key: ir.Value
    value: ir.Value
    heads: int


@dataclass(frozen=True)
class Decoder:
    """`nodes` are in order; `initializers` are the weights of all of them. `mask` and `positions` are inputs that a
    decoder may lack."""

    model: ir.Model
    nodes: Sequence[ir.Node]
    initializers: Mapping[str, ir.Value]
    ids: ir.Value
    mask: ir.Value | None
    positions: tuple[ir.Value, ...]
    pasts: tuple[Past, ...]
    logits: ir.Value

    @property
    def inputs(self) -> tuple[ir.Value, ...]:
        remembered = [value for past in self.pasts for value in (past.key, past.value)]
        return (self.ids, *filter(None, [self.mask]), *self.positions, *remembered)


def takes_memory(model: ir.Model) -> bool:
    """Whether a model takes keys or values of earlier steps."""
    return any(PAST.fullmatch(value.name or "") for value in model.graph.inputs)


def dims_of(model: ir.Model) -> set[str]:
    """The names of the dims of a model's inputs."""
    sizes = (size for value in model.graph.inputs for size in value.shape or ())
    return {size.value for size in sizes if isinstance(size, ir.SymbolicDim) and size.value}


def decoder_of(model: ir.Model) -> Decoder | None:
    """The decoder of a model; None if it takes no keys and values of earlier steps.

    Raises `Unsupported` for one that takes something else, too."""
    graph = model.graph
    inputs = {value.name or "": value for value in graph.inputs if value.name not in graph.initializers}
    pasts = _pasts(inputs)
    if not pasts:
        return None
    left = inputs.keys() - {IDS, MASK, BRANCH, *POSITIONS, *(v.name for p in pasts for v in (p.key, p.value))}
    if IDS not in inputs or left:
        raise Unsupported(f"it takes '{min(left)}'" if left else f"it does not take '{IDS}'")
    nodes, initializers, outputs = (
        _branch(graph) if BRANCH in inputs else (list(graph), graph.initializers, graph.outputs)
    )
    names = [value.name for value in graph.outputs]
    if LOGITS not in names:
        raise Unsupported(f"it has no output '{LOGITS}'")
    return Decoder(
        model,
        nodes,
        initializers,
        inputs[IDS],
        inputs.get(MASK),
        tuple(inputs[name] for name in POSITIONS if name in inputs),
        pasts,
        outputs[names.index(LOGITS)],
    )


def _pasts(inputs: Mapping[str, ir.Value]) -> tuple[Past, ...]:
    found: dict[int, dict[str, ir.Value]] = {}
    for name, value in inputs.items():
        if match := PAST.fullmatch(name):
            kind, layer = match["kind"] or match[2], match["layer"] or match[1]
            found.setdefault(int(layer), {})[kind] = value
    return tuple(_past(found[layer]) for layer in sorted(found))


def _past(pair: Mapping[str, ir.Value]) -> Past:
    if len(pair) != 2:
        raise Unsupported(f"'{next(iter(pair.values())).name}' is without its key or value")
    counts = [_heads(pair[kind]) for kind in ("key", "value")]
    if counts[0] != counts[1]:
        raise Unsupported(f"'{pair['key'].name}' has {counts[0]} heads, '{pair['value'].name}' {counts[1]}")
    return Past(pair["key"], pair["value"], counts[0])


def _heads(value: ir.Value) -> int:
    heads = None if value.shape is None or len(value.shape) != 4 else value.shape[1]
    if not isinstance(heads, int):
        raise Unsupported(f"'{value.name}' is not (batch, heads, past, size) with a known number of heads")
    return heads


def _branch(graph: ir.Graph) -> tuple[list[ir.Node], dict[str, ir.Value], Sequence[ir.Value]]:
    """The nodes, weights and outputs of a graph whose last node chooses a branch: with that for later steps."""
    nodes = list(graph)
    choice = next((node for node in nodes if node.op_type == "If"), None)
    if choice is None or choice.inputs[0] is None or choice.inputs[0].name != BRANCH:
        raise Unsupported(f"no If depends on '{BRANCH}'")
    if [value.name for value in choice.outputs] != [value.name for value in graph.outputs]:
        raise Unsupported(f"If '{choice.name}' does not give all outputs")
    later = choice.attributes["then_branch"].as_graph()
    weights = {**graph.initializers, **later.initializers}
    return [*(node for node in nodes if node is not choice), *later], weights, later.outputs


def read_by(node: ir.Node) -> Iterator[ir.Value]:
    """The values that a node reads, also within its graphs."""
    yield from (value for value in node.inputs if value is not None)
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            for inner in attribute.as_graph():
                yield from read_by(inner)
