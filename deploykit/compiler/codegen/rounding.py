"""Numbers that are rounded to an integer within known bounds, for which there is less to do."""

from __future__ import annotations

from tvm import tirx
from tvm.ir.prim import expr as prim

from deploykit.compiler.tir.rewriting import Expr


def rounded_within(value: Expr, limit: float) -> bool:
    """Whether `value` is `nearbyint` of a value that is clamped to constants of magnitude up to `limit` and is not
    NaN."""
    if getattr(getattr(value, "op", None), "name", "") != "tirx.nearbyint":
        return False
    upper = value.args[0]
    lower = upper.a if isinstance(upper, prim.Min) else None
    if not isinstance(lower, prim.Max):
        return False
    bounds = [bound.value if isinstance(bound, prim.Broadcast) else bound for bound in (upper.b, lower.b)]
    return all(isinstance(bound, tirx.FloatImm) and abs(bound.value) <= limit for bound in bounds)
