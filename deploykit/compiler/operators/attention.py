"""Scaled dot product attention: Attention.

It consists of two matrix products with two kernels between them, over symbolic batch and sequence lengths:

* Grouped query heads read the key and value head that they share through a kernel that repeats it. This kernel becomes
  part of the fused attention, so no copies are made.
* One elementwise kernel scales, caps (`softcap`) and masks the products. A key is open to a query if the boolean mask,
  the causal frontier, the window and the valid length all allow it and a float mask does not add minus infinity. A
  closed key counts as minus infinity, whatever its product is.
* A softmax over the keys follows. A query without any open key gets zeros.

Positions of queries count from the past length, or from the number of valid keys minus the number of queries. A mask
that is shorter than the keys is closed beyond its end.

float16 is rounded after each of these steps, as in the function body of the operator, and computed in float32 in
between. bfloat16 is only the storage dtype of operands and results; scores are then float32. Sums are kept in float32.
`precision` is the dtype that the softmax is rounded to, if it is not part of a fused attention.
(Source: ONNX operator Attention, opsets 23 to 25.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from tvm import ir, te, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.dtypes import is_narrow_float
from deploykit.compiler.operators.anchors.attention import SOFTMAX
from deploykit.compiler.operators.building.broadcast import broadcast_index, broadcasts_to, elementwise
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.conversion import compute_dtype, load, store
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.expressions import compute, reduce_axis
from deploykit.compiler.operators.building.float_formats import decode
from deploykit.compiler.operators.building.integers import all_of, equal, expr, exprs, floor_div, is_plain, truth
from deploykit.compiler.operators.building.reduce_axes import lowest
from deploykit.compiler.operators.building.sizes import require_equal, require_rank
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.cast import cast
from deploykit.compiler.operators.joining import concat
from deploykit.compiler.operators.layout import transpose
from deploykit.compiler.operators.matmul import matmul, wide_matmul

if TYPE_CHECKING:
    from deploykit.compiler.operators.building.integers import Condition

Stage: TypeAlias = Literal["scaled", "capped", "masked", "weights"]
"""The intermediate results of an attention that can be returned: products after scaling, capping or masking, or the
weights that the softmax gives."""


@dataclass(frozen=True)
class _Scores:
    """How products of queries and keys become scores. Every step is rounded to `dtype`. `scale` is None if queries and
    keys are scaled already. `offset` is the position of the first query for the whole batch, unless `lengths` (batch,)
    gives each element of the batch its number of valid keys."""

    dtype: str
    scale: ir.Expr | None
    softcap: float
    causal: bool
    left: int
    right: int
    offset: IntExpr
    mask: Value | None
    lengths: Value | None


def attention(
    ctx: Context,
    query: Value,
    key: Value,
    value: Value,
    *,
    mask: Value | None = None,
    past_key: Value | None = None,
    past_value: Value | None = None,
    lengths: Value | None = None,
    heads: tuple[int, int] | None = None,
    scale: float | None = None,
    softcap: float = 0.0,
    causal: bool = False,
    left: int = -1,
    right: int = -1,
    precision: str | None = None,
    shown: Stage | None = None,
) -> tuple[Value, Value, Value, Value | None]:
    """Attention: values weighted by the softmax of queries times keys. Returns the result, the keys and the values that
    it read, and the scores at the stage `shown`.

    `query` is (batch, query heads, queries, size), `key` (batch, key heads, keys, size), `value` (batch, key heads,
    keys, width), and the result (batch, query heads, queries, width). With `heads`, the numbers of query and of key
    heads, these four are (batch, length, heads * size) instead. `past_key` and `past_value` come before the keys and
    values. `mask` broadcasts to (batch, query heads, queries, keys); `lengths` (batch,) are numbers of valid keys.

    `scale` is by default one over the square root of the head size. A `softcap` of 0 means none. `left` and `right` are
    how far from its position a query sees, with -1 for any distance. `precision` is by default the dtype of the
    queries."""
    dtype = query.dtype
    for operand in (query, key, value):
        require_rank(ctx, operand, 4 if heads is None else 3)
    for past in (past_key, past_value):
        if past is not None:
            require_rank(ctx, past, 4)
    if heads is not None:
        query = split_heads(ctx, query, heads[0])
        key, value = split_heads(ctx, key, heads[1]), split_heads(ctx, value, heads[1])
    offset: IntExpr = 0 if past_key is None else past_key.shape[2]
    if past_key is not None and past_value is not None:
        key, value = concat(ctx, [past_key, key], 2), concat(ctx, [past_value, value], 2)
    if lengths is not None:
        require_rank(ctx, lengths, 1)
        require_equal(ctx, "the batches of the queries and of the key lengths differ", query.shape[0], lengths.shape[0])
    factor = _factor(query, scale)
    early = factor if dtype == "float16" else None
    late = None if dtype == "float16" else factor
    rounded = compute_dtype(dtype) if is_narrow_float(dtype) else dtype
    rule = _Scores(rounded, late, softcap, causal, left, right, offset, mask, lengths)
    products = _products(ctx, query, key, early)
    if mask is not None:
        _check_mask(ctx, mask, products)
    scores = _masked(ctx, products, rule)
    weights = cast(ctx, _softmax(ctx, scores, precision or dtype), dtype, free=True)
    y = matmul(ctx, weights, _for_heads(ctx, value, weights.shape[1]))
    if heads is not None:
        y = join_heads(ctx, y)
    if shown is None:
        return y, key, value, None
    stages: Mapping[Stage, Callable[[], Value]] = {
        "scaled": lambda: elementwise(ctx, "scaled", lambda x: _scaled(x, rule), products),
        "capped": lambda: elementwise(ctx, "capped", lambda x: _capped(_scaled(x, rule), rule), products),
        "masked": lambda: scores,
        "weights": lambda: weights,
    }
    return y, key, value, ctx.cast(stages[shown](), dtype)


def _factor(query: Value, scale: float | None) -> ir.Expr:
    """The factor that products are scaled by."""
    dtype, size = compute_dtype(query.dtype), query.shape[3]
    if scale is not None:
        return tirx.const(scale, dtype)
    return tirx.const(size**-0.5, dtype) if is_plain(size) else tirx.const(1, dtype) / tirx.sqrt(tirx.Cast(dtype, size))


def _products(ctx: Context, query: Value, key: Value, factor: ir.Expr | None) -> Value:
    """Each query times each key, (batch, query heads, queries, keys). Both are first scaled by the root of `factor`."""
    if factor is not None:
        root, dtype = tirx.sqrt(factor), query.dtype
        query = elementwise(ctx, "scaled_query", lambda x: x * _rounded(root, dtype), query)
        key = elementwise(ctx, "scaled_key", lambda x: x * _rounded(root, dtype), key)
    product = wide_matmul if is_narrow_float(query.dtype) else matmul
    return product(ctx, query, transpose(ctx, _for_heads(ctx, key, query.shape[1]), [0, 1, 3, 2]))


def split_heads(ctx: Context, x: Value, heads: int) -> Value:
    """(batch, length, heads * size) as (batch, heads, length, size)."""
    if heads < 1:
        raise Unsupported(f"channels that are split into {heads} heads")
    batch, length, width = x.shape
    size = ctx.simplify(floor_div(width, heads))
    ctx.require(equal(size * heads, width), f"{{}} channels do not split into {heads} heads", width)
    return transpose(ctx, ctx.reshape(x, (batch, length, heads, size)), [0, 2, 1, 3])


def join_heads(ctx: Context, x: Value) -> Value:
    """(batch, heads, length, size) as (batch, length, heads * size)."""
    batch, heads, length, size = x.shape
    return ctx.reshape(transpose(ctx, x, [0, 2, 1, 3]), (batch, length, ctx.simplify(heads * size)))


def _for_heads(ctx: Context, x: Value, q_heads: IntExpr) -> Value:
    """Keys or values for every query head. Consecutive query heads share a head of `x`."""
    batch, kv_heads, length, size = x.shape
    if ctx.equal(q_heads, kv_heads):
        return x
    shared = ctx.simplify(floor_div(q_heads, kv_heads))
    ctx.require(equal(shared * kv_heads, q_heads), "{} query heads cannot share {} key heads", q_heads, kv_heads)
    shape, count = exprs((batch, q_heads, length, size)), expr(shared)

    def build(tensor: te.Tensor) -> te.Tensor:
        return compute(shape, lambda b, h, *place: tensor(b, tirx.floordiv(h, count), *place), name="shared")

    return ctx.kernel("shared", build, x, dtype=x.dtype)


def _rounded(value: ir.Expr, dtype: str) -> ir.Expr:
    """A value rounded to `dtype`, in the dtype that computation continues in."""
    if dtype == "float16":
        return tirx.Cast("float32", tirx.Cast("float16", value))
    return decode(store(value, dtype), dtype) if is_narrow_float(dtype) else value


def _scaled(product: ir.Expr, rule: _Scores) -> ir.Expr:
    return product if rule.scale is None else product * rule.scale


def _capped(score: ir.Expr, rule: _Scores) -> ir.Expr:
    if not rule.softcap > 0:
        return score
    cap = tirx.const(rule.softcap, str(score.ty.dtype))
    return _rounded(_rounded(tirx.tanh(_rounded(score / cap, rule.dtype)), rule.dtype) * cap, rule.dtype)


def _masked(ctx: Context, products: Value, rule: _Scores) -> Value:
    """The scores in the dtype that products are computed in, minus infinity for closed keys."""
    operands = [v for v in (products, rule.mask, rule.lengths) if v is not None]
    dtype = compute_dtype(products.dtype)
    closed = lowest(dtype)

    def build(*tensors: te.Tensor) -> te.Tensor:
        rest = iter(tensors[1:])
        mask = None if rule.mask is None else (next(rest), rule.mask)
        lengths = None if rule.lengths is None else next(rest)

        def score(*index: ir.Expr) -> ir.Expr:
            value = _capped(_scaled(load(tensors[0], products.dtype, index), rule), rule)
            conditions = _positions_open(rule, lengths, index, products.shape[2])
            if mask is not None:
                added, is_open = _mask_at(ctx, mask, products.shape, index)
                conditions.append(is_open)
                value = value if added is None else _rounded(value + tirx.Cast(dtype, added), rule.dtype)
            is_open = all_of(conditions)
            return value if is_open is True else tirx.Select(truth(is_open), value, closed)

        return compute(products.shape, score, name="scores")

    return ctx.kernel("attention_scores", build, *operands, dtype=dtype)


def _positions_open(
    rule: _Scores, lengths: te.Tensor | None, index: Sequence[ir.Expr], rows: IntExpr
) -> list[Condition]:
    """The conditions that the causal frontier, the window and the valid length set for an open key."""
    batch, _, row, column = index
    conditions: list[Condition] = []
    position = row + rule.offset
    if lengths is not None:
        valid = tirx.Cast("int64", lengths(batch))
        position = row + (valid - rows)
        conditions.append(column < valid)
    if rule.causal:
        conditions.append(column <= position)
    if rule.left >= 0:
        conditions.append(column >= position - rule.left)
    if rule.right >= 0:
        conditions.append(column <= position + rule.right)
    return conditions


def _check_mask(ctx: Context, mask: Value, products: Value) -> None:
    """Require that the mask has a row for every query."""
    if not 1 <= mask.rank <= products.rank:
        raise Unsupported(f"an attention mask of rank {mask.rank}")
    ctx.require(
        broadcasts_to(mask.shape[:-1], products.shape[:-1]),
        "an attention mask of {} rows does not broadcast to {} queries",
        mask.shape[-2] if mask.rank > 1 else 1,
        products.shape[-2],
    )


def _mask_at(
    ctx: Context, given: tuple[te.Tensor, Value], shape: Sequence[IntExpr], index: Sequence[ir.Expr]
) -> tuple[ir.Expr | None, ir.Expr]:
    """What a mask of numbers adds to a score (None for a boolean mask), and whether the mask leaves the key open. Of
    numbers, only a float can close a key."""
    tensor, mask = given
    where = [*broadcast_index(ctx, mask.shape[:-1], shape[:-1], index[:-1]), index[-1]]
    element = load(tensor, mask.dtype, where)
    dtype = str(element.ty.dtype)
    is_float = mask.dtype != "bool" and "float" in dtype
    within = True
    if not ctx.equal(mask.shape[-1], shape[-1]):
        within = index[-1] < expr(mask.shape[-1])
        element = tirx.if_then_else(within, element, lowest(dtype) if is_float else tirx.const(0, dtype))
    if mask.dtype == "bool":
        return None, element
    return element, element != lowest(dtype) if is_float else within


def _greater(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    return tirx.max(a, b)


def _softmax(ctx: Context, scores: Value, precision: str) -> Value:
    """Softmax over the last axis. A row of only minus infinity becomes zeros. Exponentials and their sums are rounded
    to `precision`; the result is in the dtype that `precision` is computed in."""
    dtype = compute_dtype(precision)
    scores = ctx.cast(scores, dtype)
    keys, outer = expr(scores.shape[-1]), exprs(scores.shape[:-1])
    least = lowest(dtype)
    highest_of = te.comm_reducer(_greater, lowest, name="highest")

    def build(x: te.Tensor) -> te.Tensor:
        k1, k2 = reduce_axis(keys, name="k"), reduce_axis(keys, name="k")
        highest = compute(outer, lambda *i: highest_of(x(*i, k1), axis=k1), name="highest")

        def power(*i: ir.Expr) -> ir.Expr:
            top = highest(*i[:-1])
            below = x(*i) - tirx.Select(top == least, tirx.const(0, dtype), top)
            return store(tirx.exp(_rounded(below, precision)), precision)

        powers = compute((*outer, keys), power, name="powers")
        total = compute(outer, lambda *i: te.sum(load(powers, precision, [*i, k2]), axis=k2), name="total")
        divisor = compute(outer, lambda *i: store(_not_zero(total(*i)), precision), name="divisor")

        def weight(*i: ir.Expr) -> ir.Expr:
            return load(powers, precision, i) / load(divisor, precision, i[:-1])

        return compute((*outer, keys), weight, name="weights", attrs={SOFTMAX: "zero"})

    return ctx.kernel("attention_softmax", build, scores, dtype=dtype)


def _not_zero(total: ir.Expr) -> ir.Expr:
    return tirx.Select(total == 0, tirx.const(1, str(total.ty.dtype)), total)
