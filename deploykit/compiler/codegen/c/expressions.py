"""Prints TIR expressions as C expressions.

Parentheses say which operands belong to an operator wherever operators of several levels meet.

Integer arithmetic on values that come from memory wraps around as in TIR: support functions compute it on unsigned
integers. Index arithmetic is written plainly. Division by a value from memory gives 0 for a zero divisor. Casts of
float values from memory to integers saturate. float16 values are `float` expressions that are rounded to half precision
after each operation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tvm_ffi
from tvm.ir import Call, TensorLoad, Var
from tvm.ir.prim import expr as prim

from deploykit.compiler.codegen.c import calls, types
from deploykit.compiler.codegen.c.precedence import (
    ADD,
    AND,
    BITS,
    EQUALITY,
    MULTIPLY,
    OR,
    PRIMARY,
    RELATION,
    TERNARY,
    UNARY,
    Text,
    call,
    cast,
    rounded,
    to_half,
)
from deploykit.compiler.codegen.rounding import rounded_within
from deploykit.compiler.tir.loaded_values import depends_on_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tvm.ir import Expr
    from tvm.sym import Analyzer

_ARITHMETIC = {prim.Add: ("+", ADD, "add"), prim.Sub: ("-", ADD, "sub"), prim.Mul: ("*", MULTIPLY, "mul")}
_COMPARISONS = {
    prim.LT: ("<", RELATION),
    prim.LE: ("<=", RELATION),
    prim.GT: (">", RELATION),
    prim.GE: (">=", RELATION),
    prim.EQ: ("==", EQUALITY),
    prim.NE: ("!=", EQUALITY),
}
_BIT_OPERATORS = {prim.BitwiseAnd: "&", prim.BitwiseOr: "|", prim.BitwiseXor: "^"}
_DIVISIONS = {prim.Div: "div", prim.Mod: "mod", prim.FloorDiv: "floordiv", prim.FloorMod: "floormod"}
_SINGLE = ("float16", "float32")
_EXACT = 2.0**22
"""The largest magnitude that `nearest_i32` takes."""


class ExpressionPrinter:
    """Prints expressions of one kernel.

    `name_of` gives the name of a scalar variable, `buffer_of` the name of a buffer. `analyzer` knows the bounds of the
    variables; `from_memory` holds the variables that are bound to values read from buffers.
    """

    def __init__(self, name_of: Callable[[Var], str], buffer_of: Callable[[Var], str], analyzer: Analyzer) -> None:
        self.name_of = name_of
        self.buffer_of = buffer_of
        self.analyzer = analyzer
        self.from_memory: set[Var] = set()
        self._indexing = False

    def value(self, expr: Expr) -> str:
        """The text of a value to be stored, bound, passed or tested."""
        return self.print(expr).text

    def index(self, expr: Expr) -> str:
        """The text of an index or of the start of a loop, whose arithmetic does not overflow."""
        return self._index(expr).text

    def operand(self, expr: Expr) -> str:
        """The same as an operand of any operator."""
        return self._index(expr).at(UNARY)

    def _index(self, expr: Expr) -> Text:
        before, self._indexing = self._indexing, True
        text = self.print(expr)
        self._indexing = before
        return text

    def half_bits(self, expr: Expr) -> str:
        """The text of a float16 value as the `uint16_t` that is stored."""
        if isinstance(expr, TensorLoad):
            return self.element(expr)
        if isinstance(expr, prim.Cast) and types.dtype_of(expr.value) == "float64":
            return f"double_to_half({self.value(expr.value)})"
        text = self.print(expr)
        return f"float_to_half({text.unrounded or text.text})"

    def reads_memory(self, expr: Expr) -> bool:
        """Whether the value depends on the contents of a buffer."""
        return depends_on_memory(expr, self.from_memory)

    def literal(self, text: str) -> str:
        """The text of an integer literal."""
        return text

    def support(self, function: str, *args: str) -> Text:
        """A call of a support function."""
        return call(function, *args)

    def choice(self, condition: Expr, chosen: Expr, otherwise: Expr) -> Text:
        yes, no = self.print(chosen), self.print(otherwise)
        text = f"{self.print(condition).at(UNARY)} ? {yes.at(UNARY)} : {no.at(TERNARY)}"
        return Text(text, TERNARY, yes.wide or no.wide)

    def print(self, expr: Expr) -> Text:
        """Print any expression. Raises `ValueError` for one that cannot be written in C, such as a vector."""
        handler = self._handlers.get(type(expr))
        if handler is None:
            raise ValueError(f"no C for the expression {type(expr).__name__}: {expr}")
        return handler(self, expr)

    def _var(self, var: Var) -> Text:
        return Text(self.name_of(var))

    def _integer(self, literal: prim.IntImm) -> Text:
        dtype = types.dtype_of(literal)
        text = self.literal(types.integer_literal(int(literal.value), dtype))
        wide = dtype not in ("int64", "uint64") or text.endswith((")", "_MIN"))
        return Text(text, UNARY if text.startswith("-") else PRIMARY, wide)

    def _float(self, literal: prim.FloatImm) -> Text:
        text = types.float_literal(float(literal.value), types.dtype_of(literal))
        return Text(text, UNARY if text.startswith("-") else PRIMARY)

    def _load(self, load: TensorLoad) -> Text:
        if types.dtype_of(load) == "float16":
            return self.support("half_to_float", self.element(load))
        return Text(self.element(load))

    def element(self, load: TensorLoad) -> str:
        """The text of an element of a buffer, as it is stored."""
        return f"{self.buffer_of(load.source)}[{self.position(load.indices)}]"

    def position(self, indices: Sequence[Expr]) -> str:
        """The text between the brackets of an access."""
        if len(indices) != 1:
            raise ValueError(f"an access with {len(indices)} indices is left after flattening")
        return self.index(indices[0])

    def _operands(self, dtype: str, a: Expr, b: Expr) -> tuple[Text, Text]:
        """Both operands, widened if needed so that C computes with at least the bits of the dtype."""
        left, right = self.print(a), self.print(b)
        if not left.wide and not right.wide:
            left = cast(types.value_type(dtype), left)
        return left, right

    def _arithmetic(self, expr: prim.BinaryOpExpr) -> Text:
        symbol, level, name = _ARITHMETIC[type(expr)]
        dtype = types.dtype_of(expr)
        if dtype in ("int32", "int64") and not self._indexing and self.reads_memory(expr):
            return self.support(f"{name}_{types.short(dtype)}", self.value(expr.a), self.value(expr.b))
        left, right = self._operands(dtype, expr.a, expr.b)
        if dtype == "uint16" and symbol == "*":
            left = cast("uint32_t", left)
        if symbol == "+" and isinstance(expr.b, prim.IntImm) and right.text.startswith("-"):
            symbol, right = "-", Text(right.text[1:])
        text = Text(f"{left.at(level)} {symbol} {right.at(UNARY)}", level)
        return rounded(dtype, _narrowed(dtype, text))

    def _comparison(self, expr: prim.CmpExpr) -> Text:
        symbol, level = _COMPARISONS[type(expr)]
        known = _known_comparison(symbol, expr.a, expr.b)
        if known is not None:
            return Text(known)
        return Text(f"{self.print(expr.a).at(UNARY)} {symbol} {self.print(expr.b).at(UNARY)}", level)

    def _division(self, expr: prim.BinaryOpExpr) -> Text:
        dtype = types.dtype_of(expr)
        left, right = self._operands(dtype, expr.a, expr.b)
        name = _DIVISIONS[type(expr)]
        if not types.is_float(dtype) and not self._divides_plainly(expr):
            return self.support(f"{name}_{types.short(dtype)}", left.text, right.text)
        symbol = "%" if name.endswith("mod") else "/"
        return rounded(dtype, _narrowed(dtype, Text(f"{left.at(MULTIPLY)} {symbol} {right.at(UNARY)}", MULTIPLY)))

    def _divides_plainly(self, expr: prim.BinaryOpExpr) -> bool:
        """Whether C's `/` and `%` give the right result for all operands that can occur, and never trap."""
        positive = isinstance(expr.b, prim.IntImm) and int(expr.b.value) > 0
        if not positive and (self.reads_memory(expr.b) or not self._at_least(expr.b, 1)):
            return False
        rounds_to_zero = type(expr) in (prim.Div, prim.Mod) or types.is_unsigned(types.dtype_of(expr))
        return rounds_to_zero or self._at_least(expr.a, 0)

    def _at_least(self, expr: Expr, bound: int) -> bool:
        return int(self.analyzer.const_int_bound(expr).min_value) >= bound

    def _bits(self, expr: prim.BinaryOpExpr) -> Text:
        dtype = types.dtype_of(expr)
        left, right = self._operands(dtype, expr.a, expr.b)
        text = Text(f"{left.at(UNARY)} {_BIT_OPERATORS[type(expr)]} {right.at(UNARY)}", BITS)
        return _narrowed(dtype, text)

    def _not_bits(self, expr: prim.BitwiseNot) -> Text:
        dtype, operand = types.dtype_of(expr), self.print(expr.a)
        if not operand.wide:
            operand = cast(types.value_type(dtype), operand)
        return _narrowed(dtype, Text(f"~{operand.at(UNARY)}", UNARY))

    def _shift(self, expr: prim.BinaryOpExpr) -> Text:
        name = "shl" if isinstance(expr, prim.LShift) else "shr"
        return self.support(f"{name}_{types.short(types.dtype_of(expr))}", self.value(expr.a), self.value(expr.b))

    def _extremum(self, expr: prim.BinaryOpExpr) -> Text:
        name = "max" if isinstance(expr, prim.Max) else "min"
        dtype = types.computed(types.dtype_of(expr))
        return self.support(f"{name}_{types.short(dtype)}", self.value(expr.a), self.value(expr.b))

    def _and(self, expr: prim.And) -> Text:
        return Text(f"{self.print(expr.a).at(AND)} && {self.print(expr.b).at(AND)}", AND)

    def _or(self, expr: prim.Or) -> Text:
        return Text(f"{self.print(expr.a).at(OR)} || {self.print(expr.b).at(OR)}", OR)

    def _not(self, expr: prim.Not) -> Text:
        return Text(f"!{self.print(expr.a).at(UNARY)}", UNARY)

    def _select(self, expr: prim.Select) -> Text:
        return self.choice(expr.condition, expr.true_value, expr.false_value)

    def _let(self, expr: prim.Let) -> Text:
        return self.print(tvm_ffi.structural_map(expr.body, (Var, lambda v: expr.value if v.same_as(expr.var) else v)))

    def _cast(self, expr: prim.Cast) -> Text:
        source, target = types.dtype_of(expr.value), types.dtype_of(expr)
        operand = self.print(expr.value)
        if target == "bool":
            return Text(f"{operand.at(UNARY)} != {'0.0f' if source in _SINGLE else '0'}", EQUALITY)
        if target == "float16":
            return _cast_to_half(source, operand)
        if (source, target) == ("float32", "int32") and rounded_within(expr.value, _EXACT):
            return self.support("nearest_i32", self.value(expr.value.args[0]))
        if types.is_float(source) and not types.is_float(target) and self.reads_memory(expr.value):
            return self.support(f"{types.short(types.computed(source))}_to_{types.short(target)}", operand.text)
        if types.value_type(source) == types.value_type(target):
            return operand
        return cast(types.value_type(target), operand)

    def _call(self, expr: Call) -> Text:
        return calls.print_call(self, expr)

    _handlers: dict[type, Callable[[ExpressionPrinter, Any], Text]] = {  # noqa: RUF012
        **dict.fromkeys(_ARITHMETIC, _arithmetic),
        **dict.fromkeys(_COMPARISONS, _comparison),
        **dict.fromkeys(_DIVISIONS, _division),
        **dict.fromkeys(_BIT_OPERATORS, _bits),
        Var: _var,
        prim.IntImm: _integer,
        prim.FloatImm: _float,
        TensorLoad: _load,
        prim.BitwiseNot: _not_bits,
        prim.LShift: _shift,
        prim.RShift: _shift,
        prim.Min: _extremum,
        prim.Max: _extremum,
        prim.And: _and,
        prim.Or: _or,
        prim.Not: _not,
        prim.Select: _select,
        prim.Let: _let,
        prim.Cast: _cast,
        Call: _call,
    }


def _narrowed(dtype: str, text: Text) -> Text:
    """`text` cut back to 8 or 16 bits where the dtype has so few, because C computes on `int` at least."""
    if types.is_float(dtype) or dtype == "bool" or types.bits(dtype) >= 32:
        return text
    return cast(types.value_type(dtype), text)


def _cast_to_half(source: str, operand: Text) -> Text:
    if source == "float16":
        return operand
    if source == "float64":
        return call("half_to_float", f"double_to_half({operand.text})")
    return to_half(operand.text if source == "float32" else cast("float", operand).text)


def _known_comparison(symbol: str, a: Expr, b: Expr) -> str | None:
    """The outcome of comparing an integer with an end of its dtype's range, if it is fixed: compilers warn about it."""
    dtype = types.dtype_of(a)
    if not isinstance(b, prim.IntImm) or dtype in ("bool", "int32", "int64"):
        return None
    low, high = types.integer_range(dtype)
    literal = int(b.value) % (high + 1) if types.is_unsigned(dtype) else int(b.value)
    return {("<", low): "0", (">=", low): "1", (">", high): "0", ("<=", high): "1"}.get((symbol, literal))
