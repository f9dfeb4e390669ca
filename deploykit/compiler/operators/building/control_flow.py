"""How control flow is represented in Relax.

A branch or a loop body is a function of the module. It shares the symbolic variables of its caller, and takes the
tensors that it reads as parameters. The calls are pure packed calls, which passes treat as opaque:

    deploykit.if(condition, then, otherwise, (captured...))                          -> (result...)
    deploykit.loop(body, trips, condition, (carried...), (captured...), [index, count]) -> (carried..., collected...)

`then` and `otherwise` take the captured tensors. `body` takes the carried tensors, then the captured ones. It returns
`(condition, carried..., collected...)`, where the condition is present only if the loop has one. `trips` is `[expr]` or
`[]`; `condition` is a boolean scalar tensor or `()`. `index` is the number of the iteration; `count` is set to the
number of iterations done. Each collected tensor gets one row per iteration.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import ir, relax, tirx

IF = "deploykit.if"
LOOP = "deploykit.loop"


def branch(
    condition: relax.Expr,
    then: ir.GlobalVar,
    otherwise: ir.GlobalVar,
    captured: Sequence[relax.Expr],
    types: Sequence[relax.TensorType],
) -> relax.Call:
    """The call of an `if` with result `types`. A result dim that the branches disagree on is a fresh data dim."""
    args = [condition, then, otherwise, relax.Tuple(list(captured))]
    return relax.call_pure_packed(IF, *args, ty_args=[relax.TupleType(list(types))])


def loop(
    body: ir.GlobalVar,
    trips: ir.Expr | int | None,
    condition: relax.Expr | None,
    carried: Sequence[relax.Expr],
    captured: Sequence[relax.Expr],
    index: tirx.Var,
    count: tirx.Var,
    types: Sequence[relax.TensorType],
) -> relax.Call:
    """The call of a loop with result `types`: the carried tensors, then the collected ones."""
    args = [
        body,
        relax.ShapeExpr([] if trips is None else [trips]),
        relax.Tuple([]) if condition is None else condition,
        relax.Tuple(list(carried)),
        relax.Tuple(list(captured)),
        relax.ShapeExpr([index, count]),
    ]
    return relax.call_pure_packed(LOOP, *args, ty_args=[relax.TupleType(list(types))])


def called(value: object) -> str | None:
    """`IF` or `LOOP` if `value` is such a call, else None."""
    if isinstance(value, relax.Call) and isinstance(value.op, ir.Op) and value.op.name == "relax.call_pure_packed":
        name = value.args[0]
        if isinstance(name, relax.ExternFunc) and name.global_symbol in (IF, LOOP):
            return str(name.global_symbol)
    return None
