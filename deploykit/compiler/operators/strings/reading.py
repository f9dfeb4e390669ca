"""Strings as numbers: the whole string, apart from whitespace at its ends, must be a number.

    floats      1, -0.5, .5, 5., 1e-3, +2E4; nan, inf and infinity in any case, with a sign. The result is the float64
                that is next to the number, halves to even, and then rounded to the dtype. Of more than 19 digits the
                others are cut off, unless the first leave a tie; the last bit may then be wrong. Numbers beyond all
                floats become inf and 0.
    integers    -12, +7; a fraction is cut off. The number must fit into 64 bits; a narrower dtype keeps its low bits,
                and a negative number becomes `2**64` more for unsigned dtypes.

Every other string is refused when the model runs. ONNX Runtime ignores what follows a number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tvm import ir, te, tirx

from deploykit.compiler.operators.building.broadcast import elementwise
from deploykit.compiler.operators.building.imperative import Array, Cell, Code, imperative
from deploykit.compiler.operators.building.indices import checked
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
from deploykit.compiler.operators.strings.spans import flat, length, start, text_of

if TYPE_CHECKING:
    from deploykit.compiler.operators.building.context import Context

_LEAST_POWER, _GREATEST_POWER = -342, 308
_TIES = (-4, 23)
"""The powers of ten by which an integer of 64 bits can lie exactly between two floats of 53 bits."""
_SIGNIFICANT = 19
_LARGEST_EXPONENT = 100_000


def to_numbers(ctx: Context, x: Value, dtype: str) -> Value:
    """The strings of `x` as numbers of `dtype`. A run refuses other strings."""
    text, floats = text_of(ctx, x), "float" in dtype
    wide = "float64" if floats else "uint64" if dtype.startswith("uint") or dtype == "bool" else "int64"
    count = ctx.product(x.shape)
    tables = [ctx.constant(powers(_LEAST_POWER, _GREATEST_POWER))] if floats else []

    def write(code: Code, spans: Array, data: Array, *arrays: Array) -> None:
        *table, numbers, bad = arrays
        with code.loop("i", count) as i:
            scan = _Scan(code, data, spans[i])
            if floats:
                number, good = _read_float(code, scan, table[0])
            else:
                number, good = _read_integer(code, scan, signed=wide == "int64")
            numbers[i] = number
            bad[i] = tirx.Cast("int64", tirx.Not(good))

    def build(*tensors: te.Tensor) -> list[te.Tensor]:
        return imperative("read", tensors, [((count,), wide), ((count,), "int64")], write)

    numbers, bad = ctx.kernel("read", build, flat(ctx, text.spans), text.data, *tables, dtype=(wide, "int64"))
    bad = checked(ctx, bad, [(0, 0)], position=0, what="strings that are no number in")
    read = ctx.reshape(elementwise(ctx, "read", lambda number, _: number, numbers, bad), x.shape)
    return ctx.cast(ctx.cast(read, "float32") if dtype in ("float16", "bfloat16") else read, dtype)


class _Scan:
    """A position in a string: `at` moves from the first character that is not whitespace to `end`."""

    def __init__(self, code: Code, data: Array, span: ir.Expr) -> None:
        self.code, self.data = code, data
        self.at = code.cell("at", start(span))
        self.end = code.cell("end", start(span) + length(span))
        self.skip(lambda byte: tirx.any(equal(byte, 32), tirx.all(byte >= 9, byte <= 13)))
        going = code.cell("going", self.more)
        with code.repeat(going.value):
            last = code.cell("last", tirx.Cast("int64", data[self.end.value - 1]))
            going.value = tirx.any(equal(last.value, 32), tirx.all(last.value >= 9, last.value <= 13))
            with code.when(going.value):
                self.end.value -= 1
                going.value = self.more

    @property
    def more(self) -> ir.Expr:
        return self.at.value < self.end.value

    def skip(self, belongs: Callable[[ir.Expr], ir.Expr], use: Callable[[ir.Expr], None] | None = None) -> None:
        """Move behind the characters that belong; `use` gets each of them before that."""
        going = self.code.cell("going", self.more)
        with self.code.repeat(going.value):
            byte = self.code.cell("byte", tirx.Cast("int64", self.data[self.at.value]))
            going.value = belongs(byte.value)
            with self.code.when(going.value):
                if use is not None:
                    use(byte.value)
                self.at.value += 1
                going.value = self.more

    def digits(self, use: Callable[[ir.Expr], None]) -> None:
        """Move behind digits; `use` gets each of them as a number."""
        self.skip(lambda byte: tirx.all(byte >= ord("0"), byte <= ord("9")), lambda byte: use(byte - ord("0")))

    def take(self, *letters: str) -> Cell:
        """Move behind one of the letters, if it comes next. Returns a cell with the letter, or 0."""
        found = self.code.cell("found", 0)
        with self.code.when(self.more):
            byte = self.code.cell("byte", tirx.Cast("int64", self.data[self.at.value]))
            with self.code.when(tirx.any(*(equal(byte.value, ord(letter)) for letter in letters))):
                found.value = byte.value
                self.at.value += 1
        return found

    def take_word(self, word: str) -> Cell:
        """Move to the end if the rest is the word, in any case. Returns a cell that says so."""
        same = self.code.cell("same", equal(self.end.value - self.at.value, len(word)))
        with self.code.when(same.value):
            bytes_ = [tirx.Cast("int64", self.data[self.at.value + k]) for k in range(len(word))]
            lower = [tirx.bitwise_or(byte, tirx.const(32, "int64")) for byte in bytes_]
            same.value = tirx.all(*(equal(b, ord(c)) for b, c in zip(lower, word, strict=True)))
            with self.code.when(same.value):
                self.at.value = self.end.value
        return same


def _read_integer(code: Code, scan: _Scan, *, signed: bool) -> tuple[ir.Expr, ir.Expr]:
    negative = code.cell("negative", equal(scan.take("+", "-").value, ord("-")))
    value, count = code.cell("value", unsigned(0)), code.cell("count", 0)
    fits = code.cell("fits", tirx.const(1, "bool"))
    limit, last = divmod((1 << 64) - 1, 10)

    def add(digit: ir.Expr) -> None:
        number = code.cell("digit", tirx.Cast("uint64", digit))
        tight = tirx.all(equal(value.value, unsigned(limit)), number.value > unsigned(last))
        fits.value = tirx.all(fits.value, tirx.Not(tirx.any(value.value > unsigned(limit), tight)))
        value.value = value.value * unsigned(10) + number.value
        count.value += 1

    scan.digits(add)
    with code.when(scan.take(".").value > 0):
        scan.digits(lambda _: None)
    if signed:
        least = tirx.all(negative.value, equal(left(value.value, 1), unsigned(0)))
        fits.value = tirx.all(fits.value, tirx.any(least, equal(right(value.value, 63), unsigned(0))))
    number = tirx.Select(negative.value, negated(value.value), value.value)
    good = tirx.all(fits.value, count.value > 0, tirx.Not(scan.more))
    return (tirx.Cast("int64", number) if signed else number), good


def _read_float(code: Code, scan: _Scan, table: Array) -> tuple[ir.Expr, ir.Expr]:
    negative = code.cell("negative", equal(scan.take("+", "-").value, ord("-")))
    bits, good = code.cell("bits", unsigned(0)), code.cell("good", tirx.const(1, "bool"))
    nan, inf, infinity = (scan.take_word(word) for word in ("nan", "inf", "infinity"))
    named = code.cell("named", tirx.any(nan.value, inf.value, infinity.value))
    with code.when(named.value):
        quiet = tirx.Select(nan.value, left(unsigned(1), 51), unsigned(0))
        bits.value = left(unsigned(0x7FF), 52) + quiet
    with code.when(tirx.Not(named.value)):
        digits, scale, lost, count = _read_digits(code, scan)
        _read_exponent(code, scan, scale, good)
        good.value = tirx.all(good.value, count.value > 0, tirx.Not(scan.more))
        with code.when(digits.value > unsigned(0)):
            _nearest(code, digits, scale, lost, table, bits)
    minus = tirx.Cast("uint64", tirx.all(negative.value, tirx.Not(nan.value)))
    bits.value += left(minus, 63)
    return tirx.reinterpret("float64", bits.value), good.value


def _read_digits(code: Code, scan: _Scan) -> tuple[Cell, Cell, Cell, Cell]:
    """Cells with the first significant digits as an integer, the power of ten that it is multiplied by, whether other
    digits that are not 0 are lost, and the number of digits."""
    value, scale, count = code.cell("value", unsigned(0)), code.cell("scale", 0), code.cell("count", 0)
    kept, lost = code.cell("kept", 0), code.cell("lost", tirx.const(0, "bool"))

    def add(digit: ir.Expr, behind: int) -> None:
        """Add a digit, `behind` the point if that is 1."""
        fits = code.cell("fits", kept.value < _SIGNIFICANT)
        with code.when(fits.value):
            value.value = value.value * unsigned(10) + tirx.Cast("uint64", digit)
            kept.value += tirx.Cast("int64", value.value > unsigned(0))
            scale.value -= behind
        with code.when(tirx.Not(fits.value)):
            lost.value = tirx.any(lost.value, digit > 0)
            scale.value += 1 - behind
        count.value += 1

    scan.digits(lambda digit: add(digit, 0))
    with code.when(scan.take(".").value > 0):
        scan.digits(lambda digit: add(digit, 1))
    return value, scale, lost, count


def _read_exponent(code: Code, scan: _Scan, scale: Cell, good: Cell) -> None:
    """Add the exponent to `scale`, if there is one; one without digits is not `good`."""
    with code.when(scan.take("e", "E").value > 0):
        negative = code.cell("down", equal(scan.take("+", "-").value, ord("-")))
        size, count = code.cell("size", 0), code.cell("places", 0)

        def add(digit: ir.Expr) -> None:
            size.value = tirx.min(size.value * 10 + digit, tirx.const(_LARGEST_EXPONENT, "int64"))
            count.value += 1

        scan.digits(add)
        scale.value += tirx.Select(negative.value, 0 - size.value, size.value)
        good.value = count.value > 0


def _nearest(code: Code, digits: Cell, scale: Cell, lost: Cell, table: Array, bits: Cell) -> None:
    """Write the bits of the float64 that is next to `digits * 10**scale`; `bits` has those of 0."""
    with code.when(scale.value > _GREATEST_POWER):
        bits.value = left(unsigned(0x7FF), 52)
    with code.when(tirx.all(scale.value >= _LEAST_POWER, scale.value <= _GREATEST_POWER)):
        moved = normalised(code, digits)
        top, middle, low = product(code, digits.value, table, scale.value - _LEAST_POWER)
        with code.when(equal(right(top.value, 63), unsigned(0))):
            top.value = left(top.value, 1) + right(middle.value, 63)
            middle.value = left(middle.value, 1)
            moved.value += 1
        binary = code.cell("binary", 191 + exponent(scale.value) - moved.value)
        tie = tirx.all(scale.value >= _TIES[0], scale.value <= _TIES[1], tirx.Not(lost.value))
        beyond = code.cell("beyond", tirx.any(tirx.Not(tie), middle.value > unsigned(0)))
        beyond.value = tirx.any(beyond.value, tirx.all(scale.value >= 0, low.value > unsigned(0)))
        shift = code.cell("shift", 11 + tirx.max(-1022 - binary.value, 0))
        extra = code.cell("extra", tirx.min(tirx.max(shift.value - 63, 0), 63))
        beyond.value = tirx.any(beyond.value, low_bits(top.value, extra.value) > unsigned(0))
        top.value = right(top.value, extra.value)
        found = rounded(code, top.value, tirx.min(shift.value, 63), beyond.value)
        field = tirx.Cast("uint64", tirx.min(tirx.max(binary.value, -1023) + 1023, 0x7FF))
        hidden = tirx.Select(binary.value >= -1022, left(unsigned(1), 52), unsigned(0))
        bits.value = left(field, 52) + found.value - hidden
        with code.when(right(bits.value, 52) >= unsigned(0x7FF)):
            bits.value = left(unsigned(0x7FF), 52)
