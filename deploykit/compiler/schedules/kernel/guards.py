"""Guards: conditions on a loop's position that are moved out of the loop.

Pads, concatenations and windows choose between values by comparing indices: `if_then_else(i < n, a[i], b[i - n])`. A
guard is one such comparison, an operand of the conjunction that chooses. Where the guard is known to hold or to fail,
the value can be simplified (`assume`). If the guard is linear in an axis, the indices of the axis that fulfil it are an
interval (`interval`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tvm_ffi
from tvm import ir, sym, tirx

from deploykit.compiler.schedules.kernel.loops import Code, index_of, loop
from deploykit.compiler.schedules.kernel.stages import Axis
from deploykit.compiler.tir.rewriting import Expr, Node, call_name, collect, substitute
from deploykit.compiler.tir.values import as_index, const, dtype_of, static


def guards_of(value: Expr, axes: Sequence[Axis]) -> list[Expr]:
    """The guards of `value`: comparisons that read no buffer at an index that depends on `axes`."""
    found: list[Expr] = []
    for node in collect(value, (ir.Call, tirx.Select)):
        parts = _choice(node)
        if parts is not None:
            found += [atom for atom in _atoms(parts[0]) if not _reads(atom, axes)]
    return found


def _reads(guard: Expr, axes: Sequence[Axis]) -> bool:
    variables = {axis.var for axis in axes}
    loads = collect(guard, ir.TensorLoad)
    return any(var in variables for load in loads for index in load.indices for var in collect(index, ir.Var))


def assume(node: Node, guard: Expr, holds: bool) -> Node:
    """`node`, given that `guard` holds or, with `holds` false, fails."""

    def rewrite(choice: ir.Call | tirx.Select) -> Expr:
        parts = _choice(choice)
        if parts is None:
            return choice
        condition, then, otherwise = parts
        rest = [atom for atom in _atoms(condition) if not tvm_ffi.structural_equal(atom, guard)]
        if len(rest) == len(_atoms(condition)):
            return choice
        if not holds:
            return otherwise
        if not rest:
            return then
        remaining = tirx.all(*rest)
        if isinstance(choice, tirx.Select):
            return tirx.Select(remaining, then, otherwise)
        return tirx.if_then_else(remaining, then, otherwise)

    result: Node = tvm_ffi.structural_map(node, ((ir.Call, tirx.Select), rewrite))
    return result


def interval(guard: Expr, axis: Axis) -> tuple[Expr, Expr] | None:
    """The first index of `axis` that fulfils `guard`, and the first one after those that do, both within the extent.
    `None` if the guard is not a comparison that is linear in the axis."""
    if isinstance(guard, tirx.LT):
        bounds = _below(guard.a - guard.b, axis)
    elif isinstance(guard, tirx.LE):
        bounds = _below(guard.a - guard.b - 1, axis)
    elif isinstance(guard, tirx.GT):
        bounds = _below(guard.b - guard.a, axis)
    elif isinstance(guard, tirx.GE):
        bounds = _below(guard.b - guard.a - 1, axis)
    else:
        return None
    if bounds is None:
        return None
    extent = as_index(axis.extent)
    known = sym.Analyzer()
    first = known.simplify(tirx.max(const(0), tirx.min(bounds[0], extent)))
    return first, known.simplify(tirx.max(first, tirx.min(bounds[1], extent)))


def _below(difference: Expr, axis: Axis) -> tuple[Expr, Expr] | None:
    """The interval of `axis` in which `difference < 0`, regardless of the axis' extent."""
    known = sym.Analyzer()
    slope = static(known.simplify(substitute(difference, {axis.var: axis.var + 1}) - difference))
    if not slope:
        return None
    at_zero = as_index(known.simplify(substitute(difference, {axis.var: tirx.IntImm(dtype_of(axis.var), 0)})))
    if slope > 0:
        return const(0), tirx.floordiv(slope - 1 - at_zero, const(slope))
    return tirx.floordiv(at_zero, const(-slope)) + 1, as_index(axis.extent)


def last_axis(guard: Expr, axes: Sequence[Axis]) -> int:
    """The position of the innermost of `axes` that a guard depends on; -1 if it depends on none."""
    used = set(collect(guard, ir.Var))
    return max((position for position, axis in enumerate(axes) if axis.var in used), default=-1)


def _choice(node: ir.Call | tirx.Select) -> tuple[Expr, Expr, Expr] | None:
    if isinstance(node, tirx.Select):
        return node.condition, node.true_value, node.false_value
    if call_name(node) == "if_then_else":
        condition, then, otherwise = node.args
        return condition, then, otherwise
    return None


def _atoms(condition: Expr) -> list[Expr]:
    if isinstance(condition, tirx.And):
        return [*_atoms(condition.a), *_atoms(condition.b)]
    return [condition]


def clipped(
    axes: Sequence[Axis], source: Expr, identity: Expr, body: Callable[[Expr], tirx.Stmt], later: Sequence[Axis] = ()
) -> tirx.Stmt:
    """Loops over reduced `axes` around `body(source)`, limited to the indices for which the guards of `source` hold.

    A guard is used if `source` is the reduction's `identity` whenever the guard fails, and if the guard is linear in
    the innermost axis it depends on. A guard that depends on none of the axes becomes an `if` around the loops. A guard
    that depends on one of the axes `later`, which `body` runs over, is left to `body`.
    """
    if not axes:
        return body(source)
    for guard in guards_of(source, axes):
        if last_axis(guard, [*axes, *later]) == -1 and vanishes(assume(source, guard, False), identity):
            inner = clipped(axes, assume(source, guard, True), identity, body, later)
            return tirx.IfThenElse(guard, inner, None)
    axis = axes[0]
    first, stop, source = span([axis, *axes[1:], *later], source, identity)
    code = Code()
    start = code.let("start", first)
    count = code.let("count", tirx.max(stop - start, const(0)) if static(start) != 0 else stop)

    def iteration(index: Expr) -> tirx.Stmt:
        value = start + index
        exact = index_of(axis, value)
        at = {axis.var: exact}
        return clipped(axes[1:], substitute(source, at), identity, lambda inner: substitute(body(inner), at), later)

    code.add(loop(axis.var.name.removeprefix("v_"), count, iteration))
    return code.statement()


def span(axes: Sequence[Axis], source: Expr, identity: Expr) -> tuple[Expr, Expr, Expr]:
    """The interval of the first of `axes` in which the guards that depend on no later axis hold, and `source` there."""
    first: Expr = const(0)
    stop: Expr = as_index(axes[0].extent)
    for guard in guards_of(source, axes):
        if last_axis(guard, axes) != 0:
            continue
        found = interval(guard, axes[0])
        if found is not None and vanishes(assume(source, guard, False), identity):
            first, stop = tirx.max(first, found[0]), tirx.min(stop, found[1])
            source = assume(source, guard, True)
    known = sym.Analyzer()
    return known.simplify(first), known.simplify(stop), source


def vanishes(value: Expr, identity: Expr) -> bool:
    """Whether `value` is the constant `identity`, or the identity is 0 and `value` is a product with it."""
    return bool(tvm_ffi.structural_equal(value, identity)) or (_is_zero(identity) and _is_zero(value))


def _is_zero(value: Expr) -> bool:
    if isinstance(value, tirx.IntImm | tirx.FloatImm):
        return bool(value.value == 0)
    if isinstance(value, tirx.Cast):
        return _is_zero(value.value)
    return isinstance(value, tirx.Mul) and (_is_zero(value.a) or _is_zero(value.b))
