"""Rewrites lowered loop nests (flat buffers, no blocks left) to give a kernel its ABI.

* `split_parallel`: the outermost parallel loop runs over `[begin, end)`; other parallel loops become serial.
* `lift_workspaces`: large or symbolic allocations become buffer params. In the outermost parallel loop, each iteration
  has its own part of the param.
* `drop_unread`: removes allocations that are only written, and their stores. They remain when a branch is simplified
  away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import Call, TensorLoad, Var
from tvm.tirx import AllocBuffer, AttrStmt, Bind, BufferStore, DeclBuffer, For, ForKind, SeqStmt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tvm.ir import Expr
    from tvm.tirx import Stmt

Node = TypeVar("Node")

_DIVISIONS = (tirx.Div, tirx.Mod, tirx.FloorDiv, tirx.FloorMod)


@dataclass(frozen=True)
class ParallelLoop:
    """The outermost parallel loop of a kernel. A call runs the iterations `[begin, end)` out of `extent`."""

    loop: For
    extent: Expr
    begin: Var
    end: Var


def variables(node: Any) -> list[Var]:
    """The scalar variables of a node, in order of first appearance."""
    found: list[Var] = []

    def visit(var: Var) -> None:
        if not tirx.is_buffer_var(var) and not any(var.same_as(known) for known in found):
            found.append(var)

    tvm_ffi.structural_walk(node, (Var, visit))
    return found


def inline_binds(node: Node, binds: Sequence[Bind]) -> Node:
    """`node` with the variables of `binds` replaced by their values; later binds may use earlier ones."""
    for bind in reversed(binds):
        node = tvm_ffi.structural_map(node, (Var, lambda v, b=bind: b.value if v.same_as(b.var) else v))
    return node


def all_binds(body: Stmt) -> list[Bind]:
    """Every bind of a body, in program order."""
    found: list[Bind] = []
    tvm_ffi.structural_walk(body, (Bind, found.append), order="pre")
    return found


def find_parallel(body: Stmt) -> ParallelLoop | None:
    """The outermost parallel loop if it is all that the function does, apart from binds and declarations around it.

    Otherwise the work cannot be split, and the result is None.
    """
    loop = _only_loop(body)
    if loop is None or loop.kind != ForKind.PARALLEL:
        return None
    extent = tvm.sym.Analyzer().simplify(inline_binds(loop.extent, all_binds(body)).astype("int64"))
    return ParallelLoop(loop, extent, Var("begin", "int64"), Var("end", "int64"))


def _only_loop(stmt: Stmt) -> For | None:
    if isinstance(stmt, For):
        return stmt
    if isinstance(stmt, AttrStmt):
        return _only_loop(stmt.body)
    if isinstance(stmt, SeqStmt):
        acting = [s for s in stmt if not isinstance(s, Bind | DeclBuffer | AllocBuffer)]
        return _only_loop(acting[0]) if len(acting) == 1 else None
    return None


def split_parallel(body: Stmt, parallel: ParallelLoop | None) -> Stmt:
    """The body, with the loop of `parallel` over `[begin, end)` and all other parallel loops serial."""

    def serial(loop: For) -> For:
        if loop.kind != ForKind.PARALLEL:
            return loop
        first, extent = loop.min, loop.extent
        if parallel is not None and loop.loop_var.same_as(parallel.loop.loop_var):
            first, last = (bound.astype(str(loop.loop_var.ty.dtype)) for bound in (parallel.begin, parallel.end))
            extent = last - first
        return For(loop.loop_var, first, extent, ForKind.SERIAL, loop.body, None, loop.annotations, loop.step)

    return tvm_ffi.structural_map(body, (For, serial))


def lift_workspaces(body: Stmt, limit: int, parallel: ParallelLoop | None) -> tuple[Stmt, list[Var]]:
    """Move allocations above `limit` bytes, or of symbolic size, out of the body. Returns the new buffer params,
    too."""
    lifted: list[Var] = []
    binds = all_binds(body)

    def shared(alloc: AllocBuffer) -> Stmt:
        if _fits(alloc.buffer, limit):
            return alloc
        whole = _workspace(alloc.buffer, _elements(alloc.buffer, binds))
        lifted.append(whole)
        return DeclBuffer(alloc.buffer, data=whole.data)

    def own(alloc: AllocBuffer) -> Stmt:
        if parallel is None or _fits(alloc.buffer, limit):
            return alloc
        elements = _elements(alloc.buffer, binds)
        whole = _workspace(alloc.buffer, parallel.extent * elements)
        lifted.append(whole)
        start = Bind(Var("start", "int64"), parallel.loop.loop_var.astype("int64") * elements)
        return SeqStmt([start, DeclBuffer(alloc.buffer, data=tirx.address_of(whole[start.var]))])

    def inside(loop: For) -> For:
        if parallel is None or not loop.loop_var.same_as(parallel.loop.loop_var):
            return loop
        inner = tvm_ffi.structural_map(loop.body, (AllocBuffer, own))
        return For(loop.loop_var, loop.min, loop.extent, loop.kind, inner, None, loop.annotations, loop.step)

    body = tvm_ffi.structural_map(body, (For, inside))
    return tvm_ffi.structural_map(body, (AllocBuffer, shared)), lifted


def drop_unread(body: Stmt) -> Stmt:
    """The body without the allocations that nothing reads."""
    allocated: list[Var] = []
    read: set[Var] = set()

    def allocate(alloc: AllocBuffer) -> None:
        allocated.append(alloc.buffer)

    def load(node: TensorLoad) -> None:
        read.add(node.source)

    def call(node: Call) -> None:
        read.update(arg for arg in node.args if isinstance(arg, Var))

    tvm_ffi.structural_walk(body, [(AllocBuffer, allocate), (TensorLoad, load), (Call, call)])
    dead = {buffer for buffer in allocated if buffer not in read}
    if not dead:
        return body

    def without(stmt: AllocBuffer | BufferStore) -> Stmt:
        return tirx.Evaluate(tirx.const(0, "int32")) if stmt.buffer in dead else stmt

    return drop_unread(tvm_ffi.structural_map(body, ((AllocBuffer, BufferStore), without)))


def _workspace(buffer: Var, elements: Expr) -> Var:
    size = tvm.sym.Analyzer().simplify(_defined(elements))
    return tirx.decl_buffer((size,), str(buffer.ty.dtype), buffer.name)


def _defined(size: Expr) -> Expr:
    """`size` without divisions by zero. It is computed even if the code that allocates the buffer does not run, for
    instance a loop over no panels, whose body takes for granted that there is one."""

    def by_one_at_least(node: Any) -> Any:
        divisor = node.b
        if isinstance(divisor, tirx.IntImm):
            return node
        return type(node)(node.a, tirx.max(divisor, tirx.const(1, str(divisor.ty.dtype))))

    defined: Expr = tvm_ffi.structural_map(size, (_DIVISIONS, by_one_at_least))
    return defined


def _elements(buffer: Var, binds: Sequence[Bind]) -> Expr:
    elements: Expr = tirx.const(1, "int64")
    for extent in buffer.ty.shape:
        elements = elements * inline_binds(extent, binds).astype("int64")
    return elements


def _fits(buffer: Var, limit: int) -> bool:
    size = (tvm.DataType(str(buffer.ty.dtype)).bits + 7) // 8
    for extent in buffer.ty.shape:
        if not isinstance(extent, tirx.IntImm):
            return False
        size *= int(extent)
    return bool(size <= limit)
