"""Which expressions are expensive enough to be stored."""

from __future__ import annotations

from tvm import ir

from deploykit.compiler.tir.rewriting import Expr, call_name, collect

_CHEAP_CALLS = frozenset(
    {"if_then_else", "likely", "fabs", "reinterpret", "floor", "ceil", "trunc", "sqrt", "maximum", "minimum"}
)


def is_heavy(value: Expr) -> bool:
    """Whether evaluating `value` twice costs more than storing and loading it."""
    return any(call_name(call) not in _CHEAP_CALLS for call in collect(value, ir.Call))
