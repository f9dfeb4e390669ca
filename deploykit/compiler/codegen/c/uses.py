"""Which buffers a kernel's body writes to, and which variables it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tvm_ffi
from tvm.ir import Call, TensorLoad, Var
from tvm.tirx import AllocBuffer, Bind, BufferStore, DeclBuffer, Evaluate

from deploykit.compiler.codegen.c import helium, helium_floats, rvv, rvv_floats, rvv_strips, vectors, words

_WRITERS = (
    helium.NAMES | helium_floats.NAMES | rvv.NAMES | rvv_floats.NAMES | rvv_strips.NAMES | vectors.NAMES | words.WRITERS
)
"""Functions that write through their first pointer only."""

if TYPE_CHECKING:
    from tvm.ir import Expr
    from tvm.tirx import Stmt
    from tvm_ffi import StructuralVisitor


def used_variables(body: Stmt) -> set[Var]:
    """The variables that a statement needs, also through binds. A variable that occurs only in the shape of a buffer is
    not needed."""
    uses: dict[Var | None, list[Var]] = {None: []}
    user: Var | None = None

    def var(node: Var, _: StructuralVisitor) -> None:
        uses[user].append(node)

    def bind(stmt: Bind, visitor: StructuralVisitor) -> None:
        nonlocal user
        uses[stmt.var] = []
        user = stmt.var
        visitor.visit(stmt.value)
        user = None

    def declare(stmt: DeclBuffer, visitor: StructuralVisitor) -> None:
        visitor.visit(stmt.data)

    def allocate(_: AllocBuffer, __: StructuralVisitor) -> None:
        return

    rules: list[tuple[type, Any]] = [(Var, var), (Bind, bind), (DeclBuffer, declare), (AllocBuffer, allocate)]
    tvm_ffi.structural_visit(body, rules)
    used: set[Var] = set()
    pending = uses[None]
    while pending:
        node = pending.pop()
        if node not in used:
            used.add(node)
            pending.extend(uses.get(node, ()))
    return used


def written_buffers(body: Stmt) -> set[Var]:
    """Buffers and pointers that the body writes through, also under another name for the same memory."""
    written: set[Var] = set()
    declarations: list[DeclBuffer] = []

    def store(stmt: BufferStore) -> None:
        written.add(stmt.buffer)

    def evaluate(stmt: Evaluate) -> None:
        written.update(_passed(stmt))

    tvm_ffi.structural_walk(
        body, [(BufferStore, store), (Evaluate, evaluate), (DeclBuffer, declarations.append)], order="pre"
    )
    for declaration in reversed(declarations):
        if declaration.buffer in written:
            written.add(_origin(declaration.data))
    return written


def _passed(stmt: Evaluate) -> list[Var]:
    """Buffers whose address is handed to an external function that may write there. Operations of LLVM, such as a
    prefetch, only read."""
    call = stmt.value
    if not isinstance(call, Call) or getattr(call.op, "name", "").startswith("tirx.call_llvm"):
        return []
    passed = [_origin(arg) for arg in call.args if isinstance(arg, Var) or (isinstance(arg, Call) and arg.args)]
    return passed[:1] if passed and getattr(call.args[0], "value", None) in _WRITERS else passed


def _origin(data: Expr) -> Var:
    """The buffer or pointer that an address is in."""
    if isinstance(data, Var):
        return data
    source = data.args[0]
    return source.source if isinstance(source, TensorLoad) else source
