"""How a kernel accesses its buffers: only in aligned vectors, or only at constant indices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import TensorLoad, Var
from tvm.ir.prim import expr as prim

from deploykit.compiler.tir.loaded_values import depends_on_memory

if TYPE_CHECKING:
    from tvm.ir import Expr


class Accesses:
    """The accesses of a kernel, in vectors of `lanes` elements."""

    def __init__(self, func: tirx.PrimFunc, lanes: int) -> None:
        self._lanes = lanes
        self._indices: dict[Var, list[Expr]] = {}
        known = tvm.sym.Analyzer()
        origins: dict[Var, Var] = {}

        def declare(stmt: tirx.DeclBuffer) -> None:
            data = stmt.data
            source = data if isinstance(data, Var) else data.args[0]
            if isinstance(source, Var):
                origins[stmt.buffer] = origins.get(source, source)

        def bind(stmt: tirx.Bind) -> None:
            if str(stmt.var.ty.dtype).partition("x")[0] in ("int32", "int64") and not depends_on_memory(
                stmt.value, set()
            ):
                known.bind(stmt.var, stmt.value, allow_override=True)

        tvm_ffi.structural_walk(func.body, [(tirx.DeclBuffer, declare), (tirx.Bind, bind)], order="pre")

        def note(buffer: Var, index: Expr) -> None:
            self._indices.setdefault(origins.get(buffer, buffer), []).append(index)

        tvm_ffi.structural_walk(
            func.body,
            [
                (TensorLoad, lambda load: note(load.source, load.indices[0])),
                (tirx.BufferStore, lambda store: note(store.buffer, store.indices[0])),
            ],
        )
        self._known = known

    def in_vectors(self, buffer: Var, lanes: int | None = None) -> bool:
        """Whether all accesses of the buffer are aligned vectors of `lanes` elements, by default those of the class."""
        return all(self._aligned(index, lanes or self._lanes) for index in self._indices.get(buffer, [None]))

    def _aligned(self, index: Expr | None, lanes: int) -> bool:
        if not isinstance(index, tirx.Ramp) or not isinstance(index.stride, prim.IntImm) or int(index.stride) != 1:
            return False
        found = self._known.modular_set(index.base)
        return int(index.lanes) == lanes and int(found.coeff) % lanes == 0 and int(found.base) % lanes == 0

    def has_vectors(self, buffer: Var) -> bool:
        return any(isinstance(index, tirx.Ramp) for index in self._indices.get(buffer, []))

    def constant(self, buffer: Var) -> bool:
        """Whether every access is at a constant index; a vector must be at a multiple of its length."""

        def known(index: Expr) -> bool:
            if isinstance(index, tirx.Ramp):
                return self._aligned(index, self._lanes) and isinstance(index.base, prim.IntImm)
            return isinstance(index, prim.IntImm)

        return all(map(known, self._indices.get(buffer, [])))
