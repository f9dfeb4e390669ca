"""Translates conversions between element types.

Floats that become integers are truncated and saturated: SPIR-V defines nothing for those out of range, so the operand
is clamped to the floats that the integers include, and what lies above gives the largest integer.
"""

from __future__ import annotations

from deploykit.compiler.codegen.shaders.spirv.expressions import ExpressionWriter
from deploykit.compiler.codegen.shaders.spirv.numbers import Glsl, Op
from deploykit.compiler.codegen.shaders.wgsl.reading.tree import Convert
from deploykit.compiler.codegen.shaders.wgsl.reading.types import (
    BOOL,
    F16,
    F32,
    FLOATS,
    I32,
    U32,
    Scalar,
    Type,
    Vector,
    element_of,
    like,
)

_RANGES: dict[Type, tuple[int, float, float, int]] = {
    I32: (Op.CONVERT_F_TO_S, -(2.0**31), 2.0**31 - 128, 2**31 - 1),
    U32: (Op.CONVERT_F_TO_U, 0.0, 2.0**32 - 256, 2**32 - 1),
}
"""The instruction to an integer type, the lowest and the highest of its numbers that are floats, and the highest."""


def translate(writer: ExpressionWriter, convert: Convert) -> int:
    source, target = element_of(convert.operand.type), element_of(convert.type)
    operand, kind = writer.value(convert.operand), convert.type
    if source is BOOL:
        writer.arithmetic(kind)
        return writer.typed(Op.SELECT, kind, operand, writer.constant(kind, 1), writer.constant(kind, 0))
    if target is BOOL:
        writer.arithmetic(convert.operand.type)
        unequal = Op.F_UNORD_NOT_EQUAL if source in FLOATS else Op.I_NOT_EQUAL
        return writer.typed(unequal, kind, operand, writer.constant(convert.operand.type, 0))
    if source in FLOATS and target in FLOATS:
        return writer.typed(Op.F_CONVERT, kind, operand)
    if source in FLOATS:
        return _saturated(writer, kind, source, operand)
    if target in FLOATS:
        writer.arithmetic(kind)
        return writer.typed(Op.CONVERT_S_TO_F if source is I32 else Op.CONVERT_U_TO_F, kind, operand)
    return writer.typed(Op.BITCAST, kind, operand)


def _saturated(writer: ExpressionWriter, kind: Scalar | Vector, source: Type, operand: int) -> int:
    floats = like(kind, F32)
    if source is F16:
        operand = writer.typed(Op.F_CONVERT, floats, operand)
    op, low, high, largest = _RANGES[element_of(kind)]
    inside = writer.glsl(Glsl.F_CLAMP, floats, operand, writer.constant(floats, low), writer.constant(floats, high))
    above = writer.typed(Op.F_GREATER, like(kind, BOOL), operand, writer.constant(floats, high))
    return writer.typed(Op.SELECT, kind, above, writer.constant(kind, largest), writer.typed(op, kind, inside))
