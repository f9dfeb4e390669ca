"""MurmurHash3 of com.microsoft: hashes of 32 bits of strings, and of the bytes of numbers.

The arithmetic is modulo 2**32, in 64 bits, because TVM takes uint32 for numbers that do not wrap around.
(Source: MurmurHash3_x86_32 by Austin Appleby, in the public domain.)
"""

from __future__ import annotations

from collections.abc import Callable

from tvm import ir, te, tirx

from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.imperative import Array, Cell, Code, imperative
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.cast import bit_cast
from deploykit.compiler.operators.strings.decimals import left, low_bits, right, unsigned
from deploykit.compiler.operators.strings.spans import STRING, flat, length, start, text_of

_FIRST, _SECOND = 0xCC9E2D51, 0x1B873593
_ADDED = 0xE6546B64
_FINAL = (0x85EBCA6B, 0xC2B2AE35)
_BLOCK = 4
_BYTES = {"int32": 4, "uint32": 4, "float32": 4, "int64": 8, "uint64": 8, "float64": 8}


def murmur_hash(ctx: Context, x: Value, seed: int, *, positive: bool) -> Value:
    """The hash of each element of `x`, as uint32 if `positive`, else as int32.

    Raises `Unsupported` for numbers that have neither 4 nor 8 bytes."""
    count, dtype = ctx.product(x.shape), "uint32" if positive else "int32"
    if x.dtype == STRING:
        text = text_of(ctx, x)
        operands = [flat(ctx, text.spans), text.data]
    elif x.dtype in _BYTES:
        operands = [flat(ctx, bit_cast(ctx, x, f"uint{8 * _BYTES[x.dtype]}"))]
    else:
        raise Unsupported(f"hashes of {x.dtype}")

    def write(code: Code, *arrays: Array) -> None:
        *given, result = arrays
        with code.loop("i", count) as i:
            if x.dtype == STRING:
                span = code.cell("span", given[0][i])
                begin, size = start(span.value), length(span.value)
                found = _hash(code, lambda k: tirx.Cast("uint64", given[1][begin + k]), size, seed)
            else:
                number = code.cell("number", tirx.Cast("uint64", given[0][i]))
                size = tirx.const(_BYTES[x.dtype], "int64")
                found = _hash(code, lambda k: low_bits(right(number.value, k * 8), 8), size, seed)
            result[i] = tirx.Cast(dtype, found.value)

    def build(*tensors: te.Tensor) -> list[te.Tensor]:
        return imperative("hashes", tensors, [((count,), dtype)], write)

    return ctx.reshape(ctx.kernel("hashes", build, *operands, dtype=dtype), x.shape)


def _hash(code: Code, byte: Callable[[ir.Expr], ir.Expr], size: ir.Expr, seed: int) -> Cell:
    """A cell with the hash of `size` bytes."""
    state = code.cell("state", unsigned(seed))
    with code.loop("block", size // _BLOCK) as block:
        word = code.cell("word", unsigned(0))
        with code.loop("k", _BLOCK) as k:
            word.value += left(byte(block * _BLOCK + k), k * 8)
        state.value = tirx.bitwise_xor(state.value, _scrambled(word.value))
        state.value = _times(_rotated(state.value, 13), 5) + unsigned(_ADDED)
        state.value = low_bits(state.value, 32)
    rest = code.cell("rest", unsigned(0))
    with code.loop("k", size % _BLOCK) as k:
        rest.value += left(byte(size // _BLOCK * _BLOCK + k), k * 8)
    state.value = tirx.bitwise_xor(state.value, _scrambled(rest.value))
    state.value = tirx.bitwise_xor(state.value, tirx.Cast("uint64", size))
    for shift, factor in ((16, _FINAL[0]), (13, _FINAL[1])):
        state.value = _times(tirx.bitwise_xor(state.value, right(state.value, shift)), factor)
    state.value = tirx.bitwise_xor(state.value, right(state.value, 16))
    return state


def _scrambled(word: ir.Expr) -> ir.Expr:
    return _times(_rotated(_times(word, _FIRST), 15), _SECOND)


def _rotated(value: ir.Expr, by: int) -> ir.Expr:
    return low_bits(tirx.bitwise_or(left(value, by), right(value, 32 - by)), 32)


def _times(value: ir.Expr, factor: int) -> ir.Expr:
    return low_bits(value * unsigned(factor), 32)
