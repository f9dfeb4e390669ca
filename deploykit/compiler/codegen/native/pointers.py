"""Loads of an inner loop through pointers, for CPUs whose loads add a constant to an address.

In the body of an innermost loop, loads of one buffer whose indices differ by constants

    a[p] ... a[p + 768] ... a[p + 1536]

go through a view that begins at the lowest of them, `v = &a[p]`, as `v[0]`, `v[768]`, `v[1536]`. LLVM cannot see how
the pointer is computed, so it keeps the pointer in a register and the constants in the loads. WebAssembly adds such a
constant without wrapping around, but LLVM cannot prove that its own sums of pointers and constants do not wrap. Each
such sum would take an instruction, and their order would keep more values alive than there are registers. The lowest
index is one that is read whenever the pointer is made, so it lies within the buffer.

LLVM treats a view as separate memory. In a function that writes memory that it also reads through a view, all memory
therefore counts as one.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import Call, Expr, TensorLoad, Var
from tvm.ir.prim import expr as prim
from tvm.tirx import AllocBuffer, Bind, BufferStore, DeclBuffer, Evaluate, For, SeqStmt, Stmt

Terms = frozenset[tuple[int, int]]
"""The variable part of an index: the numbers of its atoms, each with a factor."""

Place = tuple[Any, Terms]
"""A buffer, and the variable part of an index into it."""


def viewed(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function, with the loads of its inner loops going through views."""
    taken: set[Any] = set()
    memory = _Memory(func.body)

    def inside(loop: For) -> For:
        inner = loop.body if _found(loop.body, For) else _Body(loop.body, memory).with_views(taken)
        return For(loop.loop_var, loop.min, loop.extent, loop.kind, inner, None, loop.annotations, loop.step)

    def shared(alloc: AllocBuffer) -> Stmt:
        return _shared(alloc) if memory.of(alloc.buffer) in taken else alloc

    body = tvm_ffi.structural_map(func.body, (For, inside))
    if taken.isdisjoint(memory.written(func.body)):
        return tirx.PrimFunc(func.params, body, func.ret_type, func.attrs)
    body = tvm_ffi.structural_map(body, [(AllocBuffer, shared), (DeclBuffer, _shared_param)])
    return tirx.PrimFunc(func.params, body, func.ret_type, func.attrs).with_attr("tirx.noalias", False)


def _found(node: Any, kind: type) -> list[Any]:
    nodes: list[Any] = []
    tvm_ffi.structural_walk(node, (kind, nodes.append))
    return nodes


def _name(call: Call) -> str:
    return getattr(call.op, "name", "")


def _source(data: Expr) -> Any:
    """The buffer or variable that a pointer points into."""
    while isinstance(data, Call | TensorLoad):
        data = data.args[0] if isinstance(data, Call) else data.source
    return data


class _Memory:
    """Which buffers are the same memory: buffers that are declared over another one."""

    def __init__(self, body: Stmt) -> None:
        self._under = {declared.buffer: _source(declared.data) for declared in _found(body, DeclBuffer)}

    def of(self, buffer: Any) -> Any:
        while buffer in self._under:
            buffer = self._under[buffer]
        return buffer

    def stored(self, body: Stmt) -> set[Any]:
        return {self.of(store.buffer) for store in _found(body, BufferStore)}

    def written(self, body: Stmt) -> set[Any]:
        """The memory that is stored to, or passed to functions, which may write to it."""
        calls = [stmt.value for stmt in _found(body, Evaluate) if isinstance(stmt.value, Call)]
        given = [call for call in calls if _name(call) != "tirx.call_llvm_intrin"]
        read = {load.source for call in given for load in _found(call, TensorLoad)}
        return {self.of(var) for var in read.union(*(_found(call, Var) for call in given))} | self.stored(body)


def _shared_param(declared: DeclBuffer) -> Stmt:
    """The declaration of a parameter's buffer, by a pointer that LLVM does not tell from other memory."""
    if not isinstance(declared.data, Var) or tirx.is_buffer_var(declared.data):
        return declared
    here = tirx.handle_add_byte_offset(declared.data, 0)
    return DeclBuffer(declared.buffer, data=here)


def _shared(alloc: AllocBuffer) -> Stmt:
    """An allocation that LLVM does not tell from other memory."""
    whole = tirx.decl_buffer(alloc.buffer.ty.shape, str(alloc.buffer.ty.dtype), f"{alloc.buffer.name}_memory")
    return SeqStmt([AllocBuffer(whole), DeclBuffer(alloc.buffer, data=_address(whole, tirx.const(0, "int64")))])


def _address(buffer: Any, place: Expr) -> Expr:
    return tirx.address_of(tirx.BufferLoad(buffer, [place]))


class _Body:
    """The body of an innermost loop."""

    def __init__(self, body: Stmt, memory: _Memory) -> None:
        self._body, self._memory = body, memory
        self._statements = list(body) if isinstance(body, SeqStmt) else [body]
        self._binds = {bind.var: bind.value for bind in self._statements if isinstance(bind, Bind)}
        self._stored = memory.stored(body)
        self._atoms: list[Expr] = []
        self._numbers: dict[int, list[int]] = {}

    def with_views(self, taken: set[Any]) -> Stmt:
        """The body, with views where they help. The memory that is read through views is added to `taken`."""
        groups: dict[Place, list[tuple[int, int, Expr]]] = {}
        for number, stmt in enumerate(self._statements):
            for load in self._loads(stmt):
                terms, constant = self._place(_first(load))
                groups.setdefault((load.source, terms), []).append((constant, number, _first(load)))
        views: dict[Place, tuple[Any, int]] = {}
        declared: dict[int, list[Stmt]] = {}
        for place, group in groups.items():
            constants = [constant for constant, _, _ in group]
            lowest, highest = min(constants), max(constants)
            if lowest == highest:
                continue
            buffer, (constant, number, index) = place[0], group[0]
            view = tirx.decl_buffer((highest - lowest + 1,), str(buffer.ty.dtype), f"{buffer.name}_here")
            pointer = _address(buffer, index - (constant - lowest))
            hidden = tirx.call_llvm_pure_intrin("handle", "llvm.strip.invariant.group", pointer)
            declared.setdefault(number, []).append(DeclBuffer(view, data=hidden))
            views[place] = (view, lowest)
            taken.add(self._memory.of(buffer))
        if not views:
            return self._body
        changed = [self._through(stmt, views) for stmt in self._statements]
        return SeqStmt([part for number, stmt in enumerate(changed) for part in (*declared.get(number, ()), stmt)])

    def _loads(self, stmt: Stmt) -> list[Any]:
        """The loads of a statement that run whenever the body does, with indices that are known before the body
        runs."""
        if not isinstance(stmt, BufferStore | Bind) or any(map(_conditional, _found(stmt, Call))):
            return []
        own = {let.var for let in _found(stmt, prim.Let)}
        return [load for load in _found(stmt, TensorLoad) if _is_row(load) and self._is_known(_first(load), own)]

    def _is_known(self, index: Expr, own: set[Var]) -> bool:
        """Whether an index varies, but depends neither on what the body stores nor on the `own` variables of a
        statement."""
        terms, _ = self._place(index)
        atoms = [self._atoms[number] for number, _ in terms]
        read = {self._memory.of(load.source) for atom in atoms for load in _found(atom, TensorLoad)}
        return bool(terms) and self._stored.isdisjoint(read) and own.isdisjoint(_found(index, Var))

    def _through(self, stmt: Stmt, views: dict[Place, tuple[Any, int]]) -> Stmt:
        def load(found: Any) -> Any:
            if not _is_row(found):
                return found
            terms, constant = self._place(_first(found))
            view, lowest = views.get((found.source, terms), (None, 0))
            if view is None:
                return found
            at = tirx.const(constant - lowest, "int64")
            index = found.indices[0]
            return tirx.BufferLoad(view, [tirx.Ramp(at, 1, index.lanes) if isinstance(index, tirx.Ramp) else at])

        return tvm_ffi.structural_map(stmt, (TensorLoad, load)) if self._loads(stmt) else stmt

    def _place(self, index: Expr) -> tuple[Terms, int]:
        """The variable and the constant part of an index."""
        found: dict[int, int] = {}
        constant = self._add(index, 1, found)
        return frozenset((atom, factor) for atom, factor in found.items() if factor), constant

    def _add(self, expr: Expr, factor: int, found: dict[int, int]) -> int:
        """Add the atoms of an index to `found`; returns the constant part."""
        if isinstance(expr, tirx.IntImm):
            return factor * int(expr)
        if isinstance(expr, Var) and expr in self._binds:
            return self._add(self._binds[expr], factor, found)
        if isinstance(expr, prim.Add | prim.Sub):
            other = factor if isinstance(expr, prim.Add) else -factor
            return self._add(expr.a, factor, found) + self._add(expr.b, other, found)
        if isinstance(expr, prim.Mul) and isinstance(expr.b, tirx.IntImm):
            return self._add(expr.a, factor * int(expr.b), found)
        atom = self._atom(expr)
        found[atom] = found.get(atom, 0) + factor
        return 0

    def _atom(self, expr: Expr) -> int:
        same: list[int] = self._numbers.setdefault(tvm_ffi.structural_hash(expr), [])
        for number in same:
            if tvm_ffi.structural_equal(self._atoms[number], expr):
                return number
        self._atoms.append(expr)
        same.append(len(self._atoms) - 1)
        return same[-1]


def _conditional(call: Call) -> bool:
    return _name(call) == "prim.if_then_else"


def _is_row(load: Any) -> bool:
    """Whether a load is of one element, or of contiguous elements."""
    index = load.indices[-1]
    if isinstance(index, tirx.Ramp):
        return len(load.indices) == 1 and isinstance(index.stride, tirx.IntImm) and int(index.stride) == 1
    return len(load.indices) == 1 and "x" not in str(index.ty.dtype)


def _first(load: Any) -> Expr:
    """The index of the first element of a load."""
    index = load.indices[-1]
    return index.base if isinstance(index, tirx.Ramp) else index
