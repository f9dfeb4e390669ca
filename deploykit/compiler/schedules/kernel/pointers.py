"""Calls of functions in C, and the addresses that they are given."""

from __future__ import annotations

from tvm import tirx

from deploykit.compiler.schedules.kernel.loops import local
from deploykit.compiler.tir.rewriting import Buffer, Expr
from deploykit.compiler.tir.values import const, dtype_of


def run(name: str, *operands: Expr) -> tirx.Stmt:
    """A call of a function that writes to memory."""
    return tirx.Evaluate(tirx.call_extern("int32", name, *operands))


def address(buffer: Buffer, offset: Expr) -> Expr:
    """The address of an element of a flat buffer. For a local buffer it says that elements behind it are not used: pass
    the buffer itself, or a `pointer`."""
    return tirx.address_of(tirx.BufferLoad(buffer, [offset]))


def pointer(name: str, buffer: Buffer, offset: Expr) -> tuple[Buffer, list[tirx.Stmt]]:
    """The part of a buffer from `offset` on, and the statements that declare it. The offset is stored, because passes
    that name common parts of expressions do not look into declarations."""
    view, start = local(name, 1, dtype_of(buffer)), local(f"{name}_start", 1, "int64")
    at = tirx.BufferLoad(start, [const(0)])
    declared = tirx.DeclBuffer(view, data=tirx.address_of(tirx.BufferLoad(buffer, [at])))
    return view, [tirx.AllocBuffer(start), tirx.BufferStore(start, offset, [const(0)]), declared]
