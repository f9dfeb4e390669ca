"""Prints TIR expressions as WGSL expressions.

Division by a size is written plainly: WGSL defines the result for 0, and the loop whose extent it is does not run then.

int64 has two forms. Sizes and indices, which come from dims and loops, are `i32`, and so are stored sizes
(`loaded_values`). A value that depends on memory is a pair of words (`types.WIDE`) with functions for its arithmetic;
used as an index, it becomes an `i32`, saturated. Every operation with operands is in parentheses, except the outermost.

Vectors have four elements. WGSL's operators and functions take them directly; functions of this package have a
variant for vectors whose name ends with `_4`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm_ffi
from tvm import tirx
from tvm.ir import Call, TensorLoad, Var
from tvm.ir.prim import expr as prim

from deploykit.compiler.codegen.c.types import bits, is_float, is_unsigned
from deploykit.compiler.codegen.shaders.errors import NoShader
from deploykit.compiler.codegen.shaders.wgsl import support
from deploykit.compiler.codegen.shaders.wgsl.teams import TYPES
from deploykit.compiler.codegen.shaders.wgsl.types import dtype_of, lanes_of, value_type
from deploykit.compiler.tir.loaded_values import depends_on_memory

if TYPE_CHECKING:
    from tvm.ir import Expr
    from tvm.sym import Analyzer

_ARITHMETIC = {prim.Add: ("+", "add"), prim.Sub: ("-", "sub"), prim.Mul: ("*", "mul")}
_COMPARISONS = {
    prim.LT: ("<", "lt_wide({a}, {b})"),
    prim.LE: ("<=", "!lt_wide({b}, {a})"),
    prim.GT: (">", "lt_wide({b}, {a})"),
    prim.GE: (">=", "!lt_wide({a}, {b})"),
    prim.EQ: ("==", "eq_wide({a}, {b})"),
    prim.NE: ("!=", "!eq_wide({a}, {b})"),
}
_BIT_OPERATORS = {prim.BitwiseAnd: "&", prim.BitwiseOr: "|", prim.BitwiseXor: "^"}
_DIVISIONS = {prim.Div: "div", prim.Mod: "mod", prim.FloorDiv: "floordiv", prim.FloorMod: "floormod"}
_MATH = {
    **{name: f"{name}({{}})" for name in ("sqrt", "floor", "ceil", "trunc", "round", "sigmoid")},
    "fabs": "abs({})",
    "nearbyint": "round({})",
    "exp": "exponential({})",
    "exp2": "power_of_2({})",
    "exp10": "power_of_10({})",
    "expm1": "exponential_minus_one({})",
    "log": "logarithm({})",
    "log2": "logarithm_2({})",
    "log10": "logarithm_10({})",
    "log1p": "log_of_one_plus({})",
    "pow": "power({}, {})",
    "sin": "sine({})",
    "cos": "cosine({})",
    "tan": "tangent({})",
    "asin": "arc_sine({})",
    "acos": "arc_cosine({})",
    "atan": "arc_tangent({})",
    "atan2": "arc_tangent_2({}, {})",
    "sinh": "hyperbolic_sine({})",
    "cosh": "hyperbolic_cosine({})",
    "tanh": "hyperbolic_tangent({})",
    "asinh": "inverse_hyperbolic_sine({})",
    "acosh": "inverse_hyperbolic_cosine({})",
    "atanh": "inverse_hyperbolic_tangent({})",
    "erf": "error_function({})",
    "rsqrt": "inverseSqrt({})",
    "isnan": "is_nan({})",
    "maximum": "larger({}, {})",
    "minimum": "smaller({}, {})",
    "isinf": "is_inf({})",
    "isfinite": "is_finite({})",
    "fma": "fma({}, {}, {})",
    "fmod": "float_mod({}, {})",
    "hypot": "length(vec2<f32>({}, {}))",
    "copysign": "with_sign({}, {})",
}
"""Functions of floats, by TVM's name."""

_WORD = 32
_LARGEST = 2**31 - 1
_LARGE = 3.4e38


class ExpressionPrinter:
    """Prints expressions of one shader. `name_of` gives the name of a scalar variable, `load` the text of a load from a
    buffer, `words` that of the words that its elements are in. `analyzer` knows the bounds of the variables;
    `from_memory` holds the variables that are bound to values read from buffers."""

    def __init__(
        self,
        name_of: Callable[[Var], str],
        load: Callable[[TensorLoad], str],
        words: Callable[[TensorLoad], str],
        analyzer: Analyzer,
    ) -> None:
        self.name_of = name_of
        self.load = load
        self.words = words
        self.analyzer = analyzer
        self.from_memory: set[Var] = set()

    def wide(self, expr: Expr) -> bool:
        """Whether a value is a pair of words (a 64-bit integer)."""
        dtype = dtype_of(expr)
        if dtype == "uint64":
            raise NoShader("uint64 has no type in WGSL")
        found = dtype == "int64" and depends_on_memory(expr, self.from_memory)
        if found and lanes_of(expr) > 1:
            raise NoShader("vectors of 64-bit integers have no type in WGSL")
        return found

    def type_of(self, expr: Expr) -> str:
        found = value_type(dtype_of(expr), wide=self.wide(expr))
        return f"vec4<{found}>" if lanes_of(expr) > 1 else found

    def value(self, expr: Expr) -> str:
        """The text of a value to be bound, passed or tested."""
        text = self.print(expr)
        return text[1:-1] if _enclosed(text) else text

    def stored(self, expr: Expr, *, rounded: bool = False) -> str:
        """The text of a value as an element of a buffer. `rounded`: the store rounds to float16."""
        if rounded and isinstance(expr, prim.Cast) and dtype_of(expr.value) == "float32":
            return self.value(expr.value)
        return self._as_wide(expr) if dtype_of(expr) == "int64" else self.value(expr)

    def index(self, expr: Expr) -> str:
        """The text of an index or of the bound of a loop, an `i32`."""
        text = self.value(expr)
        return f"narrow({text})" if self.wide(expr) else text

    def position(self, indices: Sequence[Expr]) -> str:
        """The text between the brackets of an access."""
        if len(indices) != 1:
            raise ValueError(f"an access with {len(indices)} indices is left after flattening")
        return self.index(indices[0])

    def print(self, expr: Expr) -> str:
        """Print any expression. Raises `NoShader` for one that WGSL cannot express."""
        handler = self._handlers.get(type(expr))
        if handler is None:
            raise NoShader(f"no WGSL for the expression {type(expr).__name__}")
        return handler(self, expr)

    def _no_vectors(self, expr: Expr, what: str) -> None:
        if lanes_of(expr) > 1:
            raise NoShader(f"no WGSL for vectors of {what}")

    def _as_wide(self, expr: Expr) -> str:
        if isinstance(expr, prim.IntImm):
            number = int(expr.value)
            return f"vec2<u32>({number % 2**32}u, {(number >> 32) % 2**32}u)"
        return self.value(expr) if self.wide(expr) else f"wide_from_i32({self.value(expr)})"

    def _var(self, var: Var) -> str:
        return self.name_of(var)

    def _integer(self, literal: prim.IntImm) -> str:
        number, dtype = int(literal.value), dtype_of(literal)
        if dtype == "bool":
            return "true" if number else "false"
        if is_unsigned(dtype):
            return f"{number % 2 ** bits(dtype)}u"
        clamped = max(-_LARGEST, min(_LARGEST, number)) if dtype == "int64" else number
        if clamped == -(2**31):
            return f"(-{_LARGEST} - 1)"
        return str(clamped) if clamped >= 0 else f"({clamped})"

    def _float(self, literal: prim.FloatImm) -> str:
        value = np.float32(float(literal.value))
        if np.isnan(value):
            return "not_a_number()"
        if np.isinf(value):
            return "infinity()" if value > 0 else "(-infinity())"
        # WGSL takes no decimal above the largest float, even if it would be rounded to that.
        text = f"{value!s}f" if abs(value) < _LARGE else f"{float(value)!r}f"
        return f"({text})" if text[0] == "-" else text

    def _load(self, load: TensorLoad) -> str:
        return self.load(load)

    def _arithmetic(self, expr: prim.BinaryOpExpr) -> str:
        symbol, name = _ARITHMETIC[type(expr)]
        if self.wide(expr):
            return f"{name}_wide({self._as_wide(expr.a)}, {self._as_wide(expr.b)})"
        return _wrapped(dtype_of(expr), f"({self.print(expr.a)} {symbol} {self.print(expr.b)})")

    def _comparison(self, expr: prim.CmpExpr) -> str:
        symbol, wide = _COMPARISONS[type(expr)]
        if dtype_of(expr.a) == "int64" and (self.wide(expr.a) or self.wide(expr.b)):
            return wide.format(a=self._as_wide(expr.a), b=self._as_wide(expr.b))
        if dtype_of(expr.a) == "bool" and symbol not in ("==", "!="):
            self._no_vectors(expr, "comparisons of truths")
            return f"(u32({self.print(expr.a)}) {symbol} u32({self.print(expr.b)}))"
        return f"({self.print(expr.a)} {symbol} {self.print(expr.b)})"

    def _division(self, expr: prim.BinaryOpExpr) -> str:
        name, dtype = _DIVISIONS[type(expr)], dtype_of(expr)
        if self.wide(expr):
            return f"{name}_wide({self._as_wide(expr.a)}, {self._as_wide(expr.b)})"
        left, right = self.print(expr.a), self.print(expr.b)
        symbol = "%" if name.endswith("mod") else "/"
        if is_float(dtype):
            return f"({left} {symbol} {right})"
        if is_unsigned(dtype):
            self._no_vectors(expr, "divisions")
            return f"{name.removeprefix('floor')}_u32({left}, {right})"
        literal = int(expr.b.value) if isinstance(expr.b, prim.IntImm) else 0
        known = literal > 0 or not depends_on_memory(expr.b, self.from_memory)
        if known and (not name.startswith("floor") or (self._at_least(expr.a, 0) and self._at_least(expr.b, 0))):
            return f"({left} {symbol} {right})"
        if literal > 0 and literal & (literal - 1) == 0 and lanes_of(expr) == 1:
            whole = f"({left} >> {literal.bit_length() - 1}u)"
            return whole if symbol == "/" else f"({left} & {literal - 1})"
        self._no_vectors(expr, "divisions")
        return _wrapped(dtype, f"{name}_i32({left}, {right})")

    def _at_least(self, expr: Expr, bound: int) -> bool:
        return int(self.analyzer.const_int_bound(expr).min_value) >= bound

    def _bits(self, expr: prim.BinaryOpExpr) -> str:
        symbol = _BIT_OPERATORS[type(expr)]
        if self.wide(expr):
            return f"({self._as_wide(expr.a)} {symbol} {self._as_wide(expr.b)})"
        if dtype_of(expr) == "bool" and symbol == "^":
            symbol = "!="
        return f"({self.print(expr.a)} {symbol} {self.print(expr.b)})"

    def _not_bits(self, expr: prim.BitwiseNot) -> str:
        return _wrapped(dtype_of(expr), f"(~{self.print(expr.a)})")

    def _shift(self, expr: prim.BinaryOpExpr) -> str:
        name = "shl" if isinstance(expr, prim.LShift) else "shr"
        if self.wide(expr):
            return f"{name}_wide({self._as_wide(expr.a)}, {self._as_wide(expr.b)})"
        self._no_vectors(expr, "shifts")
        dtype = dtype_of(expr)
        kind = "u32" if is_unsigned(dtype) else "i32"
        return _wrapped(dtype, f"{name}_{kind}({self.value(expr.a)}, {self.value(expr.b)})")

    def _extremum(self, expr: prim.BinaryOpExpr) -> str:
        name = "max" if isinstance(expr, prim.Max) else "min"
        if self.wide(expr):
            return f"{name}_wide({self._as_wide(expr.a)}, {self._as_wide(expr.b)})"
        a, b = self.value(expr.a), self.value(expr.b)
        if is_float(dtype_of(expr)):
            # WGSL's own functions may give either operand if one is NaN.
            return f"{name}_of{'_4' if lanes_of(expr) > 1 else ''}({a}, {b})"
        if dtype_of(expr) == "bool":
            return f"({a} {'|' if name == 'max' else '&'} {b})"
        return f"{name}({a}, {b})"

    def _and(self, expr: prim.And) -> str:
        return f"({self.print(expr.a)} {'&&' if lanes_of(expr) == 1 else '&'} {self.print(expr.b)})"

    def _or(self, expr: prim.Or) -> str:
        return f"({self.print(expr.a)} {'||' if lanes_of(expr) == 1 else '|'} {self.print(expr.b)})"

    def _broadcast(self, expr: tirx.Broadcast) -> str:
        return f"vec4<{self.type_of(expr.value)}>({self.value(expr.value)})"

    def _ramp(self, expr: tirx.Ramp) -> str:
        first, stride = self.index(expr.base), self.index(expr.stride)
        return f"(vec4<i32>({first}) + {stride} * vec4<i32>(0, 1, 2, 3))"

    def _not(self, expr: prim.Not) -> str:
        return f"(!{self.print(expr.a)})"

    def _select(self, expr: prim.Select) -> str:
        return self._choice(expr, expr.condition, expr.true_value, expr.false_value)

    def _choice(self, whole: Expr, condition: Expr, chosen: Expr, otherwise: Expr) -> str:
        text = self._as_wide if self.wide(whole) else self.value
        return f"select({text(otherwise)}, {text(chosen)}, {self.value(condition)})"

    def _let(self, expr: prim.Let) -> str:
        return self.print(tvm_ffi.structural_map(expr.body, (Var, lambda v: expr.value if v.same_as(expr.var) else v)))

    def _cast(self, expr: prim.Cast) -> str:
        source, target = dtype_of(expr.value), dtype_of(expr)
        operand = self.value(expr.value)
        if source == target:
            return self.print(expr.value)
        if lanes_of(expr) > 1:
            return self._cast_vector(source, target, operand)
        if target == "bool":
            return self._truth(expr.value, operand)
        if target == "int64":
            return self._widened(source, operand) if self.wide(expr) else f"i32({operand})"
        if target == "float16" and source != "float16":
            return f"rounded({self._to(source, 'float32', expr.value, operand)})"
        return _wrapped(target, self._to(source, target, expr.value, operand))

    def _cast_vector(self, source: str, target: str, operand: str) -> str:
        if is_float(source) and is_float(target):
            return f"rounded_4({operand})" if target == "float16" else operand
        kind = f"vec4<{value_type(target)}>"
        if target == "bool":
            return f"({operand} != vec4<{value_type(source)}>())"
        if is_float(source):
            operand = f"not_nan_4({operand})"
        if is_float(source) and is_unsigned(target) and bits(target) < _WORD:
            operand = f"vec4<i32>({operand})"
        text = _wrapped(target, f"{kind}({operand})")
        return f"rounded_4({text})" if target == "float16" else text

    def _truth(self, value: Expr, operand: str) -> str:
        if self.wide(value):
            return f"!eq_wide({operand}, vec2<u32>(0u, 0u))"
        return f"({operand} != {value_type(dtype_of(value))}(0))"

    def _widened(self, source: str, operand: str) -> str:
        if is_float(source):
            return f"wide_from_f32({operand})"
        if source == "bool":
            return f"wide_from_u32(u32({operand}))"
        return f"wide_from_{'u32' if is_unsigned(source) else 'i32'}({operand})"

    def _to(self, source: str, target: str, value: Expr, operand: str) -> str:
        if self.wide(value):
            if is_float(target):
                return f"float_of_wide({operand})"
            return f"({operand}).x" if is_unsigned(target) else f"i32(({operand}).x)"
        if is_float(source) and is_float(target):
            return operand
        if is_float(source):
            operand = f"not_nan({operand})"
        if is_float(source) and is_unsigned(target) and bits(target) < _WORD:
            return f"u32(i32({operand}))"
        return f"{value_type(target)}({operand})"

    def _call(self, expr: Call) -> str:
        name = str(getattr(expr.op, "name", "")).rpartition(".")[2]
        if name in ("likely", "ignore_loop_partition"):
            return self.print(expr.args[0])
        if name == "stored_size":
            return self.index(expr.args[0])
        if name == "if_then_else":
            return self._choice(expr, *expr.args)
        if name == "reinterpret":
            return self._reinterpret(expr)
        if name == "words":
            return self._words(expr)
        if name == "dots_of_words":
            return self._dots_of_words(expr)
        if name.startswith("team_"):
            return self._of_team(name, expr)
        operand_type = dtype_of(expr.args[0]) if expr.args else ""
        if name in _MATH and is_float(operand_type):
            if operand_type == "float64":
                raise NoShader("float64 has no type in WGSL")
            return self._function(_MATH[name], expr)
        if name == "fabs" and not self.wide(expr):
            return f"abs({self.value(expr.args[0])})"
        if name == "popcount" and bits(operand_type) == _WORD:
            return f"countOneBits({self.value(expr.args[0])})"
        raise NoShader(f"no WGSL for {name or 'a call'} of {operand_type}")

    def _dots_of_words(self, expr: Call) -> str:
        return f"dots_of_words({', '.join(map(self.value, expr.args))})"

    def _words(self, expr: Call) -> str:
        (load,) = expr.args
        words = self.words(load)
        if not is_unsigned(str(load.source.ty.dtype)):
            return words
        return f"({words} ^ {'0x80808080u' if lanes_of(expr) == 1 else 'vec4<u32>(0x80808080u)'})"

    def _of_team(self, name: str, expr: Call) -> str:
        if not expr.args:
            return name
        end = next((end for end, kind in TYPES.items() if kind == self.type_of(expr)), None)
        if end is None or self.wide(expr):
            raise NoShader(f"a team cannot agree on {dtype_of(expr)}")
        return f"{name}{end}({self.value(expr.args[0])})"

    def _function(self, pattern: str, expr: Call) -> str:
        function = pattern.partition("(")[0]
        if lanes_of(expr) > 1 and (function in support.NAMES or not function):
            if not function:
                raise NoShader(f"no WGSL for vectors of {pattern}")
            pattern = pattern.replace(function, f"{function}_4", 1)
        return pattern.format(*map(self.value, expr.args))

    def _reinterpret(self, expr: Call) -> str:
        bytes_ = expr.args[0]
        if isinstance(bytes_, TensorLoad) and str(bytes_.source.ty.dtype) == "uint8" and dtype_of(expr) == "uint32":
            return self.words(bytes_)
        source, target = dtype_of(expr.args[0]), dtype_of(expr)
        operand = self.value(expr.args[0])
        if source == target:
            return self.print(expr.args[0])
        if bits(source) != _WORD:
            self._no_vectors(expr, f"{source} seen as {target}")
        if source == "float16" and bits(target) == 16:
            return _wrapped(target, f"{value_type(target)}(float_to_half({operand}))")
        if target == "float16" and bits(source) == 16:
            return f"half_to_float(u32({operand}) & 0xffffu)"
        if bits(source) == bits(target) == _WORD:
            if isinstance(expr.args[0], prim.IntImm):
                # Drivers take a product with a 0 that they can see for 0, which that of a NaN is not.
                operand = f"unfolded({operand})"
            return f"bitcast<{self.type_of(expr)}>({operand})"
        if bits(source) == bits(target) < _WORD:
            return _wrapped(target, f"{value_type(target)}({operand})")
        raise NoShader(f"no WGSL to see {source} as {target}")

    _handlers: dict[type, Callable[[ExpressionPrinter, Any], str]] = {  # noqa: RUF012
        **dict.fromkeys(_ARITHMETIC, _arithmetic),
        **dict.fromkeys(_COMPARISONS, _comparison),
        **dict.fromkeys(_DIVISIONS, _division),
        **dict.fromkeys(_BIT_OPERATORS, _bits),
        Var: _var,
        prim.IntImm: _integer,
        prim.FloatImm: _float,
        TensorLoad: _load,
        tirx.Broadcast: _broadcast,
        tirx.Ramp: _ramp,
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


def _wrapped(dtype: str, text: str) -> str:
    """`text` cut back to 8 or 16 bits for a dtype of that size; floats and larger integers stay as they are."""
    if dtype in ("bool", "float16", "float32") or bits(dtype) >= _WORD:
        return text
    return f"extractBits({text}, 0u, {bits(dtype)}u)"


def _enclosed(text: str) -> bool:
    """Whether the first parenthesis is closed by the last character."""
    if not text.startswith("("):
        return False
    depth = 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return position == len(text) - 1
    return False
