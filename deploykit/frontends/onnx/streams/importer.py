"""`import_stream`: an ONNX model over time as one that takes new frames and keeps the rest as states.

The graph is imported node by node. Operators that compute each frame for itself are imported as they are
(`decoders.rules`). Windows along time get the frames in front of the new ones from a state (`layers`). Other operators
mix all frames of the model's window: the window in front of them is a state, and what follows is computed for each
run.

The first import finds out which states there are, where frames are, and how many are needed at once (`Plan`), with a
symbol for the number of new frames. The last one follows this plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import lcm
from typing import TYPE_CHECKING

import onnx_ir as ir
from tvm import ir as tvm_ir
from tvm import tirx

from deploykit.artifact.streams import StreamEntry, StreamOutput
from deploykit.compiler.dims import checked_bounds, free_vars, substitute
from deploykit.compiler.model import Dim, DimBounds, ImportedModel, Port
from deploykit.compiler.operators.building.context import Site
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.integers import equal, floor_mod
from deploykit.compiler.operators.building.model import ModelBuilder, Values
from deploykit.compiler.operators.building.value import POISON, AnyValue, Value
from deploykit.errors import Problem, UnsupportedModelError
from deploykit.frontends.onnx.attributes import MICROSOFT
from deploykit.frontends.onnx.decoders.graph import read_by
from deploykit.frontends.onnx.decoders.rules import RULES, SHAPE_OPERANDS, Tokens
from deploykit.frontends.onnx.importer import GraphImporter, Scope, quantized
from deploykit.frontends.onnx.names import license_of
from deploykit.frontends.onnx.quantized_ports import of_input, of_output
from deploykit.frontends.onnx.reader import FILES
from deploykit.frontends.onnx.streams.asked import Asked
from deploykit.frontends.onnx.streams.frames import Frames, Now
from deploykit.frontends.onnx.streams.kept import Kept
from deploykit.frontends.onnx.streams.layers import RECURRENT, WINDOWS, Mark, after, recurrent, windowed
from deploykit.frontends.onnx.streams.moves import MOVES, moved
from deploykit.frontends.onnx.streams.outputs import notes, output
from deploykit.frontends.onnx.views import View

if TYPE_CHECKING:
    from deploykit.compiler.operators.building.context import Context
    from deploykit.frontends.onnx.node import Node

KEEPS_ZERO = frozenset({"DequantizeLinear", "Identity", "LeakyRelu", "QuantizeLinear", "Relu", "Tanh"})
"""Operators of one operand that make zeros of zeros."""


@dataclass(frozen=True)
class Plan:
    """What the first import found out: the new frames of a run are a multiple of `hop`; the window of the model begins
    `offset` frames after the first frame; `states`, and the `names` of dims in their shapes; `marks` of the results of
    nodes, by the name of the first one; the nodes that only move frames (`moved`), and those that mix them (`mixing`),
    by the same name."""

    hop: int = 1
    offset: int = 0
    states: tuple[Port, ...] = ()
    names: Mapping[tirx.Var, str] = field(default_factory=dict)
    marks: Mapping[str, tuple[Mark, ...]] = field(default_factory=dict)
    moved: frozenset[str] = frozenset()
    mixing: frozenset[str] = frozenset()


def import_stream(model: ir.Model, stream: str, dims: DimBounds | None = None, name: str = "model") -> ImportedModel:
    """Import a model that was read, as one for a stream of frames. `stream` says what counts frames (`asked`).

    Raises `UsageError` and `UnsupportedModelError`."""
    asked = Asked.of(model, stream)
    bounds = checked_bounds(dims or {})
    plan = Plan()
    while True:
        importer = StreamImporter(model, asked, plan, {**bounds, asked.dim: (1, None)}, name, final=False)
        importer.imported()
        found = importer.found()
        if (found.hop, found.offset) == (plan.hop, plan.offset):
            break
        plan = replace(Plan(), hop=found.hop, offset=found.offset)
    final = {**bounds, asked.dim: asked.sizes(bounds.get(asked.dim), found.hop)}
    return StreamImporter(model, asked, found, final, name, final=True).imported()


class StreamImporter(GraphImporter):
    """One import of a stream, the `final` one by a complete plan."""

    def __init__(self, model: ir.Model, asked: Asked, plan: Plan, bounds: DimBounds, name: str, *, final: bool) -> None:
        super().__init__(model, bounds, name, None, {}, None, may_give_up=False)
        self.asked, self.plan, self.final = asked, plan, final
        self.builder = ModelBuilder(name)
        self.shared = self.builder.shared
        self.top: Scope = {}
        self.kept: Kept
        self.marks: dict[int, tuple[Value, Frames | Now]] = {}
        self.noted: dict[str, tuple[Mark, ...]] = {}
        self.moved: set[str] = set()
        self.mixing: dict[str, str] = {}
        self.hop = 1
        self.outputs: list[StreamOutput] = []

    def imported(self) -> ImportedModel:
        """The model; in the first import without states."""
        self._check_known(self.model.graph, set())
        if self.problems:
            self._refuse()
        graph = self.model.graph
        inputs = [value for value in graph.inputs if value.name not in graph.initializers]
        values = {value.name or "": self._input(value) for value in inputs}
        ports = []
        for name, value in values.items():
            if not isinstance(value, Value) or value.text is not None:
                raise UnsupportedModelError(f"input '{name}': a stream takes tensors of numbers")
            ports.append(Port(name, value.dtype, value.shape))
        self._require_known_dims()
        ports = list(quantized(ports, {value.name: of_input(value) for value in inputs}))
        states = [self._state(port) for port in self.plan.states] if self.final else []
        for state in states:
            self.builder.state(state.name, state.dtype, state.shape)
        self.builder.function("main", ports, self._body, [state.name for state in states])
        model = self.builder.model()
        (signature,) = model.functions
        outputs = quantized(signature.outputs, {value.name: of_output(value) for value in graph.outputs})
        return replace(
            model,
            functions=(replace(signature, outputs=outputs),),
            notes=(*model.notes, *notes(self.asked, self.plan.hop, self.outputs, list(self.mixing.values()))),
            stream=self._entry(),
            license=license_of(self.model.metadata_props),
            files=tuple(self.model.meta.get(FILES, ())),
        )

    def found(self) -> Plan:
        """What this import found out."""
        offset = -(self.asked.window or 0) % self.hop if self.mixing else 0
        names = {dim.var: name for name, dim in self.dims.items() if isinstance(dim, Dim)}
        return Plan(
            self.hop,
            offset,
            tuple(self.kept.ports.values()),
            names,
            self.noted,
            frozenset(self.moved),
            frozenset(self.mixing),
        )

    def _new_dim(self, name: str, minimum: int = 1) -> Dim | int:
        bound = self.bounds.get(name, (0 if name in self.emptiable else minimum, None))
        if isinstance(bound, int):
            return bound
        return Dim(name, self.builder.dim(name, *bound), *bound)

    def _state(self, port: Port) -> Port:
        """A state that the first import found, over the dims of this one."""
        sizes = {}
        for var in {var for extent in port.shape for var in free_vars(extent)}:
            dim = self.dims.get(self.plan.names.get(var, ""))
            if dim is None:
                raise UnsupportedModelError(f"the size of the state '{port.name}' is not known before a run")
            sizes[var] = dim.var if isinstance(dim, Dim) else dim
        return replace(port, shape=tuple(self.shared.facts.simplify(substitute(n, sizes)) for n in port.shape))

    def _body(self, ctx: Context, given: Values, old: Values) -> tuple[Values, Values]:
        time = self.dims[self.asked.dim]
        self.time = time.var if isinstance(time, Dim) else time
        ctx.site = Site("stream", "the stream")
        if self.final and self.plan.hop > 1:
            ctx.require(
                equal(floor_mod(self.time, self.plan.hop), 0),
                f"the number of new frames has to be a multiple of {self.plan.hop}, found {{}}",
                self.time,
            )
        self.kept = Kept(ctx, self.time, old if self.final else None)
        self.top = dict(given)
        for name, value in given.items():
            axis = self.asked.axes.get(name)
            if axis is not None:
                self._mark(value, Frames(axis, early=self.plan.offset, length=self.asked.window))
        self.graph(ctx, self.model.graph, self.top)
        results = {} if self.problems else self._outputs(ctx)
        if self.problems:
            self._refuse()
        return results, self.kept.new

    # Marks

    def _mark(self, value: AnyValue | None, mark: Mark) -> None:
        if isinstance(value, Value) and mark is not None:
            self.marks[id(value)] = (value, mark)
            if isinstance(mark, Frames):
                self.hop = lcm(self.hop, mark.step)

    def mark_of(self, value: AnyValue | None) -> Mark:
        """What is known of the frames of a value; None: it does not depend on the stream."""
        found = self.marks.get(id(value))
        return None if found is None else found[1]

    def node(self, context: Context, source: ir.Node | View, scope: Scope, opsets: Mapping[str, int]) -> None:
        super().node(context, source, scope, opsets)
        marks = self.noted.get(source.outputs[0].name or "", ()) if scope is self.top else ()
        for value, mark in zip(source.outputs, marks, strict=False):
            self._mark(scope.get(value.name or ""), mark)

    def _import(
        self, context: Context, node: Node, inputs: list[AnyValue | None], scope: Scope
    ) -> tuple[AnyValue | None, ...]:
        if scope is not self.top:
            return super()._import(context, node, inputs, scope)
        if any(each.type == ir.AttributeType.GRAPH for each in node.attributes.values()):
            names = {value.name or "" for value in read_by_graphs(node)}
            if any(self.mark_of(scope.get(name)) for name in names):
                raise Unsupported("control flow that depends on frames")
        marks = [self.mark_of(value) for value in inputs]
        for value, mark in zip(inputs, marks, strict=True):
            if mark is None and self._time_axis(value) is not None:
                raise Unsupported("it is not known which frames it reads")
        if not any(marks) or node.op_type in ("Shape", "Size"):
            results = super()._import(context, node, inputs, scope)
            if any(isinstance(value, Value) and not value.is_known for value in results):
                self._require_no_count(inputs)
            return results
        results, found = self._streamed(context, node, list(inputs), marks)
        # The same tensor may be several values, with their frames at different places.
        results = tuple(replace(each) if isinstance(each, Value) and each in inputs else each for each in results)
        self.noted[node.outputs[0].name or ""] = tuple(found)
        return results

    def _streamed(
        self, ctx: Context, node: Node, inputs: list[AnyValue | None], marks: Sequence[Mark]
    ) -> tuple[tuple[AnyValue | None, ...], Sequence[Mark]]:
        """The results of a node that depends on the stream, and what is known of their frames."""
        operands = [value if isinstance(value, Value) else None for value in inputs]
        if any(value is not None and operand is None for value, operand in zip(inputs, operands, strict=True)):
            raise Unsupported("a sequence or an optional of frames")
        if not any(isinstance(mark, Frames) for mark in marks):
            return self._whole(ctx, node, operands, marks)
        first, x, name = marks[0], operands[0], node.outputs[0].name or ""
        if isinstance(first, Frames) and x is not None and not node.domain:
            if node.op_type in WINDOWS and first.axis >= 2 and not any(marks[1:]):
                weights = operands[1] if node.op_type == "Conv" else None
                kernel = node.ints("kernel_shape") if weights is None else weights.shape[2:]
                changed, data, found = windowed(node, x, first, kernel, self.kept)
                return super()._import(ctx, changed, [data, *operands[1:]], self.top), [found]
            if node.op_type in RECURRENT:
                return self._recurrent(ctx, node, operands, first)
            # Operands that count new frames are numbers in the last import alone.
            if node.op_type in MOVES and (not self.final or name in self.plan.moved):
                place = moved(ctx, node, operands, first, self.kept)
                if place is not None:
                    self.moved.add(name)
                    value, mark, rest = place
                    results = (value,) if rest is None else super()._import(ctx, node, [value, *rest], self.top)
                    return results, [mark]
        return self._apart(ctx, node, operands, marks)

    def _recurrent(
        self, ctx: Context, node: Node, operands: Sequence[Value | None], frames: Frames
    ) -> tuple[tuple[AnyValue | None, ...], Sequence[Mark]]:
        given, names = recurrent(node, operands, frames, self.kept)
        results = super()._import(ctx, node, list(given), self.top)
        for name, value in zip(names, results[1:], strict=False):
            assert isinstance(value, Value)
            self.kept.new[name] = value
        found = replace(frames, endless=True)
        return results, [found, *[after(found)] * (len(results) - 1)]

    def _apart(
        self, ctx: Context, node: Node, operands: list[Value | None], marks: Sequence[Mark]
    ) -> tuple[tuple[AnyValue | None, ...], Sequence[Mark]]:
        """The results of a node that computes each frame for itself, or else of a window."""
        name = node.outputs[0].name or ""
        if name in self.plan.mixing:
            return self._mixed(ctx, node, operands, marks, "")
        before, states = self.shared.mark(), self.kept.mark()
        try:
            aligned, mark = self._aligned(node, operands, marks)
            results = super()._import(ctx, node, list(aligned), self.top)
            if self.final:
                return results, self.plan.marks[name]
            given = [
                (value, Tokens(each.axis, 1) if isinstance(each, Frames) and place < _shapes(node) else None)
                for place, (value, each) in enumerate(zip(aligned, marks, strict=True))
                if value is not None
            ]
            return results, self._kept_apart(ctx, node, given, results, mark, before)
        except Unsupported as error:
            if self.final:
                raise
            self.shared.forget_since(before)
            self.kept.forget_since(states)
            return self._mixed(ctx, node, operands, marks, str(error))

    def _aligned(
        self, node: Node, operands: Sequence[Value | None], marks: Sequence[Mark]
    ) -> tuple[list[Value | None], Frames]:
        """The operands with their frames at the same places, and where those of the result are."""
        frames = [mark for mark in marks if isinstance(mark, Frames)]
        if any(isinstance(mark, Now) for mark in marks):
            raise Unsupported("it combines frames with a result of all frames")
        if any(each.ahead for each in frames) and (len(frames) > 1 or node.op_type not in KEEPS_ZERO):
            raise Unsupported("frames are padded in front of an operator that is no convolution")
        if len({(each.step, each.behind) for each in frames}) > 1:
            raise Unsupported("it combines frames of different rates")
        late = max(each.early for each in frames)
        found = [
            self.kept.delayed(value, mark.axis, late - mark.early)
            if value is not None and isinstance(mark, Frames) and mark.early < late
            else value
            for value, mark in zip(operands, marks, strict=True)
        ]
        lengths = [each.length for each in frames if each.length is not None]
        return found, replace(
            frames[0],
            early=late,
            endless=any(each.endless for each in frames),
            padded=any(each.padded for each in frames),
            length=min(lengths, default=None),
        )

    def _kept_apart(
        self,
        ctx: Context,
        node: Node,
        given: Sequence[tuple[Value, Tokens | None]],
        results: Sequence[AnyValue | None],
        mark: Frames,
        before: tuple[int, ...],
    ) -> list[Mark]:
        """Where the frames of the results are. Raises `Unsupported` if the node mixes them."""
        self._require_no_count([value for value, _ in given][: _shapes(node)])
        rule = RULES.get(node.op_type) if node.domain in ("", MICROSOFT) else None
        if rule is None:
            raise Unsupported("it mixes frames")
        (y, *_) = (value for value in results if isinstance(value, Value))
        new = self.shared.requirements[before[2] :]
        if not rule(ctx, node, given, y) or any(self._counts(each.condition) for each in new):
            raise Unsupported("it mixes frames")
        axes = [self._time_axis(value) if isinstance(value, Value) else None for value in results]
        if any(axis is None for axis, value in zip(axes, results, strict=True) if value is not None):
            raise Unsupported("it mixes frames")
        return [None if axis is None else mark.at(axis) for axis in axes]

    def _mixed(
        self, ctx: Context, node: Node, operands: Sequence[Value | None], marks: Sequence[Mark], why: str
    ) -> tuple[tuple[AnyValue | None, ...], Sequence[Mark]]:
        """The results of a node for the window of the model."""
        if node.op_type in WINDOWS | RECURRENT:
            raise Unsupported(why)
        if any(isinstance(mark, Frames) and mark.endless for mark in marks):
            raise Unsupported(f"{why}, and what it reads depends on all frames so far")
        if self.asked.window is None:
            raise Unsupported(f"{why}: say how many frames there are to be, as in --stream {self.asked.dim}=50")
        self.mixing[node.outputs[0].name or ""] = f"{node.op_type} '{node.name}'"
        found = [
            self._window(value, mark) if value is not None and isinstance(mark, Frames) else value
            for value, mark in zip(operands, marks, strict=True)
        ]
        return self._whole(ctx, node, found, marks)

    def _window(self, x: Value, frames: Frames) -> Value:
        """The frames of the window that ends with the newest frame."""
        frames.require_no_later()
        if frames.ahead:
            raise Unsupported("zeros in front of the frames of a window")
        assert self.asked.window is not None
        assert frames.length is not None
        hop = self.plan.hop
        last = (self.asked.window + self.plan.offset) // frames.step
        newer = max(last - frames.length - frames.early, 0)
        return self.kept.window(x, frames.axis, frames.length, newer, max(hop // frames.step, 1))

    def _whole(
        self, ctx: Context, node: Node, operands: Sequence[Value | None], marks: Sequence[Mark]
    ) -> tuple[tuple[AnyValue | None, ...], Sequence[Mark]]:
        """The results of a node all whose operands are without frames."""
        self._require_no_count(operands)
        results = super()._import(ctx, node, list(operands), self.top)
        window = (self.asked.window or 0) + self.plan.offset
        found = [
            Now(window, "first" if mark.padded else "window") if isinstance(mark, Frames) else mark
            for mark in marks
            if mark is not None
        ]
        return results, [Now.of_all(found)] * len(results)

    # Sizes

    def _time_axis(self, value: AnyValue | None) -> int | None:
        """The axis of frames of a value, in the first import. Raises `Unsupported` if there are several."""
        if self.final or not isinstance(value, Value) or value.is_known:
            return None
        axes = [axis for axis, extent in enumerate(value.shape) if self._counts(extent)]
        if len(axes) > 1:
            raise Unsupported("it has frames along two axes")
        return axes[0] if axes else None

    def _require_no_count(self, operands: Sequence[AnyValue | None]) -> None:
        """Raises `Unsupported` for an operand that is computed from the number of frames, in the first import."""
        known = [v.elements for v in operands if isinstance(v, Value) and v.elements is not None]
        if not self.final and any(self._counts(element) for elements in known for element in elements.flat):
            raise Unsupported("it computes with the number of frames, which a stream has not")

    def _counts(self, extent: object) -> bool:
        return isinstance(extent, tvm_ir.Expr) and self.time in free_vars(extent)

    # Results

    def _outputs(self, ctx: Context) -> dict[str, Value]:
        """The outputs, with an entry for each."""
        found: dict[str, Value] = {}
        for declared in self.model.graph.outputs:
            name = declared.name or ""
            value = self.top.get(name)
            ctx.site = Site("stream", name)
            try:
                found[name], entry = self._output(name, value)
                self.outputs.append(entry)
            except Unsupported as reason:
                self.problems.append(Problem("output", name, self.opsets.get("", 1), str(reason)))
        return found

    def _output(self, name: str, value: AnyValue | None) -> tuple[Value, StreamOutput]:
        if not isinstance(value, Value) or value is POISON:
            raise Unsupported("it is no tensor")
        mark = self.mark_of(value)
        if mark is None and self._time_axis(value) is not None:
            raise Unsupported("it is not known which frames it has")
        return output(self.kept, name, value, mark, self.plan.hop, self.plan.offset)

    def _entry(self) -> StreamEntry:
        return StreamEntry(
            dim=self.asked.dim,
            hop=self.plan.hop,
            inputs=self.asked.axes,
            outputs=tuple(self.outputs),
            window=self.asked.window,
            fixed=self.asked.fixed,
        )


def read_by_graphs(node: Node) -> list[ir.Value]:
    """The values that a node reads within its graphs, or takes."""
    inner = [
        value
        for attribute in node.attributes.values()
        if attribute.type == ir.AttributeType.GRAPH
        for each in attribute.as_graph()
        for value in read_by(each)
    ]
    return [*inner, *(value for value in node.inputs if value is not None)]


def _shapes(node: Node) -> int:
    """The first operand of a node that holds sizes or axes."""
    return SHAPE_OPERANDS.get(node.op_type, 1 << 30)
