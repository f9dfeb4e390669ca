"""Neighbouring elements by one call of a function in C for each operation on all of them (`codegen.c.rvv_strips`),
where the store of an element has a form for all lanes (`lanes`). Values in between are in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tvm import ir, tirx

from deploykit.compiler.schedules.kernel.loops import local
from deploykit.compiler.schedules.kernel.pointers import run
from deploykit.compiler.schedules.pointwise.lanes import stored
from deploykit.compiler.tir.rewriting import Buffer, Expr, sequence, substitute
from deploykit.compiler.tir.values import as_index, const, dtype_of

SUFFIX = "_rvv"
"""The end of the names of functions."""

_DTYPES = {"f32": "float32", "i32": "int32"}
_SWAPPED = {"sub_f32": "from_f32", "sub_i32": "from_i32"}
"""What an operation is called whose first operand is the same in all lanes; sums and products stay what they are."""


def in_strips(count: Expr, most: int, store: Callable[[Expr], tirx.BufferStore]) -> tirx.Stmt | None:
    """`store(i)` for `count` neighbouring elements, at most `most`, or `None` if these have no such form."""
    index = ir.Var("j", "int64")
    form = _Strips(index, as_index(count), most)
    return stored(index, store(index), form)


@dataclass(frozen=True)
class _Strip:
    """Values: those at an address, in a buffer of ours if there is one, or one that all lanes have."""

    at: Expr | None = None
    own: Buffer | None = None
    same: Expr | None = None


class _Strips:
    """Collects calls that write strips of `count` values."""

    def __init__(self, index: ir.Var, count: Expr, most: int) -> None:
        self.index, self.count, self.most = index, count, most
        self.buffers: list[Buffer] = []
        self.free: list[Buffer] = []
        self.calls: list[tuple[str, Buffer, tuple[Expr, ...]]] = []

    def same(self, kind: str, element: Expr) -> _Strip:  # noqa: ARG002 - the element has it
        return _Strip(same=element)

    def load(self, kind: str, first: ir.TensorLoad) -> _Strip:
        if kind in _DTYPES:
            return _Strip(at=self._address(first))
        return self._called(f"load_{kind}", "i32", self._address(first))

    def apply(self, operation: str, *operands: _Strip) -> _Strip:
        kind = "f32" if operation == "float_i32" or operation.endswith("f32") else "i32"
        kind = "i32" if operation == "round_f32" else kind
        first, *others = operands
        if first.same is not None and others:
            first, others = others[0], [first]
            operation = _SWAPPED.get(operation, operation)
        given = [operand.at for operand in (first, *others) if operand.at is not None]
        self.free += [operand.own for operand in (first, *others) if operand.own is not None]
        if others and others[0].same is not None:
            return self._called(f"{operation}_same", kind, *given, others[0].same)
        return self._called(operation, kind, *given)

    def store(self, kind: str, first: ir.TensorLoad, value: _Strip) -> tirx.Stmt:
        target, calls = self._address(first), self.calls
        if value.same is not None:
            end = self._run(f"fill_{kind}", target, value.same)
        elif value.own is not None and kind in _DTYPES:
            *calls, (name, _, operands) = calls
            end = self._run(name, target, *operands)
        else:
            assert value.at is not None
            end = self._run(f"store_{kind}", target, value.at)
        steps = [self._run(name, buffer, *operands) for name, buffer, operands in calls]
        return sequence([*map(tirx.AllocBuffer, self.buffers), *steps, end])

    def _called(self, name: str, kind: str, *operands: Expr) -> _Strip:
        """The values that a function writes, to a buffer whose values are no longer needed if there is one."""
        found = [buffer for buffer in self.free if dtype_of(buffer) == _DTYPES[kind]]
        if found:
            buffer = found[0]
            self.free = [other for other in self.free if not other.same_as(buffer)]
        else:
            buffer = local("strip", self.most, _DTYPES[kind])
            self.buffers.append(buffer)
        self.calls.append((name, buffer, operands))
        return _Strip(at=buffer, own=buffer)

    def _run(self, name: str, *operands: Expr) -> tirx.Stmt:
        return run(f"{name}{SUFFIX}", *operands, self.count)

    def _address(self, first: ir.TensorLoad) -> Expr:
        return tirx.address_of(substitute(first, {self.index: const(0)}))
