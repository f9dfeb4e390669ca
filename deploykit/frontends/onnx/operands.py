"""Checks the inputs of a node against the signature of its importer, which says which inputs it takes:

x: Value                  a required tensor
x: Value | None = None    a tensor that may be absent, or left out at the end
x: SequenceValue          a sequence; likewise StackValue and OptionalValue, and AnyValue is any of the four
*inputs: Value            any number of tensors
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.value import AnyValue, OptionalValue, SequenceValue, StackValue, Value

_KINDS: dict[str, tuple[type, ...]] = {
    "Value": (Value,),
    "SequenceValue": (SequenceValue,),
    "StackValue": (StackValue,),
    "OptionalValue": (OptionalValue,),
    "AnyValue": (Value, SequenceValue, StackValue, OptionalValue),
    "None": (type(None),),
}
_WORDS = {
    Value: "a tensor",
    SequenceValue: "a sequence",
    StackValue: "a sequence whose length the run chooses",
    OptionalValue: "an optional",
    type(None): "absent",
}

_BEFORE = 2
"""How many parameters of an importer come before its operands: the context and the node."""


@dataclass(frozen=True)
class _Operand:
    """An input of an operator. `kinds` are the classes that it may have, empty if the signature does not say."""

    kinds: tuple[type, ...]
    required: bool
    repeated: bool


def require_operands(importer: Callable[..., Any], inputs: Sequence[AnyValue | None]) -> None:
    """Raise `Unsupported` for a wrong number of inputs, and for an input of a kind that the importer does not take."""
    operands = _operands(importer)
    least = sum(operand.required for operand in operands)
    most = len(inputs) if any(operand.repeated for operand in operands) else len(operands)
    if not least <= len(inputs) <= most:
        raise Unsupported(f"it has {_count(len(inputs))}, and the operator takes {_range(least, most)}")
    for position, value in enumerate(inputs):
        kinds = operands[min(position, len(operands) - 1)].kinds
        if kinds and not isinstance(value, kinds):
            wanted = " or ".join(_WORDS[kind] for kind in kinds if kind is not type(None))
            raise Unsupported(f"its input {position + 1} is {_WORDS[type(value)]}; it must be {wanted}")


@cache
def _operands(importer: Callable[..., Any]) -> tuple[_Operand, ...]:
    parameters = list(inspect.signature(importer).parameters.values())
    repeated = inspect.Parameter.VAR_POSITIONAL
    return tuple(
        _Operand(_kinds(p.annotation), p.default is p.empty and p.kind is not repeated, p.kind is repeated)
        for p in parameters[_BEFORE:]
        if p.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, repeated)
    )


def _kinds(annotation: object) -> tuple[type, ...]:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    names = [name.rpartition(".")[2] for name in text.split(" | ")]
    return tuple(kind for name in names for kind in _KINDS[name]) if set(names) <= set(_KINDS) else ()


def _count(count: int) -> str:
    return f"{count} input" if count == 1 else f"{count} inputs"


def _range(least: int, most: int) -> str:
    return f"{least}" if least == most else f"at least {least}" if least > most else f"{least} to {most}"
