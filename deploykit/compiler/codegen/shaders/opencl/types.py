"""Types and literals in OpenCL C."""

from __future__ import annotations

import numpy as np

from deploykit.compiler.codegen.shaders.opencl.errors import Unprintable
from deploykit.compiler.codegen.shaders.wgsl.reading.tree import Literal
from deploykit.compiler.codegen.shaders.wgsl.reading.types import (
    BOOL,
    F16,
    F32,
    I32,
    U32,
    VOID,
    Atomic,
    Scalar,
    Type,
    Vector,
    spelled,
)

_SCALARS = {F32: "float", F16: "half", I32: "int", U32: "uint", BOOL: "bool", VOID: "void"}
_LEAST = -(2**31)
_LARGE = 2**16
"""From here on, unsigned integers are written as bits."""


def type_of(kind: Type) -> str:
    """The name of a scalar or vector type. A vector of truths is one of integers: 0 or -1."""
    match kind:
        case Scalar():
            return _SCALARS[kind]
        case Vector(element, size):
            return f"{'int' if element is BOOL else _SCALARS[element]}{size}"
        case Atomic(element):
            return _SCALARS[element]
    raise Unprintable(f"a value of {spelled(kind)}")


def truths(kind: Type) -> bool:
    """Whether values of this type are vectors of truths."""
    return isinstance(kind, Vector) and kind.element is BOOL


def literal(value: Literal) -> str:
    if value.type is BOOL:
        return "true" if value.value else "false"
    if value.type is U32:
        number = int(value.value)
        return f"{number}u" if number < _LARGE else f"{number:#010x}u"
    if value.type is I32:
        number = int(value.value)
        if number == _LEAST:
            return f"({_LEAST + 1} - 1)"
        return str(number) if number >= 0 else f"({number})"
    single = np.float32(value.value)
    if not np.isfinite(single):
        raise Unprintable(f"the number {value.value}")
    text = f"{single!s}f"
    text = f"({text})" if text[0] == "-" else text
    return f"(half){text}" if value.type is F16 else text


def bare(text: str) -> str:
    """The text without parentheses around all of it."""
    if not text.startswith("("):
        return text
    depth = 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return text[1:-1] if position == len(text) - 1 else text
    return text
