"""How the check of a tensor of indices is represented in Relax.

    deploykit.check_indices(indices, [minimum, maximum, ...], what) -> indices

is a pure packed call, which passes treat as opaque. It returns the indices to the kernel that uses them. So the check
comes before that kernel, moves with it into a branch, and disappears if nobody reads the result. Element `i` is checked
against pair `i % pairs` of the inclusive bounds; an error names `what`.

A check that memory depends on, such as that of lengths, is `deploykit.check_sizes`: it stays if checks of indices are
not asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tvm import ir, relax

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr

CHECK, REQUIRED = "deploykit.check_indices", "deploykit.check_sizes"

LONGEST_NAME = 40
"""The most characters of a name in `what`, so that an error's text has room for the numbers after it."""


def check(
    indices: relax.Expr, bounds: Sequence[tuple[IntExpr, IntExpr]], what: str, *, required: bool = False
) -> relax.Call:
    """The call that checks `indices`."""
    flat = relax.ShapeExpr([bound for pair in bounds for bound in pair])
    return relax.call_pure_packed(
        REQUIRED if required else CHECK, indices, flat, ir.StringImm(what), ty_args=[indices.ty]
    )


def shortened(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 3]}..."


def is_check(value: object) -> bool:
    """Whether `value` is such a call."""
    return _called(value) in (CHECK, REQUIRED)


def _called(value: object) -> str:
    """The packed function that `value` calls; empty if it calls none."""
    if not isinstance(value, relax.Call) or getattr(value.op, "name", "") != "relax.call_pure_packed":
        return ""
    return str(value.args[0].global_symbol) if isinstance(value.args[0], relax.ExternFunc) else ""


def checked_bounds(call: relax.Call) -> tuple[tuple[IntExpr, IntExpr], ...]:
    """The bounds of a check, pair by pair."""
    flat = list(call.args[2].values)
    return tuple(zip(flat[::2], flat[1::2], strict=True))


def without_checks(module: ir.IRModule) -> ir.IRModule:
    """`module`, with every check of indices replaced by the indices."""
    functions = {
        gvar: _Without().visit_expr(func) if isinstance(func, relax.Function) else func
        for gvar, func in module.functions.items()
    }
    return ir.IRModule(functions, attrs=module.attrs)


@relax.expr_functor.mutator
class _Without(relax.PyExprMutator):  # type: ignore[misc]
    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = super().visit_call_(call)
        return call.args[1] if _called(call) == CHECK else call
