"""Random numbers: RandomUniform, RandomNormal and their forms `Like`, Bernoulli, Multinomial.

The generator (`random_bits`) is keyed by the operator's `seed`; without one by the model's seed, an input that the
build adds on request (`--seed-input`), else by 0, so that every run draws the same numbers.

    uniform      low + u * (high - low), u in [0, 1) of 24 bits (53 in float64)
    normal       Box-Muller: sqrt(-2 log(1 - u)) * cos(2 pi v)
    Bernoulli    u < p: 1 with probability p (the function body in the ONNX schema has it the other way round)
    Multinomial  the first class whose cumulated exp(x - max) exceeds u times the sum
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tvm import ir, te, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.dtypes import storage_dtype
from deploykit.compiler.operators.broadcast import compute_dtype, elementwise, store
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.errors import Unsupported
from deploykit.compiler.operators.imperative import Array, Cell, Code, imperative
from deploykit.compiler.operators.random_bits import key_of_seed, key_words, philox, unit
from deploykit.compiler.operators.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator

Words = Sequence[Cell]


class Draws:
    """The generator of one operator."""

    def __init__(self, ctx: Context, node: Node) -> None:
        self._ctx = ctx
        self._stream = ctx.shared.draws
        ctx.shared.draws += 1
        self._seed = key_of_seed(node.float("seed")) if node.has("seed") else 0
        self.operands = () if node.has("seed") or ctx.seed is None else (ctx.seed,)
        if not node.has("seed") and ctx.seed is None:
            note = "operators without a seed draw the same random numbers in every run; --seed-input adds an input"
            if note not in ctx.shared.notes:
                ctx.shared.notes.append(note)

    def words(self, code: Code, number: IntExpr, seed: Sequence[Array]) -> Words:
        """The words of a draw; `seed` are the arrays of `operands` in the kernel."""
        given: ir.Expr | int = seed[0][()] if seed else self._seed
        return philox(code, number, self._ctx.iterations, key_words(given, self._stream))


def drawn(
    ctx: Context, node: Node, shape: Sequence[IntExpr], dtype: str, number: Callable[[Words, str], ir.Expr]
) -> Value:
    """A tensor whose elements `number` makes of words, in the given dtype to compute in."""
    draws = Draws(ctx, node)
    wide, count = compute_dtype(dtype), ctx.product(shape)

    def write(code: Code, *arrays: Array) -> None:
        *seed, result = arrays
        with code.shared("i", count) as i:
            result[i] = store(number(draws.words(code, i, seed), wide), dtype)

    def build(*tensors: te.Tensor) -> list[te.Tensor]:
        return imperative("random", tensors, [((count,), storage_dtype(dtype))], write)

    return ctx.reshape(ctx.kernel("random", build, *draws.operands, dtype=dtype), shape)


def uniform(node: Node) -> Callable[[Words, str], ir.Expr]:
    low, high = node.float("low", 0.0), node.float("high", 1.0)

    def number(words: Words, dtype: str) -> ir.Expr:
        return unit(words, dtype) * tirx.const(high - low, dtype) + tirx.const(low, dtype)

    return number


def normal(node: Node) -> Callable[[Words, str], ir.Expr]:
    mean, scale = node.float("mean", 0.0), node.float("scale", 1.0)

    def number(words: Words, dtype: str) -> ir.Expr:
        one = tirx.const(1, dtype)
        radius = tirx.sqrt(tirx.const(-2, dtype) * tirx.log(one - unit(words, dtype)))
        angle = tirx.const(2 * math.pi, dtype) * unit(words[2:], dtype)
        return radius * tirx.cos(angle) * tirx.const(scale, dtype) + tirx.const(mean, dtype)

    return number


@operator("RandomUniform")
def random_uniform(ctx: Context, node: Node) -> Value:
    return drawn(ctx, node, node.ints("shape"), _float(node, "float32"), uniform(node))


@operator("RandomNormal")
def random_normal(ctx: Context, node: Node) -> Value:
    return drawn(ctx, node, node.ints("shape"), _float(node, "float32"), normal(node))


@operator("RandomUniformLike")
def random_uniform_like(ctx: Context, node: Node, x: Value) -> Value:
    return drawn(ctx, node, x.shape, _float(node, x.dtype), uniform(node))


@operator("RandomNormalLike")
def random_normal_like(ctx: Context, node: Node, x: Value) -> Value:
    return drawn(ctx, node, x.shape, _float(node, x.dtype), normal(node))


@operator("Bernoulli")
def bernoulli(ctx: Context, node: Node, p: Value) -> Value:
    numbers = drawn(ctx, node, p.shape, "float64" if p.dtype == "float64" else "float32", unit)

    def chosen(u: ir.Expr, v: ir.Expr) -> ir.Expr:
        return u < tirx.Cast(u.ty.dtype, v)

    return ctx.cast(elementwise(ctx, "bernoulli", chosen, numbers, p, dtype="bool"), node.dtype("dtype", p.dtype))


def _float(node: Node, default: str) -> str:
    dtype = node.dtype("dtype", default)
    if dtype not in ("float16", "float32", "float64", "bfloat16"):
        raise Unsupported(f"random numbers of dtype {dtype}; ask for a float in the attribute 'dtype'")
    return dtype


@operator("Multinomial")
def multinomial(ctx: Context, node: Node, x: Value) -> Value:
    if x.rank != 2:
        raise Unsupported(f"log-probabilities of rank {x.rank}; they must be [batch, classes]")
    samples, dtype = node.int("sample_size", 1), node.dtype("dtype", "int32")
    rows, classes = x.shape
    draws = Draws(ctx, node)
    wide = "float64" if x.dtype == "float64" else "float32"
    logits = ctx.cast(x, wide)

    def write(code: Code, *arrays: Array) -> None:
        data, *seed, result = arrays
        with code.shared("row", rows) as row:
            top = code.cell("top", tirx.min_value(wide))
            with code.loop("i", classes) as i:
                top.value = tirx.max(top.value, data[row, i])
            total = code.cell("total", tirx.const(0, wide))
            with code.loop("j", classes) as j:
                total.value += tirx.exp(data[row, j] - top.value)
            with code.loop("sample", samples) as sample:
                words = draws.words(code, row * samples + sample, seed)
                target = code.cell("target", unit(words, wide) * total.value)
                seen = code.cell("seen", tirx.const(0, wide))
                chosen = code.cell("chosen", 0)
                with code.loop("k", classes) as k:
                    seen.value += tirx.exp(data[row, k] - top.value)
                    step = tirx.Select(seen.value <= target.value, tirx.const(1, "int64"), tirx.const(0, "int64"))
                    chosen.value += step
                result[row, sample] = tirx.Cast(dtype, tirx.min(chosen.value, classes - 1))

    def build(*tensors: te.Tensor) -> list[te.Tensor]:
        return imperative("multinomial", tensors, [((rows, samples), dtype)], write)

    return ctx.kernel("multinomial", build, logits, *draws.operands, dtype=dtype)
