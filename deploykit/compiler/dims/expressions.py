"""The type of integer expressions over symbolic dims."""

from __future__ import annotations

from typing import TypeAlias

from tvm import ir

IntExpr: TypeAlias = int | ir.Expr
"""A TVM expression of dtype int64, or a Python int where static."""
