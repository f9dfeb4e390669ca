"""Random numbers: RandomUniform, RandomNormal, Bernoulli, Multinomial.

The generator (`bits`) uses the operator's seed as its key; without one, the model's seed, which is an input that the
build adds on request (`--seed-input`); else 0, so that every run draws the same numbers.

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
from deploykit.compiler.operators.building.broadcast import elementwise
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.conversion import compute_dtype, store
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.imperative import Array, Cell, Code, imperative
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.random.bits import key_of_seed, key_words, philox, unit

_Words = Sequence[Cell]


def random_uniform(
    ctx: Context, shape: Sequence[IntExpr], dtype: str, low: float = 0.0, high: float = 1.0, seed: float | None = None
) -> Value:
    """A tensor of uniform numbers between `low` and `high`. Raises `Unsupported` if `dtype` is not a float dtype."""

    def number(words: _Words, dtype: str) -> ir.Expr:
        return unit(words, dtype) * tirx.const(high - low, dtype) + tirx.const(low, dtype)

    return _drawn(ctx, shape, _float(dtype), number, seed)


def random_normal(
    ctx: Context, shape: Sequence[IntExpr], dtype: str, mean: float = 0.0, scale: float = 1.0, seed: float | None = None
) -> Value:
    """A tensor of numbers of the normal distribution with the given `mean` and standard deviation `scale`.

    Raises `Unsupported` if `dtype` is not a float dtype."""

    def number(words: _Words, dtype: str) -> ir.Expr:
        one = tirx.const(1, dtype)
        radius = tirx.sqrt(tirx.const(-2, dtype) * tirx.log(one - unit(words, dtype)))
        angle = tirx.const(2 * math.pi, dtype) * unit(words[2:], dtype)
        return radius * tirx.cos(angle) * tirx.const(scale, dtype) + tirx.const(mean, dtype)

    return _drawn(ctx, shape, _float(dtype), number, seed)


def random_units(ctx: Context, shape: Sequence[IntExpr], dtype: str, seed: float | None = None) -> Value:
    """A tensor of uniform numbers in [0, 1), float32 or float64."""
    return _drawn(ctx, shape, dtype, unit, seed)


def bernoulli(ctx: Context, p: Value, dtype: str, seed: float | None = None) -> Value:
    """For each element of `p`, 1 with that probability, else 0, in `dtype`."""
    numbers = random_units(ctx, p.shape, "float64" if p.dtype == "float64" else "float32", seed)

    def chosen(u: ir.Expr, v: ir.Expr) -> ir.Expr:
        return u < tirx.Cast(u.ty.dtype, v)

    return ctx.cast(elementwise(ctx, "bernoulli", chosen, numbers, p, dtype="bool"), dtype)


def multinomial(ctx: Context, x: Value, samples: int, dtype: str, seed: float | None = None) -> Value:
    """Random classes `[batch, samples]`. `x`, `[batch, classes]`, has the logarithms of their probabilities, up to a
    constant that is the same for a row."""
    if x.rank != 2:
        raise Unsupported(f"log-probabilities of rank {x.rank}; they must be [batch, classes]")
    rows, classes = x.shape
    draws = _Draws(ctx, seed)
    wide = "float64" if x.dtype == "float64" else "float32"
    logits = ctx.cast(x, wide)

    def write(code: Code, *arrays: Array) -> None:
        data, *seeds, result = arrays
        with code.shared("row", rows) as row:
            top = code.cell("top", tirx.min_value(wide))
            with code.loop("i", classes) as i:
                top.value = tirx.max(top.value, data[row, i])
            total = code.cell("total", tirx.const(0, wide))
            with code.loop("j", classes) as j:
                total.value += tirx.exp(data[row, j] - top.value)
            with code.loop("sample", samples) as sample:
                words = draws.words(code, row * samples + sample, seeds)
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


class _Draws:
    """The generator of one operator. `operands` are the additional operands of its kernel."""

    def __init__(self, ctx: Context, seed: float | None) -> None:
        self._ctx = ctx
        self._stream = ctx.shared.draws
        ctx.shared.draws += 1
        self._seed = 0 if seed is None else key_of_seed(seed)
        self.operands = () if seed is not None or ctx.seed is None else (ctx.seed,)
        if seed is None and ctx.seed is None:
            note = "operators without a seed draw the same random numbers in every run; --seed-input adds an input"
            if note not in ctx.shared.notes:
                ctx.shared.notes.append(note)

    def words(self, code: Code, number: IntExpr, seed: Sequence[Array]) -> _Words:
        """The random words of a draw. `seed` are the arrays of `operands` in the kernel."""
        given: ir.Expr | int = seed[0][()] if seed else self._seed
        return philox(code, number, self._ctx.iterations, key_words(given, self._stream))


def _drawn(
    ctx: Context, shape: Sequence[IntExpr], dtype: str, number: Callable[[_Words, str], ir.Expr], seed: float | None
) -> Value:
    """A tensor whose elements `number` computes from random words, in the dtype that it is given."""
    draws = _Draws(ctx, seed)
    wide, count = compute_dtype(dtype), ctx.product(shape)

    def write(code: Code, *arrays: Array) -> None:
        *seeds, result = arrays
        with code.shared("i", count) as i:
            result[i] = store(number(draws.words(code, i, seeds), wide), dtype)

    def build(*tensors: te.Tensor) -> list[te.Tensor]:
        return imperative("random", tensors, [((count,), storage_dtype(dtype))], write)

    return ctx.reshape(ctx.kernel("random", build, *draws.operands, dtype=dtype), shape)


def _float(dtype: str) -> str:
    if dtype not in ("float16", "float32", "float64", "bfloat16"):
        raise Unsupported(f"random numbers of dtype {dtype}; ask for a float in the attribute 'dtype'")
    return dtype
