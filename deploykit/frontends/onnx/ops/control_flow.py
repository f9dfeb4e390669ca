"""Imports the ONNX operators Loop and Scan.

Bodies become functions that the program runs in place (`deploykit.compiler.operators.building.control_flow`). Inside a
body the iteration number is an integer variable, and the loop condition is true. A loop whose condition only counts
(`counting`) gets a trip count. States that change their shape are carried in a form of their own (`carried`), which is
found by importing the body with the shapes that states have before the loop. A loop that carries strings or optionals
is unrolled, and so is a short one that carries sequences. Those of Scan keep their shape.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np
import onnx_ir as ir
from tvm import relax, tirx

from deploykit.compiler.dims import free_vars
from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.dtypes import storage_dtype
from deploykit.compiler.operators.building import control_flow
from deploykit.compiler.operators.building.axes import from_front
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.expressions import compute
from deploykit.compiler.operators.building.integers import equal, maximum, minimum, select
from deploykit.compiler.operators.building.sizes import checked_reshape, only_integer
from deploykit.compiler.operators.building.value import AnyValue, SequenceValue, StackValue, Value, constant
from deploykit.compiler.operators.joining import concat
from deploykit.compiler.operators.layout import transpose
from deploykit.compiler.operators.strings.spans import STRING
from deploykit.frontends.onnx.attributes import axis_attribute
from deploykit.frontends.onnx.carried import Carried, Kept, room_for
from deploykit.frontends.onnx.counting import rounds
from deploykit.frontends.onnx.names import dim_name
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator
from deploykit.frontends.onnx.subgraph import Subgraph, build, free_names, unpacked

if TYPE_CHECKING:
    from deploykit.frontends.onnx.importer import GraphImporter, Scope


@operator("Loop")
def loop(
    ctx: Context,
    node: Node,
    trip_count: Value | None,
    condition: Value | None,
    *initial: AnyValue,
    importer: GraphImporter,
    scope: Scope,
) -> tuple[AnyValue | None, ...]:
    trips = None if trip_count is None else _not_negative(ctx, only_integer(ctx, trip_count, hint="trips"))
    if not all(map(_is_carriable, initial)) or (_has_sequences(initial) and _is_short(trips)):
        return _unrolled(ctx, node, trips, condition, initial, importer, scope)
    graph = node.graph("body", 2 + len(initial), 1 + len(initial))
    if trips is not None and condition is not None and condition.array is None:
        started = only_integer(ctx, ctx.cast(condition, "int64"), 0, 1, hint="started")
        trips = ctx.simplify(trips * started)
    counted = _counted(ctx, graph, condition, initial, scope)
    if counted is not None:
        trips = counted if trips is None else ctx.simplify(minimum(trips, counted))
    ports = graph.inputs[2:]
    carried: list[Carried] = [
        Kept(v, _declared(p, v) if isinstance(v, Value) else None) for p, v in zip(ports, initial, strict=True)
    ]
    for _ in range(MOST_FORMS):
        mark = ctx.shared.mark()
        index = ctx.new_dim("iteration", 0)
        body, before, after = _body(ctx, node, graph, carried, index, importer, scope)
        found = [
            kind.fitting(ctx, old, new, body.sizes, partial(_room, ctx, importer, port.name or "", trips))
            for port, kind, old, new in zip(ports, carried, before, after, strict=True)
        ]
        if all(a is b for a, b in zip(found, carried, strict=True)):
            break
        ctx.shared.forget_since(mark)
        carried = found
    else:
        raise Unsupported("a loop whose states change their shapes in ever new ways")
    state = [tensor for kind in carried for tensor in kind.tensors(ctx)]
    going, *results = body.tensors
    endless = (going.array is not None and bool(going.array.reshape(-1)[0])) or counted is not None
    if endless and trips is None:
        raise Unsupported("a loop without trip count whose condition never changes")
    test = None if endless else ctx.reshape(condition if condition is not None else constant(np.asarray(True)), ())
    tensors = _loop(ctx, body, trips, test, state, results, index, drop=1 if endless else 0)
    ends = iter(tensors[: len(state)])
    rounds_done = trips if test is None else None
    return (*(kind.after(ctx, ends, rounds_done) for kind in carried), *tensors[len(state) :])


MOST_FORMS = 4
"""How often a body is imported to find out how its states change."""


def _is_carriable(value: AnyValue) -> bool:
    if isinstance(value, SequenceValue):
        return all(item.dtype != STRING for item in value.items)
    return isinstance(value, StackValue) or (isinstance(value, Value) and value.dtype != STRING)


def _has_sequences(values: Sequence[AnyValue]) -> bool:
    return any(isinstance(value, SequenceValue) for value in values)


def _is_short(trips: IntExpr | None) -> bool:
    return isinstance(trips, int) and trips <= MOST_UNROLLED


def _room(
    ctx: Context,
    importer: GraphImporter,
    name: str,
    trips: IntExpr | None,
    axis: int,
    before: IntExpr,
    added: IntExpr | None,
) -> IntExpr:
    """The room for an axis of a state that grows: by its bound, or by the number of iterations."""
    dim = dim_name(name, axis)
    _, most = importer.bound_of(dim)
    found = room_for(ctx, before, added, trips) if most is None else most
    if found is None:
        raise Unsupported(
            f"a loop whose state '{name}' grows along axis {axis} without a known bound; give one, --dim {dim}=..N"
        )
    return found


def _body(
    ctx: Context,
    node: Node,
    graph: ir.Graph,
    carried: Sequence[Carried],
    index: tirx.Var,
    importer: GraphImporter,
    scope: Scope,
) -> tuple[Subgraph, list[AnyValue], list[AnyValue]]:
    """The body of a Loop as a function, the states that it sees, and those that it gives."""
    before: list[AnyValue] = []
    after: list[AnyValue] = []

    def arguments(inner: Context, given: Sequence[Value], local: Scope) -> list[AnyValue]:
        number = Value("int64", (), elements=np.asarray(index, dtype=object))
        tensors = iter(given)
        before.extend(cast("AnyValue", kind.seen(inner, tensors)) for kind in carried)
        return [number, constant(np.asarray(True)), *before]

    def finish(inner: Context, results: Sequence[AnyValue]) -> list[AnyValue]:
        going, *others = results
        stored: list[AnyValue] = [going]
        for own, port, kind, value in zip(graph.inputs[2:], graph.outputs[1:], carried, others, strict=False):
            after.append(_as_kept(inner, port, kind, value))
            stored += kind.stored(inner, after[-1], own.name or "")
        rows = zip(graph.outputs[1 + len(carried) :], others[len(carried) :], strict=True)
        stored += [_of_declared_sizes(inner, port, row) if isinstance(row, Value) else row for port, row in rows]
        return stored

    parameters = [tensor for kind in carried for tensor in kind.tensors(ctx)]
    captured = sorted(free_names(graph))
    body = build(importer, ctx, f"{node.name}_body", graph, scope, captured, parameters, arguments, finish, index)
    return body, before, after


def _as_kept(ctx: Context, port: ir.Value, kind: Carried, value: AnyValue) -> AnyValue:
    """The result for a state, with the sizes that the body declares as numbers, and in the shape of a state that keeps
    it."""
    if not isinstance(kind, Kept) or not isinstance(value, Value) or not isinstance(kind.value, Value):
        return value
    return _of_state(ctx, kind.value, _of_declared_sizes(ctx, port, value))


def _counted(
    ctx: Context, graph: ir.Graph, condition: Value | None, state: Sequence[AnyValue], scope: Scope
) -> IntExpr | None:
    """The number of iterations of a loop that counts, if it is known whether the loop begins; else None."""
    if condition is not None and not condition.is_known:
        return None
    found = rounds(ctx, graph, state, scope)
    if found is None or condition is None:
        return found
    (begins,) = condition.known_elements().reshape(-1)
    return ctx.simplify(select(begins, found, 0))


def _unrolled(
    ctx: Context,
    node: Node,
    trips: IntExpr | None,
    condition: Value | None,
    initial: Sequence[AnyValue],
    importer: GraphImporter,
    scope: Scope,
) -> tuple[AnyValue | None, ...]:
    """Unroll a loop that carries strings, sequences or optionals; the number of its iterations must be known."""
    endless = condition is None or (condition.array is not None and bool(condition.array.reshape(-1)[0]))
    if not isinstance(trips, int) or not endless or trips > MOST_UNROLLED:
        raise Unsupported(
            "a loop that carries strings, sequences or optionals, and whose number of iterations "
            + (f"is {trips}, more than {MOST_UNROLLED}" if isinstance(trips, int) and endless else "is not known")
        )
    graph = node.graph("body", 2 + len(initial), 1 + len(initial))
    state: list[AnyValue | None] = list(initial)
    rows: list[list[Value]] = []
    for iteration in range(trips):
        local = dict(scope)
        given = [constant(np.asarray(iteration, np.int64)), constant(np.asarray(True)), *state]
        local.update({v.name or "": value for v, value in zip(graph.inputs, given, strict=True)})
        importer.graph(ctx, graph, local)
        going, *results = (local.get(v.name or "") for v in graph.outputs)
        if not isinstance(going, Value) or going.array is None or not going.array.all():
            raise Unsupported("a loop that carries strings, sequences or optionals, and whose condition changes")
        state = results[: len(state)]
        rows.append([v for v in results[len(state) :] if isinstance(v, Value)])
    if len(graph.outputs) > 1 + len(state) and not rows:
        raise Unsupported("a loop without iterations that collects rows")
    collected = [concat(ctx, [ctx.reshape(v, (1, *v.shape)) for v in column], 0) for column in zip(*rows, strict=True)]
    return (*state, *collected)


def _declared(declared: ir.Value, value: Value) -> tuple[IntExpr, ...]:
    """The shape of a state inside the body: a scalar instead of `[1]`, or the reverse, if the body declares it so."""
    rank = None if declared.shape is None else len(declared.shape)
    if rank == 0 and value.shape == (1,):
        return ()
    return (1,) if rank == 1 and value.shape == () else value.shape


def _as_declared(
    ctx: Context, graph: ir.Graph, results: Sequence[AnyValue], before: Sequence[Value | None]
) -> list[AnyValue]:
    """The results of a body, with the sizes that it declares as numbers. Sizes that cannot be proved are checked in
    every iteration. `before` holds the states at the beginning of an iteration; if the result for a state has the same
    sizes, its shape is written in the same way."""
    return [
        _of_state(ctx, state, _of_declared_sizes(ctx, output, value)) if isinstance(value, Value) else value
        for output, value, state in itertools.zip_longest(graph.outputs, results, before)
    ]


def _of_state(ctx: Context, before: Value | None, value: Value) -> Value:
    if before is None or not _same_sizes(ctx, before, value):
        return value
    return ctx.reshape(value, before.shape)


def _same_sizes(ctx: Context, a: Value, b: Value) -> bool:
    return a.rank == b.rank and all(ctx.equal(m, n) for m, n in zip(a.shape, b.shape, strict=True))


def _of_declared_sizes(ctx: Context, port: ir.Value, value: Value) -> Value:
    declared = list(port.shape or ())
    if len(declared) != value.rank:
        return value
    pairs = zip(declared, value.shape, strict=True)
    shape = [n if isinstance(n, int) and not isinstance(m, int) else m for n, m in pairs]
    for n, m in zip(shape, value.shape, strict=True):
        ctx.require(equal(m, n), f"'{port.name}' is declared with a size of {{}}, found {{}}", n, m)
    return checked_reshape(ctx, value, shape)


def _not_negative(ctx: Context, count: IntExpr) -> IntExpr:
    return max(count, 0) if isinstance(count, int) else ctx.simplify(tirx.max(count, 0))


def _loop(
    ctx: Context,
    body: Subgraph,
    trips: IntExpr | None,
    condition: Value | None,
    state: Sequence[Value],
    results: Sequence[Value],
    index: tirx.Var,
    drop: int,
) -> tuple[Value, ...]:
    """Emit a loop. The first `drop` results of the function are left out (1 for a condition that is always true)."""
    ends, rows = results[: len(state)], results[len(state) :]
    for before, after in zip(state, ends, strict=True):
        if not _same_sizes(ctx, before, after) or before.dtype != after.dtype:
            raise Unsupported(f"a loop that changes a state from {before} to {after}")
    if any(var in body.sizes for row in rows for n in row.shape for var in free_vars(n)):
        raise Unsupported("a loop that collects rows whose sizes depend on data, so that rows may differ in size")
    count = ctx.new_dim("iterations", 0, trips)
    done: IntExpr = count if condition is not None or trips is None else trips
    shapes = [v.shape for v in state] + [(done, *(ctx.simplify(maximum(n, 0)) for n in r.shape)) for r in rows]
    dtypes = [r.dtype for r in results]
    types = [relax.TensorType(s, storage_dtype(d)) for s, d in zip(shapes, dtypes, strict=True)]
    function = _without_first(ctx, body, drop)
    test = None if condition is None else ctx.tensor(condition)
    tensors = [ctx.tensor(v) for v in state]
    call = control_flow.loop(function, trips, test, tensors, body.captured, index, count, types)
    return unpacked(ctx, call, dtypes, shapes)


def _without_first(ctx: Context, body: Subgraph, drop: int) -> relax.GlobalVar:
    """The body's function without its first `drop` results."""
    if not drop:
        return body.function
    function = ctx.shared.functions[body.function]
    (block,) = function.body.blocks
    *bindings, last = block.bindings
    fields = list(last.value.fields)[drop:]
    out = relax.Var(last.var.name, relax.TupleType([f.ty for f in fields]))
    rebuilt = relax.SeqExpr([relax.DataflowBlock([*bindings, relax.VarBinding(out, relax.Tuple(fields))])], out)
    ctx.shared.functions[body.function] = relax.Function(
        function.params, rebuilt, out.ty, function.is_pure, function.attrs
    )
    return body.function


MOST_UNROLLED = 256
"""The most iterations of a loop that is unrolled."""

UNBATCHED = "deploykit.scan"
"""A domain in which Scan has the meaning of opset 9 and later, at any opset."""


@operator("Scan")
def batched_scan(
    ctx: Context, node: Node, lengths: Value | None, *inputs: Value, importer: GraphImporter, scope: Scope
) -> tuple[Value, ...]:
    """Scan of opset 8: states and inputs have a leading batch axis. It becomes a Scan over the batch, whose body is the
    Scan of one element of the batch."""
    if lengths is not None:
        raise Unsupported("sequence_lens: elements of a batch that end early; export with opset 9 or later")
    count = node.int("num_scan_inputs")
    given = [ir.Value(name=f"{node.name}.element{i}") for i in range(len(inputs))]
    inner = ir.Node(
        UNBATCHED,
        "Scan",
        given,
        name=node.name,
        num_outputs=len(node.outputs),
        attributes=[
            node.attributes["body"],
            ir.AttrInt64("num_scan_inputs", count),
            ir.AttrInt64s("scan_input_directions", node.ints("directions", [0] * count)),
        ],
    )
    for i, output in enumerate(inner.outputs):
        output.name = f"{node.name}.result{i}"
    body = ir.Graph(given, inner.outputs, nodes=[inner], name=node.name)
    attributes = [ir.AttrGraph("body", body), ir.AttrInt64("num_scan_inputs", len(inputs))]
    batched = replace(node, attributes={a.name: a for a in attributes})
    return _scan(ctx, batched, inputs, importer, scope)


@operator("Scan", domain=UNBATCHED)
@operator("Scan", since=9)
def scan(ctx: Context, node: Node, *inputs: Value, importer: GraphImporter, scope: Scope) -> tuple[Value, ...]:
    return _scan(ctx, node, inputs, importer, scope)


def _scan(
    ctx: Context, node: Node, inputs: Sequence[Value], importer: GraphImporter, scope: Scope
) -> tuple[Value, ...]:
    scanned = node.int("num_scan_inputs")
    count = len(inputs) - scanned
    graph = node.graph("body", len(inputs), count)
    state = [_of_declared_sizes(ctx, given, v) for given, v in zip(graph.inputs, inputs[:count], strict=False)]
    sources = list(inputs[count:])
    axes = axis_attribute(node, "scan_input_axes", scanned, 0)
    sources = [_to_front(ctx, s, from_front(a, s.rank)) for s, a in zip(sources, axes, strict=True)]
    backwards = axis_attribute(node, "scan_input_directions", scanned, 0)
    trips = sources[0].shape[0]
    for source in sources[1:]:
        if not ctx.equal(source.shape[0], trips):
            ctx.require(tirx.EQ(source.shape[0], trips), "scan inputs have {} and {} rows", source.shape[0], trips)
    index = ctx.new_dim("iteration", 0)

    def arguments(inner: Context, given: Sequence[Value], local: Scope) -> list[AnyValue]:
        rows = [
            _row(inner, source, trips - 1 - index if back else index)
            for source, back in zip(given[len(state) :], backwards, strict=True)
        ]
        return [*given[: len(state)], *rows]

    names = sorted(free_names(graph))
    body = build(
        importer,
        ctx,
        *(f"{node.name}_body", graph, scope, names, [*state, *sources], arguments),
        lambda inner, results: _as_declared(inner, graph, results, state),
        index,
    )
    with_sources = replace(body, captured=(*(ctx.tensor(s) for s in sources), *body.captured))
    results = _loop(ctx, with_sources, trips, None, state, body.tensors, index, drop=0)
    collected = results[len(state) :]
    directions = axis_attribute(node, "scan_output_directions", len(collected), 0)
    places = axis_attribute(node, "scan_output_axes", len(collected), 0)
    finished = [
        _from_front(ctx, _reversed(ctx, r) if back else r, from_front(place, r.rank))
        for r, back, place in zip(collected, directions, places, strict=True)
    ]
    return (*results[: len(state)], *finished)


def _to_front(ctx: Context, x: Value, axis: int) -> Value:
    return transpose(ctx, x, [axis, *(i for i in range(x.rank) if i != axis)])


def _from_front(ctx: Context, x: Value, axis: int) -> Value:
    order = list(range(1, x.rank))
    order.insert(axis, 0)
    return transpose(ctx, x, order)


def _row(ctx: Context, x: Value, row: IntExpr) -> Value:
    result = ctx.kernel("row", lambda t: compute(x.shape[1:], lambda *i: t(row, *i), name="row"), x, dtype=x.dtype)
    assert isinstance(result, Value)
    return result


def _reversed(ctx: Context, x: Value) -> Value:
    rows = x.shape[0]
    result = ctx.kernel(
        "reverse", lambda t: compute(x.shape, lambda r, *i: t(rows - 1 - r, *i), name="reverse"), x, dtype=x.dtype
    )
    assert isinstance(result, Value)
    return result
