"""What is known of the elements of a tensor at one kind of place: valid positions, or positions in the padding.

    constant    they all have this value
    low         so far below zero that a softmax gives exactly 0: a mask has been added
    valid       they depend on nothing but valid positions
    length      each is the number of valid positions of its instance
    last        each is the last valid position of its instance; anything, if there is none
    garbage     they may depend on what is in the padding

Operations on states follow operations on elements. A product with the constant 0 is 0: the padding of a model holds
finite numbers, because it is computed like every other position.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from tvm import tirx

from deploykit.compiler.tir.extrema import EXTREMA

LOW = -9_000.0
"""Numbers up to this one close a position: exporters add -10000, -1e9, the lowest float or minus infinity."""

BEYOND_LENGTHS = 2**31
"""No length reaches this number: what the conversion of a float to an integer asks keeps a length."""

LARGEST = 2**62
"""Constants from this size on are not converted to integers."""


@dataclass(frozen=True)
class State:
    kind: Literal["constant", "low", "valid", "length", "last", "garbage"]
    value: float = 0.0
    """The constant; of a low state, about how low it is."""
    why: str = ""
    """Of garbage: where padding came in."""

    @property
    def is_low(self) -> bool:
        """Whether the elements are far below zero."""
        return self.kind == "low" or (self.kind == "constant" and self.value <= LOW)

    @property
    def is_own(self) -> bool:
        """Whether the elements say something about their own instance, so that they are not those of another one."""
        return self.kind in ("length", "last")

    def is_constant(self, value: float) -> bool:
        return self.kind == "constant" and self.value == value


VALID = State("valid")
LENGTH, LAST = State("length"), State("last")
EXACT = ("int32", "int64", "uint32", "uint64", "float32", "float64")
"""The dtypes that hold all lengths."""


def constant(value: float) -> State:
    return State("constant", float(value))


def garbage(why: str) -> State:
    return State("garbage", why=why)


def low(value: float) -> State:
    """Elements about as low as `value`; valid or garbage otherwise."""
    return State("low", value)


def join(states: Iterable[State]) -> State:
    """The state of an element that may be any of `states`."""
    first, *others = states
    for other in others:
        first = _either(first, other)
    return first


def _either(a: State, b: State) -> State:
    if a == b:
        return a
    if a.is_low and b.is_low:
        return low(max(a.value, b.value))
    return _mixed((a, b))


def _mixed(states: Iterable[State]) -> State:
    """The state of what is computed from elements in `states`."""
    for state in states:
        if state.kind == "garbage":
            return state
    return garbage("padding behind a mask") if any(s.kind == "low" for s in states) else VALID


def binary(operator: type, a: State, b: State) -> State:
    """The state of `operator(a, b)`, where `operator` is a class of TIR expressions."""
    if a.kind == b.kind == "constant" and operator in _FOLDED:
        return constant(_FOLDED[operator](a.value, b.value))
    special = _SPECIAL.get(operator)
    found = None if special is None else special(a, b)
    return _mixed((a, b)) if found is None else found


def select(condition: State, yes: State, no: State) -> State:
    if condition.kind == "constant":
        return yes if condition.value else no
    joined = join((yes, no))
    same = joined.kind in ("constant", "low")  # whichever is chosen
    return joined if same or condition.kind != "garbage" else condition


def converted(state: State, dtype: str) -> State:
    """The state of elements that are converted to another dtype."""
    if state.is_own and dtype not in EXACT:
        return VALID
    if state.kind != "constant" or not dtype.startswith(("int", "uint", "bool")):
        return state
    if dtype == "bool":
        return constant(bool(state.value))
    return constant(int(state.value)) if abs(state.value) < LARGEST else VALID


def call(name: str, arguments: list[State]) -> State:
    """The state of a function of elements."""
    if name == "if_then_else":
        return select(*arguments)
    if name in EXTREMA:
        return binary(EXTREMA[name], *arguments)
    if name == "fabs" and arguments[0].is_own:
        return arguments[0]
    if name == "exp" and arguments[0].is_low:
        return constant(0)
    if name == "isnan" and arguments[0].kind in ("constant", "low"):
        return constant(math.isnan(arguments[0].value))
    if name == "isinf" and arguments[0].kind == "constant":
        return constant(math.isinf(arguments[0].value))
    return _mixed(arguments)


def summed(operator: type, inside: State, padding: State) -> State | None:
    """The state of a reduction by `operator` along a ragged dim; None if padding gets into the result. `inside` is the
    state of the elements at valid positions, `padding` that of those in the padding."""
    neutral = {tirx.Add: padding.is_constant(0), tirx.Mul: padding.is_constant(1), tirx.Max: padding.is_low}
    if padding == inside and operator in (tirx.Max, tirx.Min) and inside.kind == "constant":
        return inside
    if padding.kind == inside.kind == "constant" and operator in (tirx.Max, tirx.Min):
        folded = _FOLDED[operator](inside.value, padding.value)
        neutral[operator] = folded == inside.value
    if not neutral.get(operator, False):
        return None
    if inside.kind == "constant":
        return inside if operator in (tirx.Max, tirx.Min) or inside.is_constant(0) else VALID
    return VALID if inside.is_own else inside


def along(operator: type, state: State) -> State:
    """The state of a reduction of elements in `state` along a dim that is not ragged."""
    if state.kind == "constant":
        kept = operator in (tirx.Max, tirx.Min) or state.value in (0, math.inf, -math.inf)
        return state if kept else VALID
    return VALID if state.is_own else state


def _add(a: State, b: State) -> State | None:
    for one, other in ((a, b), (b, a)):
        if one.is_constant(0):
            return other
        if one.is_constant(-math.inf):
            return one
        if one.is_low and not (other.kind == "constant" and other.value >= -LOW):
            return low(one.value + (other.value if other.kind in ("constant", "low") else 0))
        if one == LENGTH and other.is_constant(-1):
            return LAST
    return None


def _subtract(a: State, b: State) -> State | None:
    if b.kind == "constant":
        return _add(a, constant(-b.value))
    return low(a.value) if a.is_low and (b == VALID or b.is_own) else None


def _multiply(a: State, b: State) -> State | None:
    for one, other in ((a, b), (b, a)):
        if one.is_constant(0):
            return one
        if one.is_constant(1):
            return other
        if one.kind == "low" and other.kind == "constant" and one.value * other.value <= LOW:
            return low(one.value * other.value)
    return None


def _divide(a: State, b: State) -> State | None:
    if b.kind == "constant" and b.value:
        return _multiply(a, constant(1 / b.value))
    return a if a.is_constant(0) and (b == VALID or b.is_own) else None


def _and(a: State, b: State) -> State | None:
    for one, other in ((a, b), (b, a)):
        if one.kind == "constant":
            return other if one.value else one
    return None


def _or(a: State, b: State) -> State | None:
    for one, other in ((a, b), (b, a)):
        if one.kind == "constant":
            return one if one.value else other
    return None


def _less(a: State, b: State) -> State | None:
    if a.is_low and b.kind == "constant" and b.value > LOW:
        return constant(True)
    if b.is_low and a.kind == "constant" and a.value > LOW:
        return constant(False)
    if a.is_own and b.kind == "constant" and b.value >= BEYOND_LENGTHS:
        return constant(True)
    return None


def _greater(a: State, b: State) -> State | None:
    return _less(b, a)


def _max(a: State, b: State) -> State | None:
    if a.is_low and b.is_low:
        return low(max(a.value, b.value))
    for one, other in ((a, b), (b, a)):
        if one.is_low and other.kind == "constant" and other.value > LOW:
            return other
        if one == LAST and other.kind == "constant" and other.value <= 0:
            return one
    return None


def _min(a: State, b: State) -> State | None:
    for one, other in ((a, b), (b, a)):
        if one.is_low and other.kind == "constant" and other.value > LOW:
            return one
    return None


_SPECIAL: Mapping[type, Callable[[State, State], State | None]] = {
    tirx.Add: _add,
    tirx.Sub: _subtract,
    tirx.Mul: _multiply,
    tirx.Div: _divide,
    tirx.And: _and,
    tirx.Or: _or,
    tirx.LT: _less,
    tirx.LE: _less,
    tirx.GT: _greater,
    tirx.GE: _greater,
    tirx.Max: _max,
    tirx.Min: _min,
}

_FOLDED: Mapping[type, Callable[[float, float], float]] = {
    tirx.Add: lambda a, b: a + b,
    tirx.Sub: lambda a, b: a - b,
    tirx.Mul: lambda a, b: a * b,
    tirx.Max: max,
    tirx.Min: min,
    tirx.And: lambda a, b: bool(a) and bool(b),
    tirx.Or: lambda a, b: bool(a) or bool(b),
    tirx.LT: lambda a, b: a < b,
    tirx.LE: lambda a, b: a <= b,
    tirx.GT: lambda a, b: a > b,
    tirx.GE: lambda a, b: a >= b,
    tirx.EQ: lambda a, b: a == b,
    tirx.NE: lambda a, b: a != b,
}
"""The operations on constants that are known. Divisions are not among them: those of integers round."""
