"""Operators of TIR that are calls: functions of <math.h>, support functions, and a few that have C syntax."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from deploykit.compiler.codegen.c import types
from deploykit.compiler.codegen.c.precedence import EQUALITY, UNARY, Text, call, cast, rounded

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from tvm.ir import Call, Expr, TensorLoad

    Rule: TypeAlias = Callable[["Printer", Call], Text]


class Printer(Protocol):
    """What calls need to print their operands; see `expressions.ExpressionPrinter`."""

    def print(self, expr: Expr) -> Text: ...

    def value(self, expr: Expr) -> str: ...

    def element(self, load: TensorLoad) -> str: ...

    def half_bits(self, expr: Expr) -> str: ...

    def choice(self, condition: Expr, chosen: Expr, otherwise: Expr) -> Text: ...

    def support(self, function: str, *args: str) -> Text: ...


_SAME_NAME = (
    *("exp", "exp2", "log", "log10", "log1p", "tanh", "erf", "sin", "cos", "tan", "asin", "acos", "atan", "sinh"),
    *("cosh", "asinh", "acosh", "atanh", "sqrt", "floor", "trunc", "nearbyint", "fabs", "pow", "fmod", "atan2"),
    *("hypot", "copysign", "nextafter", "fma"),
)
MATH = {
    **{f"tirx.{name}": name for name in _SAME_NAME},
    "tirx.round": "nearbyint",
    "prim.ceil": "ceil",
    "prim.log2": "log2",
}
"""Operators that are functions of <math.h>, with the name of the function for double. Ties round to even."""


def print_call(printer: Printer, expr: Call) -> Text:
    """Print a call. Raises `ValueError` for an operator that cannot be written in C."""
    name = expr.op.name
    if name in MATH:
        return _math(printer, expr, MATH[name])
    if name not in _RULES:
        raise ValueError(f"no C for the operator {name}: {expr}")
    return _RULES[name](printer, expr)


def _math(printer: Printer, expr: Call, function: str) -> Text:
    dtype = types.dtype_of(expr)
    if not types.is_float(dtype):
        raise ValueError(f"{function} of {dtype} has no C function: {expr}")
    suffix = "" if dtype == "float64" else "f"
    return rounded(dtype, call(f"{function}{suffix}", *(printer.value(arg) for arg in expr.args)))


def _support(function: str) -> Rule:
    def rule(printer: Printer, expr: Call) -> Text:
        suffix = types.short(types.computed(types.dtype_of(expr.args[0])))
        text = printer.support(f"{function}_{suffix}", *(printer.value(arg) for arg in expr.args))
        return rounded(types.dtype_of(expr), text)

    return rule


def _classify(macro: str) -> Rule:
    return lambda printer, expr: Text(f"{macro}({printer.value(expr.args[0])}) != 0", EQUALITY)


def _first_argument(printer: Printer, expr: Call) -> Text:
    return printer.print(expr.args[0])


def _reinterpret(printer: Printer, expr: Call) -> Text:
    operand = expr.args[0]
    source, target = types.dtype_of(operand), types.dtype_of(expr)
    if source == target:
        return printer.print(operand)
    if source == "float16":
        return cast(types.value_type(target), call("", printer.half_bits(operand)))
    if target == "float16":
        return printer.support("half_to_float", cast("uint16_t", printer.print(operand)).text)
    return printer.support(f"{types.short(source)}_as_{types.short(target)}", printer.value(operand))


def _address(printer: Printer, expr: Call) -> Text:
    return Text(f"&{printer.element(expr.args[0])}", UNARY)


def _extern(printer: Printer, expr: Call) -> Text:
    name, *args = expr.args
    return rounded(types.dtype_of(expr), call(name.value, *(printer.value(arg) for arg in args)))


_RULES: dict[str, Rule] = {
    "prim.likely": _first_argument,
    "tirx.ignore_loop_partition": _first_argument,
    "prim.if_then_else": lambda printer, expr: printer.choice(*expr.args),
    "prim.clz": _support("clz"),
    "tirx.popcount": _support("popcount"),
    "tirx.maximum": _support("maximum"),
    "tirx.minimum": _support("minimum"),
    "tirx.sigmoid": _support("sigmoid"),
    "tirx.rsqrt": _support("rsqrt"),
    "tirx.exp10": _support("exp10"),
    "tirx.isnan": _classify("isnan"),
    "tirx.isinf": _classify("isinf"),
    "tirx.isfinite": _classify("isfinite"),
    "tirx.reinterpret": _reinterpret,
    "tirx.address_of": _address,
    "tirx.call_extern": _extern,
    "tirx.call_pure_extern": _extern,
}
