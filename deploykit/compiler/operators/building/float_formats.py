"""Converts raw narrow numbers to and from float32 by integer arithmetic on their bits.

A narrow float is described by its mantissa width, its exponent bias and the meaning of its top codes (`NarrowFloat`):

    format           m   bias  largest  infinity  NaN
    bfloat16         7   127   0x7f7f   0x7f80    above infinity
    float8_e5m2      2   15    0x7b     0x7c      above infinity
    float8_e4m3fn    3   7     0x7e     -         0x7f
    float8_e4m3fnuz  3   8     0x7f     -         0x80 (there is no negative zero)
    float8_e5m2fnuz  2   16    0x7f     -         0x80
    float4_e2m1      1   1     0x7      -         -    (NaN becomes zero)
    float8_e8m0      powers of two 2**(code - 127), code 0xff is NaN; no sign, no zero

Rounding is to nearest, ties to even (E8M0: see `encode_e8m0`). A number beyond the largest one becomes infinity, or NaN
if the format has no infinity. With `saturate` it becomes the largest number instead, and so does infinity. E2M1 always
saturates.
(Sources: ONNX, docs/docsgen/source/technical/float8.md, float4.md and the tables of Cast; OCP 8-bit floating point
specification; OCP microscaling formats.)

int4, uint4, int2 and uint2 are stored as one element per byte; `wrap` cuts a wider integer down to their range.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm import ir, tirx


@dataclass(frozen=True)
class NarrowFloat:
    """A narrow float format. Codes are those of the magnitude, without the sign bit: `largest` of the largest finite
    number, `infinity` of infinity, `nan` of a NaN; `None` if the format has none."""

    bits: int
    mantissa: int
    bias: int
    largest: int
    infinity: int | None
    nan: int | None
    unsigned_zero: bool = False
    """Whether the code of negative zero is the only NaN."""

    @property
    def sign(self) -> int:
        return 1 << (self.bits - 1)


FORMATS = {
    "bfloat16": NarrowFloat(16, 7, 127, 0x7F7F, 0x7F80, 0x7FC0),
    "float8_e5m2": NarrowFloat(8, 2, 15, 0x7B, 0x7C, 0x7E),
    "float8_e4m3fn": NarrowFloat(8, 3, 7, 0x7E, None, 0x7F),
    "float8_e4m3fnuz": NarrowFloat(8, 3, 8, 0x7F, None, None, unsigned_zero=True),
    "float8_e5m2fnuz": NarrowFloat(8, 2, 16, 0x7F, None, None, unsigned_zero=True),
    "float4_e2m1": NarrowFloat(4, 1, 1, 0x7, None, None),
}

_INTEGERS = {"int4": (4, True), "uint4": (4, False), "int2": (2, True), "uint2": (2, False)}


def decode(bits: ir.Expr, dtype: str) -> ir.Expr:
    """The float32 value of raw bits."""
    code = tirx.Cast("uint32", bits)
    if dtype == "bfloat16":
        return tirx.reinterpret("float32", code << _u32(16))
    if dtype == "float8_e8m0":
        normal = tirx.Select(code == _u32(0xFF), _u32(0x7FC00000), code << _u32(23))
        return tirx.reinterpret("float32", tirx.Select(code == _u32(0), _u32(0x00400000), normal))
    form = FORMATS[dtype]
    magnitude = code & _u32(form.sign - 1)
    smallest = _f32(2.0 ** (1 - form.bias - form.mantissa))
    subnormal = tirx.reinterpret("uint32", tirx.Cast("float32", magnitude) * smallest)
    normal = (magnitude << _u32(23 - form.mantissa)) + _u32((127 - form.bias) << 23)
    value = tirx.Select(magnitude < _u32(1 << form.mantissa), subnormal, normal)
    if form.infinity is not None:
        special = (magnitude << _u32(23 - form.mantissa)) | _u32(0x7F800000)
        value = tirx.Select(magnitude >= _u32(form.infinity), special, value)
    elif form.nan is not None:
        value = tirx.Select(magnitude == _u32(form.nan), _u32(0x7FC00000), value)
    value = value | ((code & _u32(form.sign)) << _u32(32 - form.bits))
    if form.unsigned_zero:
        value = tirx.Select(code == _u32(form.sign), _u32(0x7FC00000), value)
    return tirx.reinterpret("float32", value)


def encode(value: ir.Expr, dtype: str, *, saturate: bool | None = None) -> ir.Expr:
    """The raw bits of a number. `saturate` is by default that of ONNX `Cast`: true for the 4 and 8 bit formats."""
    value = _to_float32(value)
    if dtype == "float8_e8m0":
        return encode_e8m0(value, "up", saturate=saturate is not False)
    form = FORMATS[dtype]
    if saturate is None:
        saturate = form.bits == 8
    bits = tirx.reinterpret("uint32", value)
    magnitude = bits & _u32(0x7FFFFFFF)
    code = _round(magnitude, form)
    over, nan = _special_codes(form, saturate)
    code = tirx.Select(code > _u32(form.largest), _u32(over), code)
    code = tirx.Select(magnitude > _u32(0x7F800000), _u32(nan), code)
    sign = (bits >> _u32(32 - form.bits)) & _u32(form.sign)
    if form.unsigned_zero:
        sign = tirx.Select(tirx.any(code == _u32(0), code == _u32(form.sign)), _u32(0), sign)
    if form.bits == 4:
        sign = tirx.Select(magnitude > _u32(0x7F800000), sign ^ _u32(form.sign), sign)
    return tirx.Cast("uint16" if form.bits == 16 else "uint8", code | sign)


def _round(magnitude: ir.Expr, form: NarrowFloat) -> ir.Expr:
    """The code nearest to a float32 magnitude. It may be above the largest code."""
    shift = 23 - form.mantissa
    below_half = _u32((1 << (shift - 1)) - 1)
    tie = (magnitude >> _u32(shift)) & _u32(1)
    rebias = _u32((127 - form.bias) << form.mantissa)
    normal = ((magnitude + below_half + tie) >> _u32(shift)) - rebias
    if form.bias == 127:
        return normal
    # Adding a number whose last mantissa bit has the value of the format's smallest number leaves the code in the low
    # bits.
    anchor = 2.0 ** (23 + 1 - form.bias - form.mantissa)
    anchor_bits = (23 + 1 - form.bias - form.mantissa + 127) << 23
    shifted = tirx.reinterpret("float32", magnitude) + _f32(anchor)
    subnormal = tirx.reinterpret("uint32", shifted) - _u32(anchor_bits)
    return tirx.Select(magnitude < _u32((128 - form.bias) << 23), subnormal, normal)


def _special_codes(form: NarrowFloat, saturate: bool) -> tuple[int, int]:
    """The codes for a magnitude above the largest number, and for NaN."""
    nan = form.sign if form.unsigned_zero else form.nan or 0
    if saturate or form.bits == 4:
        return form.largest, nan
    return form.infinity if form.infinity is not None else nan, nan


def encode_e8m0(value: ir.Expr, round_mode: str, *, saturate: bool) -> ir.Expr:
    """The code of a power of two near a float32 value, by `round_mode`: `up`, `down`, or `nearest` (ties up).

    Without `saturate`, zero and values below 2**-127 or above 2**127 become NaN. Negative numbers become NaN.
    """
    bits = tirx.reinterpret("uint32", value)
    exponent, fraction = bits >> _u32(23), bits & _u32(0x7FFFFF)
    smallest = exponent == _u32(0)
    # The float32 subnormals: 0x400000 is 2**-127, the code 0.
    if round_mode == "up":
        step = fraction > tirx.Select(smallest, _u32(0x400000), _u32(0))
    elif round_mode == "nearest":
        step = fraction >= tirx.Select(smallest, _u32(0x600000), _u32(0x400000))
    else:
        step = tirx.const(False, "bool")
    code = exponent + tirx.Cast("uint32", step)
    if saturate:
        code = tirx.Select(bits == _u32(0x7F800000), _u32(0xFE), tirx.min(code, _u32(0xFE)))
    else:
        code = tirx.Select(bits < _u32(0x400000), _u32(0xFF), tirx.min(code, _u32(0xFF)))
    return tirx.Cast("uint8", tirx.Select(bits > _u32(0x7F800000), _u32(0xFF), code))


def wrap(value: ir.Expr, dtype: str) -> ir.Expr:
    """The low bits of an integer as an element of int4, uint4, int2 or uint2, in storage dtype."""
    width, signed = _INTEGERS[dtype]
    if not signed:
        return tirx.Cast("uint8", value) & tirx.const((1 << width) - 1, "uint8")
    low = tirx.Cast("int32", value) & tirx.const((1 << width) - 1, "int32")
    half = tirx.const(1 << (width - 1), "int32")
    return tirx.Cast("int8", (low ^ half) - half)


def _to_float32(value: ir.Expr) -> ir.Expr:
    """A number as float32. A float64 between two float32 is rounded to the odd one; a second rounding then gives the
    same result as a single one."""
    if str(value.ty.dtype) != "float64":
        return value if str(value.ty.dtype) == "float32" else tirx.Cast("float32", value)
    nearest = tirx.Cast("float32", value)
    bits = tirx.reinterpret("uint32", nearest)
    back = tirx.Cast("float64", nearest)
    step = tirx.Select(tirx.abs(back) > tirx.abs(value), _u32(0xFFFFFFFF), _u32(1))
    inexact = tirx.all(tirx.any(back < value, back > value), (bits & _u32(1)) == _u32(0))
    return tirx.reinterpret("float32", tirx.Select(inexact, bits + step, bits))


def _u32(value: int) -> ir.Expr:
    return tirx.const(value, "uint32")


def _f32(value: float) -> ir.Expr:
    return tirx.const(value, "float32")
