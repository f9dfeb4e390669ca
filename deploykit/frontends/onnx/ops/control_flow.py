"""If, Loop and Scan.

A condition known at import picks its branch; otherwise branches and bodies become functions that the program runs in
place (`deploykit.compiler.graph.control_flow`). Inside a body the iteration number is an integer variable, and the
condition that let the iteration start is true. State tensors must keep their shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir
from tvm import relax, te, tirx

from deploykit.compiler.dims import symbolic_upper_bound
from deploykit.compiler.graph import control_flow
from deploykit.compiler.program.ir import IntExpr
from deploykit.frontends.dtypes import storage_dtype
from deploykit.frontends.onnx.context import Context
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.ops.layout import transpose
from deploykit.frontends.onnx.registry import Unsupported, operator
from deploykit.frontends.onnx.subgraph import Subgraph, build, free_names
from deploykit.frontends.onnx.value import AnyValue, Value, constant

if TYPE_CHECKING:
    from deploykit.frontends.onnx.importer import GraphImporter, Scope


@operator("If")
def if_operator(
    ctx: Context, node: Node, condition: Value, *, importer: GraphImporter, scope: Scope
) -> tuple[AnyValue | None, ...]:
    then, otherwise = node.graph("then_branch"), node.graph("else_branch")
    if condition.array is not None:
        taken = then if bool(condition.array.reshape(-1)[0]) else otherwise
        local = dict(scope)
        importer.graph(ctx, taken, local)
        return tuple(local.get(v.name or "") for v in taken.outputs)
    names = sorted(free_names(then) | free_names(otherwise))
    branches = [
        build(importer, ctx, f"{node.name}_{side}", graph, scope, names, [], lambda *_: [])
        for side, graph in (("then", then), ("else", otherwise))
    ]
    shapes = [_join(ctx, a, b) for a, b in zip(branches[0].results, branches[1].results, strict=True)]
    dtypes = [r.dtype for r in branches[0].results]
    types = [relax.TensorType(s, storage_dtype(d)) for s, d in zip(shapes, dtypes, strict=True)]
    test = ctx.tensor(ctx.reshape(condition, ()))
    call = control_flow.branch(test, branches[0].function, branches[1].function, branches[0].captured, types)
    return _unpack(ctx, call, dtypes, shapes)


def _join(ctx: Context, a: Value, b: Value) -> list[IntExpr]:
    if a.dtype != b.dtype or a.rank != b.rank:
        raise Unsupported(f"the branches give {a.dtype} of rank {a.rank} and {b.dtype} of rank {b.rank}")
    return [m if ctx.equal(m, n) else _either(ctx, m, n) for m, n in zip(a.shape, b.shape, strict=True)]


def _either(ctx: Context, m: IntExpr, n: IntExpr) -> tirx.Var:
    bounds = {d.var: (d.minimum, d.maximum) for d in ctx.shared.data_dims}
    upper = [symbolic_upper_bound(x, bounds) for x in (m, n)]
    known = [u for u in upper if u is not None]
    maximum = ctx.simplify(tirx.max(*[tirx.Cast("int64", tirx.convert(u)) for u in known])) if len(known) == 2 else None
    return ctx.new_dim("branch_dim", 0, maximum)


def _unpack(
    ctx: Context, call: relax.Call, dtypes: Sequence[str], shapes: Sequence[Sequence[IntExpr]]
) -> tuple[Value, ...]:
    result = ctx.builder.emit(call)
    return tuple(
        ctx.bind(relax.TupleGetItem(result, i), d, s) for i, (d, s) in enumerate(zip(dtypes, shapes, strict=True))
    )


@operator("Loop")
def loop(
    ctx: Context,
    node: Node,
    trip_count: Value | None,
    condition: Value | None,
    *initial: AnyValue,
    importer: GraphImporter,
    scope: Scope,
) -> tuple[Value, ...]:
    if not all(isinstance(v, Value) for v in initial):
        raise Unsupported("a loop that carries sequences")
    state = [v for v in initial if isinstance(v, Value)]
    graph = node.graph("body")
    trips = None if trip_count is None else _not_negative(ctx, ctx.ints(trip_count, hint="trips")[0])
    if trips is not None and condition is not None and condition.array is None:
        (started,) = ctx.ints(ctx.cast(condition, "int64"), 0, 1, hint="started")
        trips = ctx.simplify(trips * started)
    index = ctx.new_dim("iteration", 0)

    def arguments(inner: Context, given: Sequence[Value], local: Scope) -> list[AnyValue]:
        number = Value("int64", (), elements=np.asarray(index, dtype=object))
        shaped = [inner.reshape(v, _declared(i, v)) for i, v in zip(graph.inputs[2:], given, strict=True)]
        return [number, constant(np.asarray(True)), *shaped]

    body = build(importer, ctx, f"{node.name}_body", graph, scope, sorted(free_names(graph)), state, arguments)
    going, results = body.results[0], body.results[1:]
    endless = going.array is not None and bool(going.array.reshape(-1)[0])
    if endless:
        if trips is None:
            raise Unsupported("a loop without trip count whose condition never changes")
        return _loop(ctx, body, trips, None, state, results, index, drop=1)
    start = condition if condition is not None else constant(np.asarray(True))
    return _loop(ctx, body, trips, ctx.reshape(start, ()), state, results, index, drop=0)


def _declared(declared: ir.Value, value: Value) -> tuple[IntExpr, ...]:
    """A state given as `[1]` where the body says scalar, or the reverse, takes the body's rank."""
    rank = None if declared.shape is None else len(declared.shape)
    if rank == 0 and value.shape == (1,):
        return ()
    return (1,) if rank == 1 and value.shape == () else value.shape


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
    """Emit a loop. `drop` results at the front of the function are not wanted (a condition that is always true)."""
    ends, rows = results[: len(state)], results[len(state) :]
    for before, after in zip(state, ends, strict=True):
        same = before.rank == after.rank and all(
            ctx.equal(m, n) for m, n in zip(before.shape, after.shape, strict=True)
        )
        if not same or before.dtype != after.dtype:
            raise Unsupported(
                f"a loop that changes a state from {before.dtype}{before.shape} to {after.dtype}{after.shape}"
            )
    count = ctx.new_dim("iterations", 0, trips)
    done: IntExpr = count if condition is not None or trips is None else trips
    shapes = [v.shape for v in state] + [(done, *r.shape) for r in rows]
    dtypes = [r.dtype for r in results]
    types = [relax.TensorType(s, storage_dtype(d)) for s, d in zip(shapes, dtypes, strict=True)]
    function = _without_first(ctx, body, drop)
    test = None if condition is None else ctx.tensor(condition)
    tensors = [ctx.tensor(v) for v in state]
    call = control_flow.loop(function, trips, test, tensors, body.captured, index, count, types)
    return _unpack(ctx, call, dtypes, shapes)


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


@operator("Scan", since=9)
def scan(ctx: Context, node: Node, *inputs: Value, importer: GraphImporter, scope: Scope) -> tuple[Value, ...]:
    graph = node.graph("body")
    scanned = node.int("num_scan_inputs")
    state, sources = list(inputs[: len(inputs) - scanned]), list(inputs[len(inputs) - scanned :])
    axes = node.ints("scan_input_axes", [0] * scanned)
    sources = [_to_front(ctx, s, a % s.rank) for s, a in zip(sources, axes, strict=True)]
    backwards = node.ints("scan_input_directions", [0] * scanned)
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
    body = build(importer, ctx, f"{node.name}_body", graph, scope, names, [*state, *sources], arguments)
    with_sources = Subgraph(body.function, (*(ctx.tensor(s) for s in sources), *body.captured), body.results)
    results = _loop(ctx, with_sources, trips, None, state, body.results, index, drop=0)
    collected = results[len(state) :]
    directions = node.ints("scan_output_directions", [0] * len(collected))
    places = node.ints("scan_output_axes", [0] * len(collected))
    finished = [
        _from_front(ctx, _reversed(ctx, r) if back else r, place % r.rank)
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
    result = ctx.kernel("row", lambda t: te.compute(x.shape[1:], lambda *i: t(row, *i), name="row"), x, dtype=x.dtype)
    assert isinstance(result, Value)
    return result


def _reversed(ctx: Context, x: Value) -> Value:
    rows = x.shape[0]
    result = ctx.kernel(
        "reverse", lambda t: te.compute(x.shape, lambda r, *i: t(rows - 1 - r, *i), name="reverse"), x, dtype=x.dtype
    )
    assert isinstance(result, Value)
    return result
