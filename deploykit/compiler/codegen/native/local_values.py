"""Stores named values of a kernel in local memory, which TVM's LLVM code generator does not look into.

    y = f(x); z = g(y, y)      ->    y[0] = f(x); z[0] = g(y[0], y[0])
    let y = f(x) in g(y, y)    ->    y[0] = f(x); g(y[0], y[0])

For every name, TVM's generator simplifies the value with earlier names replaced by their values. In a chain of
functions that use their operand twice, the time doubles with each function. The generator does not look into loads, and
LLVM turns such memory into registers before anything else. Names of sizes and indices stay, because what is known about
them gives the alignment of accesses.

A value that is named in a branch of `if_then_else` is computed in that branch only: the choice becomes a statement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tvm_ffi
from tvm import tirx
from tvm.ir import Call, Var
from tvm.ir.prim import expr as prim
from tvm.tirx import AllocBuffer, Bind, BufferStore, Evaluate, For, IfThenElse, SeqStmt
from tvm_ffi import VisitInterrupt

from deploykit.compiler.tir.loaded_values import bound_to_memory

if TYPE_CHECKING:
    from tvm.ir import Expr
    from tvm.tirx import Stmt

_ZERO = tirx.const(0, "int32")


def stored(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function, in which only sizes and indices still have names."""
    return func.with_body(_Names(func.body).stored())


class _Names:
    """The names of a body that become memory."""

    def __init__(self, body: Stmt) -> None:
        self._body = body
        self._from_memory = bound_to_memory(body)
        self._memory: dict[Var, Any] = {}
        self._buffers: list[Any] = []

    def stored(self) -> Stmt:
        kinds = (Bind, BufferStore, Evaluate, IfThenElse, For)
        body = tvm_ffi.structural_map(self._body, (kinds, self._statement))
        if not self._buffers:
            return self._body
        body = tvm_ffi.structural_map(body, (Var, self._load))
        return SeqStmt([*map(AllocBuffer, self._buffers), body])

    def _load(self, var: Var) -> Expr:
        return tirx.BufferLoad(self._memory[var], [_ZERO]) if var in self._memory else var

    def _statement(self, stmt: Any) -> Stmt:
        """A statement without names in its expressions, preceded by statements that store the named values."""
        before: list[Stmt] = []
        if isinstance(stmt, Bind):
            if self._is_value(stmt.var):
                found: Stmt = self._kept(stmt.var, self._nameless(stmt.value, before))
            else:
                found = Bind(stmt.var, self._nameless(stmt.value, before))
        elif isinstance(stmt, BufferStore):
            value = self._nameless(stmt.value, before)
            found = BufferStore(stmt.buffer, value, [self._nameless(index, before) for index in stmt.indices])
        elif isinstance(stmt, Evaluate):
            found = Evaluate(self._nameless(stmt.value, before))
        elif isinstance(stmt, IfThenElse):
            found = IfThenElse(self._nameless(stmt.condition, before), stmt.then_case, stmt.else_case)
        else:
            first, extent = self._nameless(stmt.min, before), self._nameless(stmt.extent, before)
            found = For(stmt.loop_var, first, extent, stmt.kind, stmt.body, None, stmt.annotations, stmt.step)
        return SeqStmt([*before, found]) if before else found

    def _is_value(self, var: Var) -> bool:
        """Whether a bound variable is a value, neither a pointer nor a size nor an index."""
        dtype = str(getattr(var.ty, "dtype", "handle"))
        return var in self._from_memory or dtype.startswith(("float", "bfloat")) or ("x" in dtype and dtype != "handle")

    def _kept(self, var: Var, value: Expr) -> Stmt:
        """Store a variable's value. An expression may occur in several statements, and so may the names in it."""
        if var not in self._memory:
            self._memory[var] = self._buffer(var.name, value)
        return BufferStore(self._memory[var], value, [_ZERO])

    def _buffer(self, name: str, value: Expr) -> Any:
        """Local memory for a value."""
        self._buffers.append(tirx.decl_buffer((1,), str(value.ty.dtype), name))
        return self._buffers[-1]

    def _nameless(self, expr: Expr, before: list[Stmt]) -> Expr:
        """The expression without names. Statements that store the named values are appended to `before`."""

        def let(node: prim.Let) -> Expr:
            before.append(self._kept(node.var, self._nameless(node.value, before)))
            return self._nameless(node.body, before)

        def choice(node: Call) -> Expr:
            if getattr(node.op, "name", "") != "prim.if_then_else" or not any(map(_names, node.args[1:])):
                return node
            result = self._buffer("chosen", node)
            cases = []
            for arg in node.args[1:]:
                case: list[Stmt] = []
                value = self._nameless(arg, case)
                store = BufferStore(result, value, [_ZERO])
                cases.append(SeqStmt([*case, store]) if case else store)
            condition = self._nameless(node.args[0], before)
            before.append(IfThenElse(condition, *cases))
            return tirx.BufferLoad(result, [_ZERO])

        return tvm_ffi.structural_map(expr, [(prim.Let, let), (Call, choice)], order="pre")


def _names(expr: Expr) -> bool:
    """Whether an expression names a value."""
    return tvm_ffi.structural_walk(expr, (prim.Let, lambda _: VisitInterrupt(None))) is not None
