"""Imports the ONNX operator If.

A condition that is known at import chooses its branch. So does a condition over dims if an attempt takes it as true or
false (`frontends.onnx.attempts`); every run must then fulfil it. Otherwise the branches become functions that the
program runs in place (`deploykit.compiler.operators.building.control_flow`). If one of them cannot be imported, an
attempt may demand that no run takes it.

The results of two branches get a common form where they differ:

    in a size                    the size becomes one that is known only during a run
    in axes of size 1 in front   both results have these axes
    in whether an optional has   both have an item, zeros for the branch without one, and a boolean that says whether
    an item                      the item is present
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
from tvm import ir as tvm_ir
from tvm import relax, tirx

from deploykit.compiler.dims import free_vars, symbolic_upper_bound, to_text
from deploykit.compiler.dtypes import storage_dtype
from deploykit.compiler.operators.building import control_flow
from deploykit.compiler.operators.building.composite import leaves, with_leaves
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.integers import all_plain, equal, negate
from deploykit.compiler.operators.building.sizes import only_integer
from deploykit.compiler.operators.building.value import AnyValue, OptionalValue, SequenceValue, Value, constant
from deploykit.errors import Problem
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import Spoiled, operator
from deploykit.frontends.onnx.subgraph import Finish, Subgraph, as_they_are, build, free_names, unpacked

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import onnx_ir as ir

    from deploykit.compiler.dims.expressions import IntExpr
    from deploykit.frontends.onnx.importer import GraphImporter, Scope


@operator("If")
def if_operator(
    ctx: Context, node: Node, condition: Value, *, importer: GraphImporter, scope: Scope
) -> tuple[AnyValue | None, ...]:
    graphs = {side: node.graph(f"{side}_branch", 0, len(node.outputs)) for side in ("then", "else")}
    if len({len(graph.outputs) for graph in graphs.values()}) > 1:
        raise Unsupported("its branches give different numbers of results")
    side = _known_side(ctx, node, condition, importer)
    if side is not None:
        return _inlined(ctx, graphs["then" if side else "else"], importer, scope)
    names = sorted(free_names(graphs["then"]) | free_names(graphs["else"]))
    before = ctx.shared.mark()
    built, failed = _each_side(ctx, node, graphs, names, importer=importer, scope=scope)
    if len(built) < len(graphs):
        ctx.shared.forget_since(before)
        if len(built) + len(failed) < len(graphs) or not built:
            raise Spoiled
        _give_up(ctx, node, condition, failed, importer)
        return _inlined(ctx, graphs[next(iter(built))], importer, scope)
    then, otherwise = built["then"], built["else"]
    if any(_differ(a, b) for a, b in zip(then.results, otherwise.results, strict=True)):
        ctx.shared.forget_since(before)
        if any(isinstance(a, Value) and _differ(a, b) for a, b in zip(then.results, otherwise.results, strict=True)):
            ctx.shared.notes.append(
                f"{node.name}: its branches give results of different ranks; both branches get the higher rank"
            )
        others = {"then": otherwise.results, "else": then.results}
        then, otherwise = (
            build(importer, ctx, f"{node.name}_{side}", graph, scope, names, [], lambda *_: [], _like(others[side]))
            for side, graph in graphs.items()
        )
    if condition.is_known:
        _check_ranks(node, condition, list(zip(then.results, otherwise.results, strict=True)), importer)
    pairs = [_pair(ctx, a, b) for a, b in zip(then.results, otherwise.results, strict=True)]
    both = [pair for found in pairs for pair in found]
    shapes = [_join(ctx, a, b) for a, b in both]
    dtypes = [a.dtype for a, _ in both]
    types = [relax.TensorType(s, storage_dtype(d)) for s, d in zip(shapes, dtypes, strict=True)]
    test = ctx.tensor(ctx.reshape(condition, ()))
    call = control_flow.branch(test, then.function, otherwise.function, then.captured, types)
    results = iter(unpacked(ctx, call, dtypes, shapes))
    return tuple(with_leaves(form, results) for form in then.results)


def _inlined(ctx: Context, graph: ir.Graph, importer: GraphImporter, scope: Scope) -> tuple[AnyValue | None, ...]:
    """Import a branch that every run takes, without a function of its own; returns its results."""
    local = dict(scope)
    importer.graph(ctx, graph, local)
    return tuple(local.get(v.name or "") for v in graph.outputs)


def _each_side(
    ctx: Context,
    node: Node,
    graphs: Mapping[str, ir.Graph],
    names: Sequence[str],
    *,
    importer: GraphImporter,
    scope: Scope,
) -> tuple[dict[str, Subgraph], dict[str, list[Problem]]]:
    """The branches that can be imported, and the problems of those that cannot."""
    built: dict[str, Subgraph] = {}
    failed: dict[str, list[Problem]] = {}
    for side, graph in graphs.items():
        known = len(importer.problems)
        with suppress(Spoiled):
            built[side] = build(importer, ctx, f"{node.name}_{side}", graph, scope, names, [], lambda *_: [])
        if len(importer.problems) > known:
            built.pop(side, None)
            failed[side] = importer.problems[known:]
    return built, failed


def _give_up(
    ctx: Context, node: Node, condition: Value, failed: Mapping[str, Sequence[Problem]], importer: GraphImporter
) -> None:
    """Drop the problems of the branch that cannot be imported, and require that no run takes it.

    Raises `Spoiled` if this import must not give up branches."""
    importer.one_sided = True
    if not importer.may_give_up:
        raise Spoiled
    ((side, problems),) = failed.items()
    del importer.problems[-len(problems) :]
    picked = only_integer(ctx, condition, hint="condition")
    reason = f"its branch '{side}_branch' cannot be compiled, because of {problems[0]}"
    ctx.require(equal(picked, 0 if side == "then" else 1), f"{reason}; this run takes it")
    ctx.shared.notes.append(f"{node.name}: {reason}; a run that takes it is refused")


def _known_side(ctx: Context, node: Node, condition: Value, importer: GraphImporter) -> bool | None:
    """The value of the condition if it is known or taken as such by the attempt, else None."""
    if condition.array is not None:
        return bool(condition.array.reshape(-1)[0])
    side = importer.taken.get(node.name)
    if side is None or not condition.is_known:
        return None
    (holds,) = condition.known_elements().reshape(-1)
    meant = holds if side else negate(holds)
    text = to_text(meant)
    sizes = free_vars(meant)
    found = ", ".join(f"{var.name} = {{}}" for var in sizes)
    ctx.require(meant, f"only one of its branches fits what follows, and needs {text}; found {found}", *sizes)
    ctx.shared.notes.append(f"{node.name}: only one of its branches fits what follows, and needs {text}")
    return side


def _check_ranks(
    node: Node, condition: Value, results: Sequence[tuple[AnyValue, AnyValue]], importer: GraphImporter
) -> None:
    """Raise `Unsupported`, and note the If as undecided, if its branches give results of different ranks."""
    for a, b in results:
        if isinstance(a, Value) and isinstance(b, Value) and a.rank != b.rank:
            importer.undecided.append(node.name)
            (holds,) = condition.known_elements().reshape(-1)
            hint = _choice(holds, importer.dims)
            reason = f"the branches give {_described(a)} and {_described(b)}, the first where {to_text(holds)}"
            raise Unsupported(f"{reason}, and both fit what follows, or neither{hint}")


def _choice(holds: tvm_ir.Expr, dims: Collection[str]) -> str:
    """How the user chooses the first or the second branch of an If."""
    match holds:
        case tirx.EQ(a=tirx.Var(name=name), b=tirx.IntImm(value=size)) if name in dims:
            first, second = f"--dim {name}={size} for the first", f"--dim {name}={size + 1}.. for the second"
            return f"; build for one of them, {first}, {second}"
    named = " ".join(f"--dim {var.name}=N" for var in free_vars(holds) if var.name in dims)
    return f"; say which, {named}" if named else ""


def _differ(a: AnyValue, b: AnyValue) -> bool:
    """Whether two results must be brought to a common form."""
    match a, b:
        case Value(), Value():
            return a.rank != b.rank and _units(a, b)
        case SequenceValue(items=one), SequenceValue(items=two) if len(one) == len(two):
            return any(_differ(x, y) for x, y in zip(one, two, strict=True))
        case OptionalValue(), OptionalValue():
            return (a.item is None, a.present is None) != (b.item is None, b.present is None)
    return False


def _units(a: Value, b: Value) -> bool:
    """Whether the additional leading axes of the tensor of higher rank all have size 1."""
    longer = a.shape if a.rank > b.rank else b.shape
    return all(isinstance(n, int) and n == 1 for n in longer[: abs(a.rank - b.rank)])


def _like(others: Sequence[AnyValue]) -> Finish:
    """A function that brings the results of a branch to the common form with `others`, those of the other branch."""

    def finish(ctx: Context, values: Sequence[AnyValue]) -> list[AnyValue]:
        return [_formed(ctx, value, other) for value, other in zip(values, others, strict=True)]

    return finish if others else as_they_are


def _formed(ctx: Context, value: AnyValue, other: AnyValue) -> AnyValue:
    match value, other:
        case Value(), Value() if other.rank > value.rank and _units(value, other):
            return ctx.reshape(value, (*(1,) * (other.rank - value.rank), *value.shape))
        case SequenceValue(items, dtype), SequenceValue(items=given) if len(items) == len(given):
            formed = [_formed(ctx, x, y) for x, y in zip(items, given, strict=True)]
            return SequenceValue(tuple(v for v in formed if isinstance(v, Value)), dtype)
        case OptionalValue(item, present), OptionalValue() if _differ(value, other):
            there = constant(np.asarray(item is not None)) if present is None else present
            return OptionalValue(_zeros(ctx, other.item) if item is None else item, there)
    return value


def _zeros(ctx: Context, like: Value | SequenceValue | None) -> Value | SequenceValue:
    """Zeros in the form of `like`, in place of an absent item."""

    def zeros(leaf: Value) -> Value:
        if not all_plain(leaf.shape):
            raise Unsupported("an optional that is empty in one branch, and whose sizes are not known")
        return ctx.zeros("absent", leaf.shape, leaf.dtype)

    found = with_leaves(like, iter([zeros(leaf) for leaf in leaves(ctx, like)]))
    assert isinstance(found, Value | SequenceValue)
    return found


def _pair(ctx: Context, a: AnyValue, b: AnyValue) -> list[tuple[Value, Value]]:
    one, two = leaves(ctx, a), leaves(ctx, b)
    if type(a) is not type(b) or len(one) != len(two):
        raise Unsupported(f"one branch gives {_described(a)}, the other {_described(b)}")
    return list(zip(one, two, strict=True))


def _described(value: AnyValue) -> str:
    match value:
        case Value():
            return f"{value.dtype} of rank {value.rank}"
        case SequenceValue(items):
            return f"a sequence of {len(items)} items"
    return "an optional"


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
