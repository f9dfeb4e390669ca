"""Finds and replaces parts of TIR expressions and statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar, overload

import tvm_ffi
from tvm import ir, tirx

Expr: TypeAlias = ir.Expr
"""An expression of one value, or of a vector."""

Buffer: TypeAlias = tirx.Buffer
"""A variable that is a buffer."""

Node = TypeVar("Node")


@overload
def collect(node: object, kinds: type[Node]) -> list[Node]: ...


@overload
def collect(node: object, kinds: tuple[type, ...]) -> list[Any]: ...


def collect(node: object, kinds: type | tuple[type, ...]) -> list[Any]:
    """All nodes of `kinds` in `node`, in post order."""
    found: list[Any] = []
    tvm_ffi.structural_walk(node, (kinds, found.append))
    return found


def call_name(call: ir.Call) -> str:
    """The operator of a call without its dialect, such as `exp` or `if_then_else`; empty for a call of a function."""
    return str(getattr(call.op, "name", "")).rpartition(".")[2]


def substitute(node: Node, values: Mapping[ir.Var, Expr]) -> Node:
    """`node`, with variables replaced by `values`."""
    if not values:
        return node
    replaced: Node = tvm_ffi.structural_map(node, (ir.Var, lambda var: values.get(var, var)))
    return replaced


def replace_loads(node: Node, rewrite: Callable[[ir.TensorLoad], Expr]) -> Node:
    """`node` with every buffer load `l` replaced by `rewrite(l)`."""
    replaced: Node = tvm_ffi.structural_map(node, (ir.TensorLoad, rewrite))
    return replaced


def sequence(statements: Sequence[tirx.Stmt]) -> tirx.Stmt:
    """One statement that runs `statements` in order."""
    if len(statements) == 1:
        return statements[0]
    return tirx.SeqStmt(list(statements)) if statements else tirx.Evaluate(tirx.const(0, "int32"))


def is_zero(value: Expr | None) -> bool:
    return isinstance(value, tirx.IntImm) and int(value) == 0
