"""Numbers as strings, the way ONNX Runtime prints them in Cast.

    integers    12, -7; booleans are 1 and 0
    floats      the 8 most significant digits without zeros at the end, rounded from the exact number, halves to even:
                0.1, 0.30000001, 1e+10, 9.9999997e-06, -0; as C's "%.8g" does it
    others      NaN, INF, -INF

Each string has the same room in the array of bytes, so that its size is known when the model is built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from tvm import ir, te, tirx

from deploykit.compiler.operators.building.imperative import Array, Cell, Code, imperative
from deploykit.compiler.operators.building.integers import equal
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.strings.decimals import (
    exponent,
    left,
    low_bits,
    negated,
    normalised,
    powers,
    product,
    right,
    rounded,
    unsigned,
)
from deploykit.compiler.operators.strings.spans import flat, span_of, string_of

if TYPE_CHECKING:
    from deploykit.compiler.operators.building.context import Context

_DIGITS = 8
_ROOM = {"bool": 1, "int8": 4, "uint8": 3, "int16": 6, "uint16": 5, "int32": 11, "uint32": 10}
_ROOM_OF_INTEGERS = 20
_ROOM_OF_FLOATS = 16
_POWERS = {"float64": (-301, 331)}
"""The powers of ten that make 8 digits of a float of this dtype; for others, those of float32 are enough."""
_POWERS_OF_FLOATS = (-32, 53)


def printed(number: object) -> str:
    """A number of NumPy as a string."""
    if isinstance(number, float | np.floating) or np.asarray(number).dtype.kind not in "iub":
        value = float(number)  # type: ignore[arg-type]
        names = {np.inf: "INF", -np.inf: "-INF"}
        return "NaN" if np.isnan(value) else names.get(value, f"{value:.{_DIGITS}g}")
    return str(int(number))  # type: ignore[call-overload]


def to_strings(ctx: Context, x: Value) -> Value:
    """The numbers of `x` as strings."""
    if x.array is not None:
        return ctx.constant(np.array([printed(n) for n in x.array.reshape(-1)], object).reshape(x.shape))
    floats = "float" in x.dtype
    room = _ROOM_OF_FLOATS if floats else _ROOM.get(x.dtype, _ROOM_OF_INTEGERS)
    wide = "float64" if floats else "uint64" if x.dtype == "uint64" else "int64"
    numbers = flat(ctx, ctx.cast(x, wide))
    count, first_power = numbers.shape[0], _POWERS.get(x.dtype, _POWERS_OF_FLOATS)[0]
    tables = [ctx.constant(powers(*_POWERS.get(x.dtype, _POWERS_OF_FLOATS)))] if floats else []

    def write(code: Code, data: Array, *arrays: Array) -> None:
        *table, spans, letters = arrays
        with code.loop("i", count) as i:
            text = _Text(code, letters, i, room)
            if floats:
                _print_float(code, data[i], table[0], first_power, text)
            else:
                _print_integer(code, data[i], text)
            spans[i] = text.span()

    def build(*tensors: te.Tensor) -> list[te.Tensor]:
        return imperative("printed", tensors, [((count,), "int64"), ((count, room), "uint8")], write)

    spans, letters = ctx.kernel("printed", build, numbers, *tables, dtype=("int64", "uint8"))
    return string_of(ctx.reshape(spans, x.shape), flat(ctx, letters))


class _Text:
    """The string of one number, written from the left; the rest of its room is filled with zeros."""

    def __init__(self, code: Code, letters: Array, row: ir.Expr, room: int) -> None:
        self.code, self.letters, self.row, self.room = code, letters, row, room
        self.size = code.cell("size", 0)

    def put(self, letter: ir.Expr | str) -> None:
        given = tirx.const(ord(letter), "uint8") if isinstance(letter, str) else tirx.Cast("uint8", letter)
        self.letters[self.row, self.size.value] = given
        self.size.value += 1

    def put_digit(self, digit: ir.Expr) -> None:
        self.put(digit + tirx.const(ord("0"), str(digit.ty.dtype)))

    def word(self, word: str) -> None:
        for letter in word:
            self.put(letter)

    def span(self) -> ir.Expr:
        with self.code.loop("k", self.room - self.size.value) as k:
            self.letters[self.row, self.size.value + k] = 0
        return span_of(self.row * self.room, self.size.value)


def _print_integer(code: Code, value: ir.Expr, text: _Text) -> None:
    rest = code.cell("whole", tirx.Cast("uint64", value))
    if str(value.ty.dtype) == "int64":
        with code.when(value < 0):
            text.put("-")
            rest.value = negated(rest.value)
    power = code.cell("power", unsigned(1))
    with code.repeat(tirx.truncdiv(rest.value, power.value) >= unsigned(10)):
        power.value *= unsigned(10)
    with code.repeat(power.value > unsigned(0)):
        text.put_digit(tirx.truncdiv(rest.value, power.value))
        rest.value = tirx.truncmod(rest.value, power.value)
        power.value = tirx.truncdiv(power.value, unsigned(10))


def _print_float(code: Code, value: ir.Expr, table: Array, first_power: int, text: _Text) -> None:
    bits = code.cell("bits", tirx.reinterpret("uint64", value))
    field = code.cell("field", tirx.Cast("int64", low_bits(right(bits.value, 52), 11)))
    mantissa = code.cell("mantissa", low_bits(bits.value, 52))
    special = equal(field.value, 0x7FF)
    with code.when(tirx.all(special, mantissa.value > unsigned(0))):
        text.word("NaN")
    with code.when(tirx.Not(tirx.all(special, mantissa.value > unsigned(0)))):
        with code.when(right(bits.value, 63) > unsigned(0)):
            text.put("-")
        with code.when(special):
            text.word("INF")
        with code.when(tirx.all(equal(field.value, 0), equal(mantissa.value, unsigned(0)))):
            text.put("0")
        with code.when(tirx.all(tirx.Not(special), tirx.any(field.value > 0, mantissa.value > unsigned(0)))):
            with code.when(field.value > 0):
                mantissa.value += left(unsigned(1), 52)
            digits, place = _digits(code, mantissa, tirx.max(field.value, 1) - 1075, table, first_power)
            _lay_out(code, digits, place, text)


def _digits(code: Code, mantissa: Cell, scale: ir.Expr, table: Array, first_power: int) -> tuple[Cell, Cell]:
    """The 8 digits of `mantissa * 2**scale` as an integer, and the power of ten of the first one. The power is that of
    the highest bit at first, or the next one if there are too many digits."""
    moved = normalised(code, mantissa)
    binary = code.cell("binary", scale - moved.value)
    place = code.cell("place", tirx.shift_right((binary.value + 63) * 315653, tirx.const(20, "int64")))
    digits = code.cell("digits", unsigned(10**_DIGITS))
    place.value -= 1
    with code.repeat(digits.value >= unsigned(10**_DIGITS)):
        place.value += 1
        power = code.cell("power", _DIGITS - 1 - place.value)
        top, middle, low = product(code, mantissa.value, table, power.value - first_power)
        shift = code.cell("shift", 0 - binary.value - exponent(power.value) - 128)
        exact = tirx.all(power.value >= 0, low.value > unsigned(0))
        digits.value = rounded(code, top.value, shift.value, tirx.any(middle.value > unsigned(0), exact)).value
    return digits, place


def _lay_out(code: Code, digits: Cell, place: Cell, text: _Text) -> None:
    """Write digits, the first of which counts `10**place`."""
    count = code.cell("count", _DIGITS)
    with code.repeat(equal(tirx.truncmod(digits.value, unsigned(10)), unsigned(0))):
        digits.value = tirx.truncdiv(digits.value, unsigned(10))
        count.value -= 1
    plain = code.cell("plain", tirx.all(place.value >= -4, place.value < _DIGITS))
    point = code.cell("point", tirx.Select(plain.value, place.value, tirx.const(0, "int64")))
    with code.when(point.value < 0):
        text.word("0.")
        with code.loop("zeros", 0 - point.value - 1):
            text.put("0")
    power = code.cell("power", unsigned(1))
    with code.loop("more", count.value - 1):
        power.value *= unsigned(10)
    with code.loop("k", count.value) as k:
        text.put_digit(tirx.truncdiv(digits.value, power.value))
        digits.value = tirx.truncmod(digits.value, power.value)
        power.value = tirx.max(tirx.truncdiv(power.value, unsigned(10)), unsigned(1))
        with code.when(tirx.all(equal(k, point.value), k < count.value - 1)):
            text.put(".")
    with code.loop("zeros", tirx.max(point.value - count.value + 1, 0)):
        text.put("0")
    with code.when(tirx.Not(plain.value)):
        text.put("e")
        text.put(tirx.Select(place.value < 0, tirx.const(ord("-"), "int64"), tirx.const(ord("+"), "int64")))
        size = code.cell("power_of_ten", tirx.abs(place.value))
        with code.when(size.value >= 100):
            text.put_digit(size.value // 100)
        text.put_digit(size.value // 10 % 10)
        text.put_digit(size.value % 10)
