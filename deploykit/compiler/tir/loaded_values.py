"""Which values depend on the contents of buffers.

Such a value can be any number, unlike an index that the compiler computed. So arithmetic on it must not overflow, trap
or otherwise be undefined. Sizes that a kernel before has computed from checked ones are an exception: `stored_size`
marks a load of one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import tvm_ffi
from tvm import tirx
from tvm.ir import Call, TensorLoad, Var, register_op_attr
from tvm.tirx import Bind
from tvm_ffi import VisitInterrupt, WalkResult

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from tvm.ir import Expr
    from tvm.tirx import Stmt


STORED_SIZE = "tirx.stored_size"
"""An operator that gives its operand, the load of an int64 that is known to be a size."""

_READS_STATE = 2
"""TVM's `CallEffectKind`: a value that is named is not copied to its uses."""

register_op_attr(STORED_SIZE, "TCallEffectKind", _READS_STATE)
register_op_attr(STORED_SIZE, "TScriptPrinterName", STORED_SIZE.removeprefix("tirx."))


def stored_size(load: Expr) -> Expr:
    """The value of `load`, which is a size or an index that was computed from checked sizes."""
    return tirx.call_intrin("int64", STORED_SIZE, load)


def depends_on_memory(expr: Expr, from_memory: AbstractSet[Var]) -> bool:
    """Whether `expr` loads from a buffer, other than a stored size, or uses one of the variables in `from_memory`."""

    def call(node: Call) -> WalkResult | None:
        return WalkResult.SKIP if getattr(node.op, "name", "") == STORED_SIZE else None

    def load(_: TensorLoad) -> VisitInterrupt:
        return VisitInterrupt(None)

    def var(node: Var) -> VisitInterrupt | None:
        return VisitInterrupt(None) if node in from_memory else None

    visitors = [(Call, call), (TensorLoad, load), (Var, var)]
    return tvm_ffi.structural_walk(expr, visitors, order="pre") is not None


def bound_to_memory(body: Stmt) -> set[Var]:
    """The variables bound in a body whose values depend on memory."""
    found: set[Var] = set()

    def visit(bind: Bind) -> None:
        if depends_on_memory(bind.value, found):
            found.add(bind.var)

    tvm_ffi.structural_walk(body, (Bind, visit), order="pre")
    return found
