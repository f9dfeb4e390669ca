"""Translates the functions of WGSL: most are functions of `GLSL.std.450`."""

from __future__ import annotations

from deploykit.compiler.codegen.shaders.spirv.expressions import ExpressionWriter
from deploykit.compiler.codegen.shaders.spirv.numbers import PACKED_4X8, Capability, Glsl, Op, Scope, Semantics
from deploykit.compiler.codegen.shaders.wgsl.reading.tree import Address, Builtin, Expression, Literal
from deploykit.compiler.codegen.shaders.wgsl.reading.types import (
    BOOL,
    FLOATS,
    I32,
    U32,
    Pointer,
    Vector,
    element_of,
    like,
)

_GLSL = {
    "acos": Glsl.ACOS,
    "acosh": Glsl.ACOSH,
    "asin": Glsl.ASIN,
    "asinh": Glsl.ASINH,
    "atan": Glsl.ATAN,
    "atanh": Glsl.ATANH,
    "ceil": Glsl.CEIL,
    "cos": Glsl.COS,
    "cosh": Glsl.COSH,
    "exp": Glsl.EXP,
    "exp2": Glsl.EXP2,
    "floor": Glsl.FLOOR,
    "fract": Glsl.FRACT,
    "inverseSqrt": Glsl.INVERSE_SQRT,
    "log": Glsl.LOG,
    "log2": Glsl.LOG2,
    "round": Glsl.ROUND_EVEN,
    "sin": Glsl.SIN,
    "sinh": Glsl.SINH,
    "sqrt": Glsl.SQRT,
    "tan": Glsl.TAN,
    "tanh": Glsl.TANH,
    "trunc": Glsl.TRUNC,
    "atan2": Glsl.ATAN2,
    "pow": Glsl.POW,
    "step": Glsl.STEP,
    "fma": Glsl.FMA,
    "mix": Glsl.F_MIX,
    "smoothstep": Glsl.SMOOTH_STEP,
    "pack2x16float": Glsl.PACK_HALF,
    "unpack2x16float": Glsl.UNPACK_HALF,
    "length": Glsl.LENGTH,
}
_OF_KIND = {
    "abs": (Glsl.F_ABS, Glsl.S_ABS, 0),
    "sign": (Glsl.F_SIGN, Glsl.S_SIGN, 0),
    "min": (Glsl.F_MIN, Glsl.S_MIN, Glsl.U_MIN),
    "max": (Glsl.F_MAX, Glsl.S_MAX, Glsl.U_MAX),
    "clamp": (Glsl.F_CLAMP, Glsl.S_CLAMP, Glsl.U_CLAMP),
}
"""The functions of floats, of signed and of unsigned integers."""
_INSTRUCTIONS = {
    "any": Op.ANY,
    "all": Op.ALL,
    "countOneBits": Op.BIT_COUNT,
    "reverseBits": Op.BIT_REVERSE,
}
_ATOMICS = {
    "atomicAdd": (Op.ATOMIC_ADD,) * 2,
    "atomicSub": (Op.ATOMIC_SUB,) * 2,
    "atomicMin": (Op.ATOMIC_S_MIN, Op.ATOMIC_U_MIN),
    "atomicMax": (Op.ATOMIC_S_MAX, Op.ATOMIC_U_MAX),
    "atomicAnd": (Op.ATOMIC_AND,) * 2,
    "atomicOr": (Op.ATOMIC_OR,) * 2,
    "atomicXor": (Op.ATOMIC_XOR,) * 2,
    "atomicExchange": (Op.ATOMIC_EXCHANGE,) * 2,
    "atomicLoad": (Op.ATOMIC_LOAD,) * 2,
}
"""The instructions for signed and for unsigned integers."""
_SHUFFLES = {
    "subgroupShuffle": (Op.SHUFFLE, Capability.GROUP_SHUFFLE),
    "subgroupShuffleXor": (Op.SHUFFLE_XOR, Capability.GROUP_SHUFFLE),
    "subgroupShuffleUp": (Op.SHUFFLE_UP, Capability.GROUP_SHUFFLE_RELATIVE),
    "subgroupShuffleDown": (Op.SHUFFLE_DOWN, Capability.GROUP_SHUFFLE_RELATIVE),
}
_REDUCTIONS = {
    "subgroupAdd": (Op.GROUP_F_ADD, Op.GROUP_I_ADD, Op.GROUP_I_ADD),
    "subgroupMul": (Op.GROUP_F_MUL, Op.GROUP_I_MUL, Op.GROUP_I_MUL),
    "subgroupMin": (Op.GROUP_F_MIN, Op.GROUP_S_MIN, Op.GROUP_U_MIN),
    "subgroupMax": (Op.GROUP_F_MAX, Op.GROUP_S_MAX, Op.GROUP_U_MAX),
}
_BARRIERS = {"workgroupBarrier": Semantics.WORKGROUP_MEMORY, "storageBarrier": Semantics.UNIFORM_MEMORY}
_WORD = 32


def translate(writer: ExpressionWriter, call: Builtin) -> int:
    """The id of the value of a call; any number for one without a value."""
    name = call.function
    if name in _BARRIERS:
        return _barrier(writer, _BARRIERS[name])
    if isinstance(call.arguments[0], Address):
        return _of_memory(writer, call)
    if name == "select":
        return _select(writer, call)
    if name in ("extractBits", "insertBits"):
        return _bits(writer, call)
    operands = [writer.value(argument) for argument in call.arguments]
    writer.arithmetic(call.arguments[0].type)
    if name in _GLSL:
        return writer.glsl(_GLSL[name], call.type, *operands)
    if name in _OF_KIND:
        function = _OF_KIND[name][_number_of_kind(call.arguments[0])]
        return writer.glsl(function, call.type, *operands) if function else operands[0]
    if name in _INSTRUCTIONS:
        return writer.typed(_INSTRUCTIONS[name], call.type, *operands)
    if name in _SHUFFLES or name in _REDUCTIONS:
        return _of_subgroup(writer, call, operands)
    return _other(writer, call, operands)


def _number_of_kind(value: Expression) -> int:
    element = element_of(value.type)
    return 0 if element in FLOATS else (1 if element is I32 else 2)


def _other(writer: ExpressionWriter, call: Builtin, operands: list[int]) -> int:
    kind = call.type
    match call.function:
        case "dot" if element_of(kind) in FLOATS:
            return writer.typed(Op.DOT, kind, *operands)
        case "dot4I8Packed" | "dot4U8Packed":
            writer.module.capabilities |= {Capability.DOT_PRODUCT, Capability.DOT_PRODUCT_INPUT_4X8_PACKED}
            return writer.typed(Op.U_DOT if kind is U32 else Op.S_DOT, kind, *operands, PACKED_4X8)
        case "saturate":
            return writer.glsl(Glsl.F_CLAMP, kind, *operands, writer.constant(kind, 0), writer.constant(kind, 1))
        case "countLeadingZeros" if element_of(kind) is U32:
            highest = writer.glsl(Glsl.FIND_HIGHEST_U, kind, *operands)  # all bits are set where there is none
            return writer.typed(Op.I_SUB, kind, writer.constant(kind, _WORD - 1), highest)
        case "countTrailingZeros" if element_of(kind) is U32:
            lowest = writer.glsl(Glsl.FIND_LOWEST, kind, *operands)
            return writer.glsl(Glsl.U_MIN, kind, lowest, writer.constant(kind, _WORD))
    raise ValueError(f"no SPIR-V for {call.function}")


def _select(writer: ExpressionWriter, call: Builtin) -> int:
    """Both operands are evaluated, so neither may do harm if it is not chosen."""
    writer.guarded += 1
    otherwise, chosen, condition = (writer.value(argument) for argument in call.arguments)
    writer.guarded -= 1
    if isinstance(call.type, Vector) and call.arguments[2].type is BOOL:
        condition = writer.composed(like(call.type, BOOL), [condition] * call.type.size)
    return writer.typed(Op.SELECT, call.type, condition, chosen, otherwise)


def _bits(writer: ExpressionWriter, call: Builtin) -> int:
    """Bits of a word, from an offset that is cut to the word on. SPIR-V defines nothing for bits outside of it."""
    *values, offset, count = call.arguments
    operands = [writer.value(value) for value in values]
    first, width = _inside(writer, offset, count)
    if call.function == "insertBits":
        op = Op.BIT_FIELD_INSERT
    else:
        op = Op.BIT_FIELD_S_EXTRACT if element_of(call.type) is I32 else Op.BIT_FIELD_U_EXTRACT
    return writer.typed(op, call.type, *operands, first, width)


def _inside(writer: ExpressionWriter, offset: Expression, count: Expression) -> tuple[int, int]:
    """An offset and a number of bits inside a word."""
    if isinstance(offset, Literal) and isinstance(count, Literal):
        first = min(int(offset.value), _WORD)
        return writer.constant(U32, first), writer.constant(U32, min(int(count.value), _WORD - first))
    first_most, count_most = writer.most(offset), writer.most(count)
    start, width = writer.value(offset), writer.value(count)
    if first_most is not None and count_most is not None and first_most + count_most <= _WORD:
        return start, width
    word = writer.constant(U32, _WORD)
    start = writer.glsl(Glsl.U_MIN, U32, start, word)
    return start, writer.glsl(Glsl.U_MIN, U32, width, writer.typed(Op.I_SUB, U32, word, start))


# Other invocations


def _barrier(writer: ExpressionWriter, memory: int) -> int:
    scope = writer.constant(U32, Scope.WORKGROUP)
    writer.act(Op.CONTROL_BARRIER, scope, scope, writer.constant(U32, Semantics.ACQUIRE_RELEASE | memory))
    return 0


def _of_memory(writer: ExpressionWriter, call: Builtin) -> int:
    """An atomic function, or `workgroupUniformLoad`, which has a barrier before and after it."""
    address, *values = call.arguments
    assert isinstance(address, Address)
    pointer = writer.place(address.operand)
    if call.function == "workgroupUniformLoad":
        _barrier(writer, Semantics.WORKGROUP_MEMORY)
        loaded = writer.typed(Op.LOAD, call.type, pointer)
        _barrier(writer, Semantics.WORKGROUP_MEMORY)
        return loaded
    assert isinstance(address.type, Pointer)
    scope = Scope.WORKGROUP if address.type.space == "workgroup" else Scope.DEVICE
    memory = writer.constant(U32, scope), writer.constant(U32, Semantics.RELAXED)
    operands = [writer.value(value) for value in values]
    if call.function == "atomicStore":
        writer.act(Op.ATOMIC_STORE, pointer, *memory, *operands)
        return 0
    return writer.typed(_ATOMICS[call.function][element_of(call.type) is U32], call.type, pointer, *memory, *operands)


def _of_subgroup(writer: ExpressionWriter, call: Builtin, operands: list[int]) -> int:
    scope = writer.constant(U32, Scope.SUBGROUP)
    if call.function in _SHUFFLES:
        op, capability = _SHUFFLES[call.function]
        writer.module.capabilities |= {Capability.GROUP_NON_UNIFORM, capability}
        return writer.typed(op, call.type, scope, *operands)
    writer.module.capabilities |= {Capability.GROUP_NON_UNIFORM, Capability.GROUP_ARITHMETIC}
    op = _REDUCTIONS[call.function][_number_of_kind(call.arguments[0])]
    return writer.typed(op, call.type, scope, 0, *operands)
