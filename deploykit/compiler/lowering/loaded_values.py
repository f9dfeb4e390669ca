"""Which values depend on the contents of buffers.

Such a value can be any number, unlike an index that the compiler computed. So arithmetic on it must not overflow, trap
or otherwise be undefined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import tvm_ffi
from tvm.ir import TensorLoad, Var
from tvm.tirx import Bind
from tvm_ffi import VisitInterrupt

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from tvm.ir import Expr
    from tvm.tirx import Stmt


def depends_on_memory(expr: Expr, from_memory: AbstractSet[Var]) -> bool:
    """Whether `expr` loads from a buffer or uses one of the variables in `from_memory`."""

    def load(_: TensorLoad) -> VisitInterrupt:
        return VisitInterrupt(None)

    def var(node: Var) -> VisitInterrupt | None:
        return VisitInterrupt(None) if node in from_memory else None

    return tvm_ffi.structural_walk(expr, [(TensorLoad, load), (Var, var)]) is not None


def bound_to_memory(body: Stmt) -> set[Var]:
    """The variables bound in a body whose values depend on memory."""
    found: set[Var] = set()

    def visit(bind: Bind) -> None:
        if depends_on_memory(bind.value, found):
            found.add(bind.var)

    tvm_ffi.structural_walk(body, (Bind, visit), order="pre")
    return found
