"""How large a value can be, as far as its expression tells."""

from __future__ import annotations

from collections.abc import Mapping

from deploykit.compiler.codegen.shaders.wgsl.reading.tree import (
    Binary,
    Builtin,
    Construct,
    Convert,
    Expression,
    Literal,
    Name,
    Splat,
)
from deploykit.compiler.codegen.shaders.wgsl.reading.types import INTEGERS, U32, element_of

_WORD = 2**32 - 1


def most(value: Expression, bounds: Mapping[str, int]) -> int | None:
    """The largest value of an integer, or of the elements of a vector, that is known not to be negative; else None.
    `bounds` are those of names."""
    match value:
        case Literal(_, number):
            return int(number) if number >= 0 else None
        case Name(_, name, ""):
            return bounds.get(name)
        case Splat(_, operand):
            return most(operand, bounds)
        case Construct(_, arguments):
            known = [bound for argument in arguments if (bound := most(argument, bounds)) is not None]
            return max(known) if len(known) == len(arguments) else None
        case Convert(_, operand) if element_of(operand.type) in INTEGERS:
            return most(operand, bounds)
        case Builtin(_, "min", arguments):
            known = [bound for argument in arguments if (bound := most(argument, bounds)) is not None]
            return min(known, default=None) if element_of(value.type) is U32 else None
        case Binary(_, symbol, left, right):
            return _most_of_two(symbol, left, right, bounds)
    return None


def _most_of_two(symbol: str, left: Expression, right: Expression, bounds: Mapping[str, int]) -> int | None:
    first = most(left, bounds)
    if symbol == "-":
        taken = most(right, bounds) if isinstance(left, Literal | Splat) else None
        exact = isinstance(left, Literal) or (isinstance(left, Splat) and isinstance(left.operand, Literal))
        return first if exact and first is not None and taken is not None and taken <= first else None
    second = most(right, bounds)
    if symbol == "&":
        return min((bound for bound in (first, second) if bound is not None), default=None)
    if first is None or second is None or symbol not in "+*":
        return None
    bound = first + second if symbol == "+" else first * second
    return bound if bound <= _WORD // 2 else None
