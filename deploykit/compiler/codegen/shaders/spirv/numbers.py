"""The numbers of SPIR-V's instructions and enumerants, and of the functions of `GLSL.std.450`.

Source: Khronos, "SPIR-V Specification", version 1.3, chapter 3, and "SPIR-V Extended Instructions for GLSL".
"""

from __future__ import annotations

MAGIC, VERSION = 0x07230203, 0x00010300


class Op:
    """Instructions."""

    EXTENSION, EXT_INST_IMPORT, EXT_INST, MEMORY_MODEL = 10, 11, 12, 14
    ENTRY_POINT, EXECUTION_MODE, CAPABILITY = 15, 16, 17
    TYPE_VOID, TYPE_BOOL, TYPE_INT, TYPE_FLOAT, TYPE_VECTOR, TYPE_ARRAY, TYPE_RUNTIME_ARRAY = 19, 20, 21, 22, 23, 28, 29
    TYPE_STRUCT, TYPE_POINTER, TYPE_FUNCTION = 30, 32, 33
    CONSTANT_TRUE, CONSTANT_FALSE, CONSTANT, CONSTANT_COMPOSITE = 41, 42, 43, 44
    FUNCTION, FUNCTION_PARAMETER, FUNCTION_END, FUNCTION_CALL = 54, 55, 56, 57
    VARIABLE, LOAD, STORE, ACCESS_CHAIN, DECORATE, MEMBER_DECORATE = 59, 61, 62, 65, 71, 72
    VECTOR_EXTRACT_DYNAMIC, VECTOR_SHUFFLE, COMPOSITE_CONSTRUCT, COMPOSITE_EXTRACT = 77, 79, 80, 81
    CONVERT_F_TO_U, CONVERT_F_TO_S, CONVERT_S_TO_F, CONVERT_U_TO_F, F_CONVERT, BITCAST = 109, 110, 111, 112, 115, 124
    S_NEGATE, F_NEGATE, I_ADD, F_ADD, I_SUB, F_SUB, I_MUL, F_MUL = 126, 127, 128, 129, 130, 131, 132, 133
    U_DIV, S_DIV, F_DIV, U_MOD, F_REM, DOT, ANY, ALL = 134, 135, 136, 137, 140, 148, 154, 155
    LOGICAL_EQUAL, LOGICAL_NOT_EQUAL, LOGICAL_OR, LOGICAL_AND, LOGICAL_NOT, SELECT = 164, 165, 166, 167, 168, 169
    I_EQUAL, I_NOT_EQUAL, U_GREATER, S_GREATER, U_GREATER_EQUAL, S_GREATER_EQUAL = 170, 171, 172, 173, 174, 175
    U_LESS, S_LESS, U_LESS_EQUAL, S_LESS_EQUAL = 176, 177, 178, 179
    F_EQUAL, F_UNORD_NOT_EQUAL, F_LESS, F_GREATER, F_LESS_EQUAL, F_GREATER_EQUAL = 180, 183, 184, 186, 188, 190
    SHIFT_RIGHT_LOGICAL, SHIFT_RIGHT_ARITHMETIC, SHIFT_LEFT = 194, 195, 196
    BITWISE_OR, BITWISE_XOR, BITWISE_AND, NOT = 197, 198, 199, 200
    BIT_FIELD_INSERT, BIT_FIELD_S_EXTRACT, BIT_FIELD_U_EXTRACT, BIT_REVERSE, BIT_COUNT = 201, 202, 203, 204, 205
    CONTROL_BARRIER, ATOMIC_LOAD, ATOMIC_STORE, ATOMIC_EXCHANGE, ATOMIC_ADD, ATOMIC_SUB = 224, 227, 228, 229, 234, 235
    ATOMIC_S_MIN, ATOMIC_U_MIN, ATOMIC_S_MAX, ATOMIC_U_MAX, ATOMIC_AND, ATOMIC_OR, ATOMIC_XOR = range(236, 243)
    PHI, LOOP_MERGE, SELECTION_MERGE, LABEL, BRANCH, BRANCH_CONDITIONAL, SWITCH = range(245, 252)
    RETURN, RETURN_VALUE, UNREACHABLE = 253, 254, 255
    SHUFFLE, SHUFFLE_XOR, SHUFFLE_UP, SHUFFLE_DOWN = 345, 346, 347, 348
    GROUP_I_ADD, GROUP_F_ADD, GROUP_I_MUL, GROUP_F_MUL = 349, 350, 351, 352
    GROUP_S_MIN, GROUP_U_MIN, GROUP_F_MIN, GROUP_S_MAX, GROUP_U_MAX, GROUP_F_MAX = range(353, 359)
    S_DOT, U_DOT = 4450, 4451


USUAL_SHAPE = "iri"
"""The operands of instructions that `SHAPES` does not list: a type, the result, and ids."""

SHAPES = {
    Op.EXTENSION: "w", Op.EXT_INST_IMPORT: "rw", Op.EXT_INST: "iriwi", Op.MEMORY_MODEL: "w",
    Op.ENTRY_POINT: "wiwwi", Op.EXECUTION_MODE: "iw", Op.CAPABILITY: "w",
    Op.TYPE_VOID: "r", Op.TYPE_BOOL: "r", Op.TYPE_INT: "rw", Op.TYPE_FLOAT: "rw", Op.TYPE_VECTOR: "riw",
    Op.TYPE_ARRAY: "ri", Op.TYPE_RUNTIME_ARRAY: "ri", Op.TYPE_STRUCT: "ri", Op.TYPE_POINTER: "rwi",
    Op.TYPE_FUNCTION: "ri", Op.CONSTANT: "irw", Op.FUNCTION: "ifwi", Op.VARIABLE: "ivwi", Op.STORE: "iiw",
    Op.LOAD: "iriw", Op.DECORATE: "iw", Op.MEMBER_DECORATE: "iw",
    Op.VECTOR_SHUFFLE: "iriiw", Op.COMPOSITE_EXTRACT: "iriw",
    Op.LOOP_MERGE: "iiw", Op.SELECTION_MERGE: "iw", Op.LABEL: "r", Op.BRANCH: "i", Op.BRANCH_CONDITIONAL: "i",
    Op.SWITCH: "iiwi", Op.RETURN_VALUE: "i", Op.CONTROL_BARRIER: "i", Op.ATOMIC_STORE: "i",
    **dict.fromkeys(range(Op.GROUP_I_ADD, Op.GROUP_F_MAX + 1), "iriwi"),
    Op.S_DOT: "iriiw", Op.U_DOT: "iriiw",
}  # fmt: skip
"""The operands of instructions: `i` for an id, `r` for the id of the result, `w` for a word that is no id; the last one
stands for all that follow. The result of `f` is a function, and that of `v` a variable."""


class Capability:
    """What a module needs of a device."""

    SHADER, FLOAT16, STORAGE_BUFFER_16BIT = 1, 9, 4433
    DOT_PRODUCT_INPUT_4X8_PACKED, DOT_PRODUCT = 6018, 6019
    GROUP_NON_UNIFORM, GROUP_ARITHMETIC, GROUP_SHUFFLE, GROUP_SHUFFLE_RELATIVE = 61, 63, 65, 66


class StorageClass:
    """Kinds of memory."""

    INPUT, WORKGROUP, PRIVATE, FUNCTION, PUSH_CONSTANT, STORAGE_BUFFER = 1, 4, 6, 7, 9, 12


class Decoration:
    """What is said of a type or variable."""

    BLOCK, ARRAY_STRIDE, BUILT_IN, COHERENT, NON_WRITABLE = 2, 6, 11, 23, 24
    BINDING, DESCRIPTOR_SET, OFFSET, ROUNDING_MODE = 33, 34, 35, 39


class Scope:
    """The invocations that an operation concerns."""

    DEVICE, WORKGROUP, SUBGROUP = 1, 2, 3


class Semantics:
    """The order of memory accesses, as bits."""

    RELAXED = 0
    ACQUIRE_RELEASE, UNIFORM_MEMORY, WORKGROUP_MEMORY = 0x8, 0x40, 0x100


EXTENSIONS = {Capability.DOT_PRODUCT: "SPV_KHR_integer_dot_product"}
"""The extensions that declare capabilities beyond SPIR-V 1.3."""

PACKED_4X8 = 0
"""The format of a word as four integers of 8 bits."""

TO_NEAREST_EVEN = 0
LOGICAL, GLSL450, GL_COMPUTE, LOCAL_SIZE = 0, 1, 5, 17

BUILT_INS = {
    "num_workgroups": 24,
    "workgroup_id": 26,
    "local_invocation_id": 27,
    "global_invocation_id": 28,
    "local_invocation_index": 29,
    "subgroup_size": 36,
    "subgroup_invocation_id": 41,
}
SUBGROUP_BUILT_INS = frozenset(("subgroup_size", "subgroup_invocation_id"))


class Glsl:
    """Functions of `GLSL.std.450`."""

    ROUND_EVEN, TRUNC, F_ABS, S_ABS, F_SIGN, S_SIGN, FLOOR, CEIL, FRACT = range(2, 11)
    SIN, COS, TAN, ASIN, ACOS, ATAN, SINH, COSH, TANH, ASINH, ACOSH, ATANH = range(13, 25)
    ATAN2, POW, EXP, LOG, EXP2, LOG2, SQRT, INVERSE_SQRT = range(25, 33)
    F_MIN, U_MIN, S_MIN, F_MAX, U_MAX, S_MAX, F_CLAMP, U_CLAMP, S_CLAMP, F_MIX = range(37, 47)
    STEP, SMOOTH_STEP, FMA = 48, 49, 50
    PACK_HALF, UNPACK_HALF, LENGTH, FIND_LOWEST, FIND_HIGHEST_U = 58, 62, 66, 73, 75
