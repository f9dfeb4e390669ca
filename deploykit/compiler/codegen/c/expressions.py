"""TIR expressions as C expressions.

Each node becomes a `Text`: what is written, how tightly it binds, and whether its C type is as wide as its dtype (a
small int64 literal has type `int`). Parentheses are written only where the binding needs them or where compilers
warn about their absence.

Integer arithmetic on values that come from memory wraps around as in TIR, by support functions that compute on
unsigned integers; index arithmetic is written plainly. Division by a value from memory gives 0 for a zero divisor.
float16 values are `float` expressions that are rounded to half precision after each operation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import Call, StringImm, TensorLoad, Var
from tvm.ir.prim import expr as prim

from deploykit.compiler.codegen.c import types

if TYPE_CHECKING:
    from collections.abc import Callable

    from tvm.ir import Expr

PRIMARY, UNARY, MULTIPLY, ADD, SHIFT, RELATION, EQUALITY, BITS, AND, OR, TERNARY = range(13, 2, -1)
"""How tightly a text binds, C's precedence levels; the three bit operators share one."""


@dataclass(frozen=True)
class Text:
    """`unrounded` is the text before it was rounded to half precision."""

    text: str
    level: int = PRIMARY
    wide: bool = True
    unrounded: str | None = None

    def at(self, level: int) -> str:
        """The text as an operand that must bind at least as tightly as `level`."""
        return self.text if self.level >= level else f"({self.text})"


_ARITHMETIC = {
    prim.Add: ("+", ADD, "add"),
    prim.Sub: ("-", ADD, "sub"),
    prim.Mul: ("*", MULTIPLY, "mul"),
}
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

MATH = {
    **{f"tirx.{name}": name for name in ("exp", "exp2", "log", "log10", "log1p", "tanh", "erf", "sin", "cos", "tan")},
    **{f"tirx.{name}": name for name in ("asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "sqrt")},
    **{f"tirx.{name}": name for name in ("floor", "trunc", "nearbyint", "fabs", "pow", "fmod", "atan2")},
    **{f"tirx.{name}": name for name in ("hypot", "copysign", "nextafter", "fma")},
    "tirx.round": "nearbyint",
    "prim.ceil": "ceil",
    "prim.log2": "log2",
}
"""Operators that are functions of <math.h>, by their name for double. Rounding goes to even in ties."""


def dtype_of(expr: Expr) -> str:
    return str(expr.ty.dtype)


def short(dtype: str) -> str:
    """`float32` -> `f32`, `uint8` -> `u8`: how support functions name their types."""
    return dtype.replace("float", "f").replace("uint", "u").replace("int", "i")


class ExpressionPrinter:
    """Prints expressions of one kernel.

    `name_of` names scalar variables, `buffer_of` buffers. `analyzer` knows the bounds of the variables; `from_memory`
    holds the variables that are bound to values read from buffers.
    """

    def __init__(
        self,
        name_of: Callable[[Var], str],
        buffer_of: Callable[[Var], str],
        analyzer: tvm.sym.Analyzer,
    ) -> None:
        self.name_of = name_of
        self.buffer_of = buffer_of
        self.analyzer = analyzer
        self.from_memory: set[Var] = set()
        self._indexing = False

    def value(self, expr: Expr) -> str:
        """A value to be stored, bound or tested."""
        return self._print(expr).text

    def index(self, expr: Expr) -> str:
        """An index or a loop bound: its arithmetic does not overflow."""
        return self._index(expr).text

    def reads_memory(self, expr: Expr) -> bool:
        """Whether the value depends on the contents of a buffer."""
        return _contains(expr, self.from_memory)

    def _index(self, expr: Expr) -> Text:
        before, self._indexing = self._indexing, True
        text = self._print(expr)
        self._indexing = before
        return text

    def _call(self, function: str, *args: str) -> Text:
        """A call of a support function, see `support`."""
        return Text(f"{function}({', '.join(args)})")

    def _print(self, expr: Expr) -> Text:
        kind = type(expr)
        if kind in _ARITHMETIC:
            return self._arithmetic(expr)
        if kind in _COMPARISONS:
            return self._comparison(expr)
        if kind in _DIVISIONS:
            return self._division(expr)
        if kind in _BIT_OPERATORS:
            return self._bits(expr)
        handler = _HANDLERS.get(kind)
        if handler is None:
            raise ValueError(f"no C for the expression {kind.__name__}: {expr}")
        return handler(self, expr)

    def _var(self, var: Var) -> Text:
        return Text(self.name_of(var))

    def _integer(self, literal: prim.IntImm) -> Text:
        dtype = dtype_of(literal)
        text = types.integer_literal(int(literal.value), dtype)
        wide = dtype not in ("int64", "uint64") or text.endswith((")", "_MIN"))
        return Text(text, UNARY if text.startswith("-") else PRIMARY, wide)

    def _float(self, literal: prim.FloatImm) -> Text:
        text = types.float_literal(float(literal.value), dtype_of(literal))
        return Text(text, UNARY if text.startswith("-") else PRIMARY)

    def _load(self, load: TensorLoad) -> Text:
        text = f"{self.buffer_of(load.source)}[{self._flat(load.indices)}]"
        if dtype_of(load) == "float16":
            return self._call("half_to_float", text)
        return Text(text)

    def _flat(self, indices: list[Expr]) -> str:
        if len(indices) != 1:
            raise ValueError(f"an access with {len(indices)} indices is left after flattening")
        return self.index(indices[0])

    def _rounded(self, dtype: str, text: Text) -> Text:
        return self._round(text.text) if dtype == "float16" else text

    def _round(self, text: str) -> Text:
        return Text(f"round_to_half({text})", unrounded=text)

    def _narrowed(self, dtype: str, text: Text) -> Text:
        """C computes on `int` at least; cut back to 8 or 16 bits."""
        if types.is_float(dtype) or dtype == "bool" or types.bits(dtype) >= 32:
            return text
        return Text(f"({types.value_type(dtype)}){text.at(UNARY)}", UNARY)

    def _operands(self, dtype: str, a: Expr, b: Expr) -> tuple[Text, Text]:
        left, right = self._print(a), self._print(b)
        if not left.wide and not right.wide:
            left = Text(f"({types.value_type(dtype)}){left.at(UNARY)}", UNARY)
        return left, right

    def _arithmetic(self, expr: prim.BinaryOpExpr) -> Text:
        symbol, level, name = _ARITHMETIC[type(expr)]
        dtype = dtype_of(expr)
        if dtype in ("int32", "int64") and not self._indexing and self.reads_memory(expr):
            return self._call(f"{name}_{short(dtype)}", self.value(expr.a), self.value(expr.b))
        left, right = self._operands(dtype, expr.a, expr.b)
        if dtype == "uint16" and symbol == "*":
            left = Text(f"(uint32_t){left.at(UNARY)}", UNARY)
        if symbol == "+" and isinstance(expr.b, prim.IntImm) and right.text.startswith("-") and right.text[1:].isdigit():
            symbol, right = "-", Text(right.text[1:])
        text = Text(f"{left.at(level)} {symbol} {right.at(level + 1)}", level)
        return self._rounded(dtype, self._narrowed(dtype, text))

    def _comparison(self, expr: prim.CmpExpr) -> Text:
        symbol, level = _COMPARISONS[type(expr)]
        known = _known_comparison(symbol, expr.a, expr.b)
        if known is not None:
            return Text(known)
        return Text(f"{self._print(expr.a).at(level + 1)} {symbol} {self._print(expr.b).at(level + 1)}", level)

    def _division(self, expr: prim.BinaryOpExpr) -> Text:
        dtype = dtype_of(expr)
        if types.is_float(dtype):
            left, right = self._print(expr.a), self._print(expr.b)
            text = Text(f"{left.at(MULTIPLY)} / {right.at(UNARY)}", MULTIPLY)
            return self._rounded(dtype, text)
        name = _DIVISIONS[type(expr)]
        left, right = self._operands(dtype, expr.a, expr.b)
        if not self._divides_plainly(expr):
            return self._narrowed(dtype, self._call(f"{name}_{short(dtype)}", left.text, right.text))
        symbol = "%" if name.endswith("mod") else "/"
        return self._narrowed(dtype, Text(f"{left.at(MULTIPLY)} {symbol} {right.at(UNARY)}", MULTIPLY))

    def _divides_plainly(self, expr: prim.BinaryOpExpr) -> bool:
        """Whether C's `/` and `%` give the same for all operands that can occur, and never trap."""
        positive = isinstance(expr.b, prim.IntImm) and int(expr.b.value) > 0
        if not positive and (self.reads_memory(expr.b) or not self._at_least(expr.b, 1)):
            return False
        rounds_to_zero = type(expr) in (prim.Div, prim.Mod) or types.is_unsigned(dtype_of(expr))
        return rounds_to_zero or self._at_least(expr.a, 0)

    def _at_least(self, expr: Expr, bound: int) -> bool:
        return self.analyzer.const_int_bound(expr).min_value >= bound

    def _bits(self, expr: prim.BinaryOpExpr) -> Text:
        dtype = dtype_of(expr)
        left, right = self._operands(dtype, expr.a, expr.b)
        text = Text(f"{left.at(UNARY)} {_BIT_OPERATORS[type(expr)]} {right.at(UNARY)}", BITS)
        return self._narrowed(dtype, text)

    def _not_bits(self, expr: prim.BitwiseNot) -> Text:
        operand = self._print(expr.a)
        if not operand.wide:
            operand = Text(f"({types.value_type(dtype_of(expr))}){operand.at(UNARY)}", UNARY)
        return self._narrowed(dtype_of(expr), Text(f"~{operand.at(UNARY)}", UNARY))

    def _shift(self, expr: prim.BinaryOpExpr) -> Text:
        dtype = dtype_of(expr)
        name = "shl" if isinstance(expr, prim.LShift) else "shr"
        return self._call(f"{name}_{short(dtype)}", self.value(expr.a), self.value(expr.b))

    def _extremum(self, expr: prim.BinaryOpExpr) -> Text:
        dtype = "float32" if dtype_of(expr) == "float16" else dtype_of(expr)
        name = "max" if isinstance(expr, prim.Max) else "min"
        return self._call(f"{name}_{short(dtype)}", self._print(expr.a).text, self._print(expr.b).text)

    def _and(self, expr: prim.And) -> Text:
        return Text(f"{self._junction_side(expr.a, AND)} && {self._junction_side(expr.b, AND)}", AND)

    def _or(self, expr: prim.Or) -> Text:
        return Text(f"{self._junction_side(expr.a, OR)} || {self._junction_side(expr.b, OR)}", OR)

    def _junction_side(self, expr: Expr, level: int) -> str:
        text = self._print(expr)
        return text.at(level if text.level == level else AND + 1)

    def _not(self, expr: prim.Not) -> Text:
        return Text(f"!{self._print(expr.a).at(UNARY)}", UNARY)

    def _choice(self, condition: Expr, chosen: Expr, otherwise: Expr) -> Text:
        yes, no = self._print(chosen), self._print(otherwise)
        text = f"{self._print(condition).at(TERNARY + 1)} ? {yes.at(TERNARY + 1)} : {no.at(TERNARY)}"
        return Text(text, TERNARY, yes.wide or no.wide)

    def _select(self, expr: prim.Select) -> Text:
        return self._choice(expr.condition, expr.true_value, expr.false_value)

    def _let(self, expr: prim.Let) -> Text:
        body = tvm_ffi.structural_map(expr.body, (Var, lambda v: expr.value if v.same_as(expr.var) else v))
        return self._print(body)

    def _cast(self, expr: prim.Cast) -> Text:
        source, target = dtype_of(expr.value), dtype_of(expr)
        operand = self._print(expr.value)
        if source == target:
            return operand
        if target == "bool":
            return Text(f"{operand.at(EQUALITY + 1)} != {'0.0f' if source in _FLOATS else '0'}", EQUALITY)
        if target == "float16":
            return self._to_half(source, operand)
        if types.is_float(source) and not types.is_float(target):
            return self._call(f"{short(_computed(source))}_to_{short(target)}", operand.text)
        if types.value_type(source) == types.value_type(target):
            return operand
        return Text(f"({types.value_type(target)}){operand.at(UNARY)}", UNARY)

    def _to_half(self, source: str, operand: Text) -> Text:
        if source == "float64":
            return self._call("half_to_float", self._call("double_to_half", operand.text).text)
        return self._round(operand.text if source == "float32" else f"(float){operand.at(UNARY)}")

    def half_bits(self, expr: Expr) -> str:
        """A float16 value as the `uint16_t` that is stored."""
        if isinstance(expr, TensorLoad):
            return f"{self.buffer_of(expr.source)}[{self._flat(expr.indices)}]"
        if isinstance(expr, prim.Cast) and dtype_of(expr.value) == "float64":
            return self._call("double_to_half", self.value(expr.value)).text
        text = self._print(expr)
        return self._call("float_to_half", text.unrounded or text.text).text

    def _call_node(self, call: Call) -> Text:
        name = call.op.name
        if name in MATH:
            return self._math(call, MATH[name])
        special = _CALLS.get(name)
        if special is None:
            raise ValueError(f"no C for the operator {name}: {call}")
        return special(self, call)

    def _math(self, call: Call, function: str) -> Text:
        dtype = dtype_of(call)
        if not types.is_float(dtype):
            raise ValueError(f"{function} of {dtype} has no C function: {call}")
        suffix = "" if dtype == "float64" else "f"
        args = ", ".join(self.value(arg) for arg in call.args)
        return self._rounded(dtype, Text(f"{function}{suffix}({args})"))

    def _helper(self, name: str, call: Call) -> Text:
        dtype = dtype_of(call.args[0])
        args = (self.value(arg) for arg in call.args)
        return self._rounded(dtype_of(call), self._call(f"{name}_{short(_computed(dtype))}", *args))

    def _classify(self, function: str, call: Call) -> Text:
        return Text(f"{function}({self.value(call.args[0])}) != 0", EQUALITY)

    def _reinterpret(self, call: Call) -> Text:
        source, target = dtype_of(call.args[0]), dtype_of(call)
        if source == target:
            return self._print(call.args[0])
        if source == "float16":
            bits = self.half_bits(call.args[0])
            return Text(bits if target == "uint16" else f"(int16_t){bits}", UNARY)
        if target == "float16":
            return self._call("half_to_float", f"(uint16_t){self._print(call.args[0]).at(UNARY)}")
        return self._call(f"{short(source)}_as_{short(target)}", self.value(call.args[0]))

    def _extern(self, call: Call) -> Text:
        name, *args = call.args
        if not isinstance(name, StringImm):
            raise ValueError(f"external function without a name: {call}")
        return self._rounded(dtype_of(call), Text(f"{name.value}({', '.join(self.value(a) for a in args)})"))


_FLOATS = ("float16", "float32")


def _computed(dtype: str) -> str:
    """The dtype that a value is computed in."""
    return "float32" if dtype == "float16" else dtype


def _contains(expr: Expr, variables: set[Var]) -> bool:
    found = False

    def load(_: TensorLoad) -> None:
        nonlocal found
        found = True

    def var(node: Var) -> None:
        nonlocal found
        found = found or node in variables

    tvm_ffi.structural_walk(expr, [(TensorLoad, load), (Var, var)])
    return found


def _known_comparison(symbol: str, a: Expr, b: Expr) -> str | None:
    """The outcome of comparing an integer with the end of its dtype's range, which compilers warn about."""
    dtype = dtype_of(a)
    if not isinstance(b, prim.IntImm) or dtype == "bool" or (types.bits(dtype) >= 32 and not types.is_unsigned(dtype)):
        return None
    low, high = types.integer_range(dtype)
    outcomes = {("<", low): "0", (">=", low): "1", (">", high): "0", ("<=", high): "1"}
    return outcomes.get((symbol, int(b.value) % (high + 1) if types.is_unsigned(dtype) else int(b.value)))


_HANDLERS: dict[type, Callable[[ExpressionPrinter, object], Text]] = {
    Var: ExpressionPrinter._var,
    prim.IntImm: ExpressionPrinter._integer,
    prim.FloatImm: ExpressionPrinter._float,
    TensorLoad: ExpressionPrinter._load,
    prim.BitwiseNot: ExpressionPrinter._not_bits,
    prim.LShift: ExpressionPrinter._shift,
    prim.RShift: ExpressionPrinter._shift,
    prim.Min: ExpressionPrinter._extremum,
    prim.Max: ExpressionPrinter._extremum,
    prim.And: ExpressionPrinter._and,
    prim.Or: ExpressionPrinter._or,
    prim.Not: ExpressionPrinter._not,
    prim.Select: ExpressionPrinter._select,
    prim.Let: ExpressionPrinter._let,
    prim.Cast: ExpressionPrinter._cast,
    Call: ExpressionPrinter._call_node,
}

_CALLS: dict[str, Callable[[ExpressionPrinter, Call], Text]] = {
    "prim.likely": lambda printer, call: printer._print(call.args[0]),
    "prim.if_then_else": lambda printer, call: printer._choice(*call.args),
    "prim.clz": lambda printer, call: printer._helper("clz", call),
    "tirx.popcount": lambda printer, call: printer._helper("popcount", call),
    "tirx.sigmoid": lambda printer, call: printer._helper("sigmoid", call),
    "tirx.rsqrt": lambda printer, call: printer._helper("rsqrt", call),
    "tirx.exp10": lambda printer, call: printer._helper("exp10", call),
    "tirx.isnan": lambda printer, call: printer._classify("isnan", call),
    "tirx.isinf": lambda printer, call: printer._classify("isinf", call),
    "tirx.isfinite": lambda printer, call: printer._classify("isfinite", call),
    "tirx.reinterpret": ExpressionPrinter._reinterpret,
    "tirx.call_extern": ExpressionPrinter._extern,
    "tirx.call_pure_extern": ExpressionPrinter._extern,
    "tirx.ignore_loop_partition": lambda printer, call: printer._print(call.args[0]),
}
