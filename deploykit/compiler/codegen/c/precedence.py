"""A piece of a C expression and how tightly it binds."""

from __future__ import annotations

from dataclasses import dataclass

PRIMARY, UNARY, MULTIPLY, ADD, SHIFT, RELATION, EQUALITY, BITS, AND, OR, TERNARY = range(13, 2, -1)
"""How tightly a text binds: C's precedence levels. The three bit operators share one."""


@dataclass(frozen=True)
class Text:
    """A C expression and its precedence. `wide`: its C type has at least the bits of the TIR dtype; a small int64
    literal, which is an `int`, is not wide. `unrounded`: the text of a float16 value before it is rounded to half
    precision."""

    text: str
    level: int = PRIMARY
    wide: bool = True
    unrounded: str | None = None

    def at(self, level: int) -> str:
        """The text as an operand of an operator of this level. One of another level gets parentheses, also where C does
        not need them (MISRA C:2012, rule 12.1)."""
        return self.text if self.level == level or self.level >= UNARY else f"({self.text})"


def call(function: str, *args: str) -> Text:
    return Text(f"{function}({', '.join(args)})")


def cast(c_type: str, operand: Text) -> Text:
    return Text(f"({c_type}){operand.at(UNARY)}", UNARY)


def rounded(dtype: str, text: Text) -> Text:
    """The result of an operation in that dtype. float16 results are computed in `float` and rounded."""
    return to_half(text.text) if dtype == "float16" else text


def to_half(text: str) -> Text:
    """A `float` expression rounded to half precision."""
    return Text(f"round_to_half({text})", unrounded=text)
