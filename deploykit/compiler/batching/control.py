"""The control flow of a dynamic model as statements over words, from which code generators write a state machine.

A function has variables, which are words of its frame. A call suspends the function until its results are there, and
`Await` until a tensor is computed, so control flow needs no stack of the machine. Everything is int32 arithmetic that
fails where a result does not fit, but for `Float`s, which are float64 in two words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from deploykit.dynamic.types import Type


@dataclass(frozen=True)
class Number:
    value: int


@dataclass(frozen=True)
class Real:
    value: float


@dataclass(frozen=True)
class Variable:
    """The word, or with `real` the two words, of the frame at `slot`."""

    slot: int
    real: bool = False


@dataclass(frozen=True)
class Word:
    """The word at `offset`, or with `index` that many words further, behind a handle."""

    handle: Expr
    offset: int
    index: Expr | None = None
    real: bool = False


@dataclass(frozen=True)
class Constant:
    """The handle of a value that is the same in every run; `index` into `DynamicModel.constants`."""

    index: int


@dataclass(frozen=True)
class Operation:
    """`+ - * / // %`, `min`, `max`, comparisons, `and`, `or`, `not` and `neg` of numbers; `real` if the operands are
    float64. `from end` is the place of an index among a count of items, which counts from the end if it is below 0."""

    operator: str
    operands: tuple[Expr, ...]
    real: bool = False


@dataclass(frozen=True)
class NextState:
    """The state behind another one, of random numbers (`dynamic.random`)."""

    state: Expr


@dataclass(frozen=True)
class RandomReal:
    """The random number of a state."""

    state: Expr


@dataclass(frozen=True)
class FloatWord:
    """A float64 as a float32, in a word."""

    operand: Expr


@dataclass(frozen=True)
class AsReal:
    """An int32 as float64."""

    operand: Expr


Expr: TypeAlias = Number | Real | Variable | Word | Constant | Operation | NextState | RandomReal | FloatWord | AsReal


@dataclass(frozen=True)
class Set:
    variable: Variable
    value: Expr


@dataclass(frozen=True)
class If:
    condition: Expr
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()


@dataclass(frozen=True)
class Loop:
    """Repeat until a `Break` or a `Return`; `step` follows each repetition, also after a `Continue`."""

    body: tuple[Statement, ...]
    step: tuple[Statement, ...] = ()


@dataclass(frozen=True)
class Break:
    pass


@dataclass(frozen=True)
class Continue:
    pass


@dataclass(frozen=True)
class Call:
    """Call a function; its results go to the variables from `result` on."""

    function: str
    operands: tuple[Expr, ...]
    result: int


@dataclass(frozen=True)
class CallAll:
    """Calls that do not depend on each other: they may go on in any order, and all end before the function goes on."""

    calls: tuple[Call, ...]


@dataclass(frozen=True)
class CallEach:
    """Call a function for each number from 0 up to `count`, which the function takes last. The results of each go to
    `width` words, one after the other, from the word `target` on."""

    function: str
    operands: tuple[Expr, ...]
    count: Expr
    target: Expr
    width: int


@dataclass(frozen=True)
class Record:
    """Add a node of a cell. `operands` are handles of values, then numbers; `results` the variables for the handles of
    its results."""

    cell: int
    operands: tuple[Expr, ...]
    results: tuple[int, ...]


@dataclass(frozen=True)
class Allocate:
    """Set a variable to the handle of new words: `fixed`, and `each` for each of `count`."""

    variable: Variable
    fixed: int
    count: Expr | None = None
    each: int = 1


@dataclass(frozen=True)
class Append:
    """Set a variable to the handle of a list with one more item, of `width` words, that is not set yet."""

    variable: Variable
    source: Expr
    width: int


@dataclass(frozen=True)
class Store:
    word: Word
    value: Expr


@dataclass(frozen=True)
class Await:
    """Go on when a value is computed, and set a variable to its only element."""

    variable: Variable
    value: Expr


@dataclass(frozen=True)
class Require:
    """End the run with a `DK_ERROR_DATA` of this message unless the condition holds. `{}` is replaced by `value`."""

    condition: Expr
    message: str
    value: Expr


@dataclass(frozen=True)
class Return:
    values: tuple[Expr, ...]


Statement: TypeAlias = (
    Set
    | If
    | Loop
    | Break
    | Continue
    | Call
    | CallAll
    | CallEach
    | Record
    | Allocate
    | Append
    | Store
    | Await
    | Require
    | Return
)


@dataclass(frozen=True)
class ControlFunction:
    """A function of the control flow. The first of its `words` variables are its operands, `operands` words of them;
    it returns `results` words. `names` has the name of each variable, for readers. `object` is the first operand that
    is an object or a list, if there is one."""

    name: str
    operands: int
    results: int
    words: int
    names: tuple[str, ...]
    body: tuple[Statement, ...]
    object: int | None = None


@dataclass(frozen=True)
class Control:
    """`functions[0]` runs one instance: its operands are those of the model's `main`, of the types `takes`, and it
    returns what `main` does, of the type `gives`."""

    functions: tuple[ControlFunction, ...]
    takes: tuple[tuple[str, Type], ...]
    gives: Type
