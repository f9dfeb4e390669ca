"""Multidirectional broadcasting with symbolic dims, and elementwise kernels on top of it.

The rule for two sizes of an axis:

* equal sizes stay;
* a 1 gives way to the other size;
* a constant above 1 wins over a symbolic size, which must then be 1 or that constant;
* of two symbolic sizes, one wins that is provably above 1, such as `past + seq` over a mask's own dim, or provably not
  smaller, such as `n` over `min(n, 512)`;
* otherwise the result of `a` and `b` is `a`, unless `a` is 1; then it is `b`.

A condition that cannot be proved is checked at run time.
(Source: ONNX, Broadcasting.md.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tvm import ir, te, tirx

from deploykit.compiler.dims import free_vars
from deploykit.compiler.dtypes import storage_dtype
from deploykit.compiler.operators.building.channels import all_last
from deploykit.compiler.operators.building.conversion import load, store
from deploykit.compiler.operators.building.expressions import compute
from deploykit.compiler.operators.building.integers import (
    all_of,
    both,
    either,
    equal,
    expr,
    is_plain,
    less,
    less_equal,
    select,
)
from deploykit.compiler.operators.building.moved import first_of
from deploykit.compiler.operators.building.value import Table, Value
from deploykit.compiler.tir.heavy import is_heavy
from deploykit.compiler.tir.inexact import inexact

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr
    from deploykit.compiler.operators.building.context import Context
    from deploykit.compiler.operators.building.integers import Condition


def broadcast(ctx: Context, *values: Value) -> tuple[IntExpr, ...]:
    """The common shape of values. Raises `Unsupported` if sizes can never agree."""
    return broadcast_shapes(ctx, *(v.shape for v in values), names=[ctx.name_of(v) for v in values])


def broadcast_shapes(ctx: Context, *shapes: Sequence[IntExpr], names: Sequence[str] = ()) -> tuple[IntExpr, ...]:
    """The common shape. Raises `Unsupported` if sizes can never agree; the message uses `names`."""
    rank = max((len(s) for s in shapes), default=0)
    result: list[IntExpr] = [1] * rank
    owners = [""] * rank
    for number, shape in enumerate(shapes):
        name = names[number] if names else f"operand {number}"
        for axis, size in enumerate(shape, rank - len(shape)):
            message = f"axis {axis - rank} has {{}} elements in {owners[axis]}, {{}} in {name}; this does not broadcast"
            joined = _join(ctx, result[axis], size, message)
            if not owners[axis] or joined is not result[axis]:
                result[axis], owners[axis] = joined, name
    return tuple(result)


def _join(ctx: Context, a: IntExpr, b: IntExpr, message: str) -> IntExpr:
    if _is_one(b) or ctx.equal(a, b):
        return a
    if _is_one(a):
        return b
    agree = either(equal(a, b), either(equal(a, 1), equal(b, 1)))
    if is_plain(a) or is_plain(b):
        ctx.require(agree, message, a, b)
        return a if is_plain(a) else b
    for size, other in ((a, b), (b, a)):
        by_chance = isinstance(other, tirx.Var) and _is_sum(size) and ctx.proves(less_equal(1, size))
        if by_chance or ctx.proves(less(1, size)) or ctx.proves(both(less_equal(1, other), less_equal(other, size))):
            ctx.require(either(equal(other, size), equal(other, 1)), message, a, b)
            return size
    ctx.require(agree, message, a, b)
    return ctx.simplify(select(equal(a, 1), b, a))


def _is_sum(size: IntExpr) -> bool:
    """Whether a size is a sum of dims. If it is 1, which is by chance, the other size must be, too: exporters give the
    mask over past and present positions a dim of its own."""
    return isinstance(size, tirx.Add) and len(free_vars(size)) > 1


def _is_one(size: IntExpr) -> bool:
    return is_plain(size) and size == 1


def broadcasts_to(shape: Sequence[IntExpr], target: Sequence[IntExpr]) -> Condition:
    """Whether `shape` broadcasts to exactly `target`."""
    if len(shape) > len(target):
        return False
    pairs = zip(shape, target[len(target) - len(shape) :], strict=True)
    return all_of(either(equal(size, 1), equal(size, wanted)) for size, wanted in pairs)


def broadcast_index(
    ctx: Context, shape: Sequence[IntExpr], result: Sequence[IntExpr], index: Sequence[ir.Expr]
) -> list[ir.Expr]:
    """The index into a tensor of `shape` for an `index` into the broadcast `result`."""
    offset = len(result) - len(shape)
    where: list[ir.Expr] = []
    for axis, size in enumerate(shape):
        i = index[offset + axis]
        if _is_one(size):
            where.append(expr(0))
        elif ctx.equal(size, result[offset + axis]):
            where.append(i)
        else:
            where.append(expr(select(equal(size, 1), 0, i)))
    return where


def elementwise(
    ctx: Context, name: str, function: Callable[..., ir.Expr], *inputs: Value, dtype: str | None = None
) -> Value:
    """A kernel that applies `function` to the broadcast elements of the inputs.

    `function` gets float16 and narrower floats as float32. Its result is rounded to `dtype`, by default that of the
    first input. If inputs have their channels last, so has the result."""
    dtype = dtype or inputs[0].dtype
    inexact = any(v.inexact for v in inputs)
    moved = all_last(ctx, inputs)
    if moved is None:
        y = _elementwise(ctx, name, function, inputs, dtype)
    else:
        y = first_of(_elementwise(ctx, name, function, moved, dtype))
    return replace(y, inexact=inexact, table=_table(ctx, name, function, inputs, y))


def _table(
    ctx: Context, name: str, function: Callable[..., ir.Expr], inputs: Sequence[Value], result: Value
) -> Table | None:
    """The table of a result that depends only on the elements of one 8-bit tensor and on constants of one element."""
    tables = [v.table for v in inputs if v.table is not None]
    if not tables or result.dtype != "float32" or result.rank != tables[0].index.rank:
        return None
    others = [v for v in inputs if v.table is None]
    if any(t.index is not tables[0].index for t in tables) or not all(
        v.array is not None and v.array.size == 1 for v in others
    ):
        return None
    flat = [v.table.entries if v.table is not None else ctx.reshape(v, ()) for v in inputs]
    seen = function(*(tirx.Var("v", storage_dtype(v.dtype)) for v in inputs))
    heavy = is_heavy(seen) or any(t.heavy for t in tables)
    return Table(tables[0].index, _elementwise(ctx, name, function, flat, result.dtype), heavy)


def _elementwise(
    ctx: Context, name: str, function: Callable[..., ir.Expr], inputs: Sequence[Value], dtype: str
) -> Value:
    shape = broadcast(ctx, *inputs)

    def build(*tensors: te.Tensor) -> te.Tensor:
        def element(*index: ir.Expr) -> ir.Expr:
            pairs = zip(tensors, inputs, strict=True)
            loaded = [load(t, v.dtype, broadcast_index(ctx, v.shape, shape, index)) for t, v in pairs]
            return store(inexact(function)(*loaded), dtype)

        return compute(shape, element, name=name)

    return ctx.kernel(name, build, *inputs, dtype=dtype)
