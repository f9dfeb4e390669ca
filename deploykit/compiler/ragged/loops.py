"""Loop nests whose extents may be loads, and loads moved out of loops.

A load from an index array that does not depend on a loop is done before that loop, once (*load hoisting*). Otherwise
the innermost loops would load lengths and sums for each element. Loads under a condition stay where they are.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir, tirx

from deploykit.compiler.tir.rewriting import Buffer, Expr, call_name, collect, sequence, substitute
from deploykit.compiler.tir.values import const


@dataclass(frozen=True)
class Loop:
    """A loop over `var` from 0 to `extent`, which may depend on outer loops."""

    var: tirx.Var
    extent: Expr
    kind: tirx.ForKind = tirx.ForKind.SERIAL


def nest(loops: Sequence[Loop], body: tirx.Stmt) -> tirx.Stmt:
    """`body` under `loops`, the first one outermost."""
    for loop in reversed(loops):
        body = tirx.For(loop.var, const(0), loop.extent, loop.kind, body)
    return body


def hoisted(body: tirx.Stmt, arrays: Collection[Buffer]) -> tirx.Stmt:
    """`body`, with each load from one of `arrays` in front of the outermost loop in which its index is known."""
    return _Hoist(arrays).statement(body)


class _Hoist:
    def __init__(self, arrays: Collection[Buffer]) -> None:
        self.arrays = arrays

    def statement(self, body: tirx.Stmt) -> tirx.Stmt:
        """`body`, with everything bound that does not depend on a variable that is defined in it."""
        own = _defined(body)
        binds: list[tirx.Stmt] = []
        while (load := self._ready(body, own)) is not None:
            var = tirx.Var(load.source.name, str(load.ty.dtype))
            binds.append(tirx.Bind(var, load))
            body = _replaced(body, load, var)
        inner = self._within(body)
        return sequence([*binds, inner]) if binds else inner

    def _within(self, body: tirx.Stmt) -> tirx.Stmt:
        if isinstance(body, tirx.SeqStmt):
            return sequence([self.statement(part) for part in body.seq])
        if isinstance(body, tirx.For):
            found = self.statement(body.body)
            return tirx.For(body.loop_var, body.min, body.extent, body.kind, found, None, body.annotations)
        if isinstance(body, tirx.IfThenElse):
            other = None if body.else_case is None else self.statement(body.else_case)
            return tirx.IfThenElse(body.condition, self.statement(body.then_case), other)
        return body

    def _ready(self, body: tirx.Stmt, own: set[ir.Var]) -> ir.TensorLoad | None:
        """A load that is always done and whose index is known before `body`."""
        for load in _unconditional(body):
            inner = [other for index in load.indices for other in collect(index, ir.TensorLoad)]
            if load.source in self.arrays and not inner and own.isdisjoint(collect(load, ir.Var)):
                return load
        return None


def _defined(body: tirx.Stmt) -> set[ir.Var]:
    return {node.loop_var if isinstance(node, tirx.For) else node.var for node in collect(body, (tirx.For, tirx.Bind))}


def _unconditional(body: tirx.Stmt) -> list[ir.TensorLoad]:
    """The loads of a statement that are not under a condition."""
    everything = collect(body, ir.TensorLoad)
    hidden: set[Any] = set()
    for call in collect(body, ir.Call):
        if call_name(call) == "if_then_else":
            hidden.update(load for branch in call.args[1:] for load in collect(branch, ir.TensorLoad))
    for branch in collect(body, tirx.IfThenElse):
        hidden.update(load for part in (branch.then_case, branch.else_case) for load in collect(part, ir.TensorLoad))
    return [load for load in everything if load not in hidden]


def _replaced(body: tirx.Stmt, load: ir.TensorLoad, var: tirx.Var) -> tirx.Stmt:
    def one(found: ir.TensorLoad) -> Expr:
        return var if tvm_ffi.structural_equal(found, load, map_free_vars=False) else found

    replaced: tirx.Stmt = tvm_ffi.structural_map(body, (ir.TensorLoad, one), order="post")
    return replaced


def renamed(loops: Sequence[Loop], body: tirx.Stmt) -> tuple[list[Loop], tirx.Stmt]:
    """The loops and the body with fresh variables."""
    fresh: dict[ir.Var, Expr] = {}
    result = []
    for loop in loops:
        var = tirx.Var(loop.var.name, "int64")
        result.append(Loop(var, substitute(loop.extent, fresh), loop.kind))
        fresh[loop.var] = var
    return result, substitute(body, fresh)
