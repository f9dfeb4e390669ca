"""Looking for parts of TIR expressions and statements, and putting others in their place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import tvm_ffi
from tvm import ir, tirx

Expr: TypeAlias = Any


Buffer: TypeAlias = Any


def collect(node: Any, kinds: type | tuple[type, ...]) -> list[Any]:
    """Every occurrence of nodes of `kinds` in `node`, in post order."""
    found: list[Any] = []
    tvm_ffi.structural_walk(node, (kinds, found.append))
    return found


def call_name(call: Any) -> str:
    """The operator of a call, without its dialect: `exp`, `if_then_else`; empty for a call of a function."""
    return str(getattr(call.op, "name", "")).rpartition(".")[2]


def substitute(node: Any, values: Mapping[ir.Var, Expr]) -> Any:
    """`node` with variables replaced."""
    if not values:
        return node
    return tvm_ffi.structural_map(node, (ir.Var, lambda var: values.get(var, var)))


def replace_loads(node: Any, rewrite: Callable[[Any], Any]) -> Any:
    """`node` with every buffer load `l` replaced by `rewrite(l)`."""
    return tvm_ffi.structural_map(node, (ir.TensorLoad, rewrite))


def sequence(statements: Sequence[Any]) -> Any:
    """One statement that runs `statements` in order."""
    if len(statements) == 1:
        return statements[0]
    return tirx.SeqStmt(list(statements)) if statements else tirx.Evaluate(tirx.const(0, "int32"))


def is_zero(value: Expr) -> bool:
    return isinstance(value, tirx.IntImm) and int(value) == 0
