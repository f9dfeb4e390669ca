"""The types of expressions: literals take the type of their context, scalars beside vectors are spread over them.

An expression of literals without suffixes is computed as it is read, in Python's numbers, so an abstract type never
belongs to anything but a `Literal`. Raises `Unreadable` for operands that do not fit.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from deploykit.compiler.codegen.shaders.wgsl.reading.errors import Unreadable
from deploykit.compiler.codegen.shaders.wgsl.reading.tree import (
    Address,
    Binary,
    Bitcast,
    Builtin,
    Construct,
    Convert,
    Expression,
    Index,
    Literal,
    Member,
    Splat,
    Swizzle,
    Unary,
)
from deploykit.compiler.codegen.shaders.wgsl.reading.types import (
    ABSTRACT,
    ABSTRACT_FLOAT,
    ABSTRACT_INT,
    BOOL,
    F16,
    F32,
    FLOATS,
    I32,
    INTEGERS,
    U32,
    VOID,
    Array,
    Atomic,
    Pointer,
    Scalar,
    Struct,
    Type,
    Vector,
    element_of,
    like,
    spelled,
    vector,
)

_COMPARISONS = frozenset(("==", "!=", "<", "<=", ">", ">="))
_SHIFTS = frozenset(("<<", ">>"))
_TRUTHS = frozenset(("&&", "||"))
_COMPUTED: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
_OPERANDS = {
    **dict.fromkeys("+-*/%", FLOATS | INTEGERS),
    **dict.fromkeys("&|", INTEGERS | {BOOL}),
    "^": INTEGERS,
    **dict.fromkeys(("<", "<=", ">", ">="), FLOATS | INTEGERS),
    **dict.fromkeys(("==", "!="), FLOATS | INTEGERS | {BOOL}),
}

# Functions of operands that all have the type of the result, with how many they take.
_UNARY_FLOATS = (
    "acos acosh asin asinh atan atanh ceil cos cosh exp exp2 floor fract inverseSqrt log log2 round saturate sin sinh "
    "sqrt tan tanh trunc"
)
_SAME = {
    **dict.fromkeys(_UNARY_FLOATS.split(), (1, FLOATS)),
    **dict.fromkeys(("abs", "sign"), (1, FLOATS | INTEGERS)),
    **dict.fromkeys(("countLeadingZeros", "countOneBits", "countTrailingZeros", "reverseBits"), (1, INTEGERS)),
    **dict.fromkeys(("min", "max"), (2, FLOATS | INTEGERS)),
    **dict.fromkeys(("atan2", "pow", "step"), (2, FLOATS)),
    "clamp": (3, FLOATS | INTEGERS),
    **dict.fromkeys(("fma", "mix", "smoothstep"), (3, FLOATS)),
}
_SUBGROUP = {
    **dict.fromkeys(("subgroupShuffle", "subgroupShuffleXor", "subgroupShuffleDown", "subgroupShuffleUp"), 2),
    **dict.fromkeys(("subgroupAdd", "subgroupMax", "subgroupMin", "subgroupMul"), 1),
}
_BARRIERS = frozenset(("workgroupBarrier", "storageBarrier"))
_ATOMICS = {
    "atomicLoad": 1,
    **dict.fromkeys(
        (f"atomic{name}" for name in ("Store", "Add", "Sub", "Max", "Min", "And", "Or", "Xor", "Exchange")), 2
    ),
}
_OTHERS = frozenset(("select", "extractBits", "insertBits", "unpack2x16float", "pack2x16float", "dot", "length"))
_PACKED_DOTS = {"dot4I8Packed": I32, "dot4U8Packed": U32}
_REDUCTIONS = frozenset(("any", "all"))

BUILTINS = frozenset(
    (*_SAME, *_SUBGROUP, *_BARRIERS, *_ATOMICS, *_OTHERS, *_PACKED_DOTS, *_REDUCTIONS, "workgroupUniformLoad")
)
"""The functions of the language that `builtin` knows."""


def concrete(value: Expression, wanted: Type | None = None) -> Expression:
    """A value with a type of a tree: that of a literal becomes `wanted`, or `i32` or `f32` for None."""
    if not isinstance(value, Literal) or value.type not in ABSTRACT:
        return value
    target = element_of(wanted) if wanted else (I32 if value.type is ABSTRACT_INT else F32)
    if target in FLOATS:
        return Literal(target, float(value.value))
    if target in INTEGERS and value.type is ABSTRACT_INT:
        low, high = (0, 2**32) if target is U32 else (-(2**31), 2**31)
        if low <= value.value < high:
            return Literal(target, value.value)
    raise Unreadable(f"{value.value} is no {spelled(target)}")


def expect(value: Expression, wanted: Type) -> Expression:
    """A value that must have the type `wanted`."""
    found = concrete(value, wanted)
    if found.type is not wanted and found.type != wanted:
        raise Unreadable(f"{spelled(found.type)} where {spelled(wanted)} is wanted")
    return found


def unified(values: Sequence[Expression]) -> list[Expression]:
    """The values with one type: that of the first that is not abstract."""
    wanted = next((value.type for value in values if value.type not in ABSTRACT), None)
    if wanted is None:
        wanted = F32 if any(value.type is ABSTRACT_FLOAT for value in values) else I32
    return [expect(value, wanted) for value in values]


def _spread(value: Expression, kind: Type) -> Expression:
    """A scalar as a vector, if `kind` is one."""
    if isinstance(kind, Vector) and not isinstance(value.type, Vector):
        return Splat(kind, expect(value, kind.element))
    return value


def _scalar_or_vector(kind: Type, elements: frozenset[Scalar], what: str) -> Scalar | Vector:
    if not isinstance(kind, Scalar | Vector) or element_of(kind) not in elements:
        raise Unreadable(f"{what} of {spelled(kind)}")
    return kind


def unary(symbol: str, operand: Expression) -> Expression:
    """`-`, `!` or `~` of a value."""
    kind = operand.type
    if isinstance(operand, Literal) and symbol == "-" and kind is not U32 and kind is not BOOL:
        return Literal(operand.type, -operand.value)
    operand = concrete(operand)
    allowed = {"-": FLOATS | {I32}, "!": frozenset((BOOL,)), "~": INTEGERS}[symbol]
    return Unary(_scalar_or_vector(operand.type, allowed, symbol), symbol, operand)


def binary(symbol: str, left: Expression, right: Expression) -> Expression:
    """An operator of two values."""
    if symbol in _TRUTHS:
        return Binary(BOOL, symbol, expect(left, BOOL), expect(right, BOOL))
    if symbol in _SHIFTS:
        left = concrete(left)
        kind = _scalar_or_vector(left.type, INTEGERS, symbol)
        return Binary(kind, symbol, left, expect(right, like(kind, U32)))
    if left.type in ABSTRACT and right.type in ABSTRACT:
        computed = _computed(symbol, left, right)
        if computed:
            return computed
        left, right = unified((left, right))
    elif left.type is not right.type:
        left, right = _alike(left, right)
    kind = _scalar_or_vector(left.type, _OPERANDS[symbol], symbol)
    return Binary(like(kind, BOOL) if symbol in _COMPARISONS else kind, symbol, left, right)


def _alike(left: Expression, right: Expression) -> tuple[Expression, Expression]:
    left, right = _spread(left, right.type), _spread(right, left.type)
    left = concrete(left, right.type)
    return left, expect(right, left.type)


def _computed(symbol: str, left: Expression, right: Expression) -> Literal | None:
    """The result of an operator of two abstract literals; None for one that is not computed."""
    if not isinstance(left, Literal) or not isinstance(right, Literal) or symbol not in _COMPUTED:
        return None
    kind = ABSTRACT_FLOAT if ABSTRACT_FLOAT in (left.type, right.type) else ABSTRACT_INT
    if symbol == "/" and (kind is ABSTRACT_INT or right.value == 0):
        return None
    return Literal(kind, _COMPUTED[symbol](left.value, right.value))


def converted(kind: Scalar, operands: Sequence[Expression]) -> Expression:
    """`f32(x)` and the like."""
    if not operands:
        return Literal(kind, 0)
    (operand,) = operands
    if operand.type in ABSTRACT and kind is not BOOL:
        return concrete(operand, kind)
    operand = concrete(operand)
    if operand.type is kind:
        return operand
    if not isinstance(operand.type, Scalar):
        raise Unreadable(f"{kind.name} of {spelled(operand.type)}")
    return Convert(kind, operand)


def constructed(kind: Vector, operands: Sequence[Expression]) -> Expression:
    """`vec4<f32>(a, b)` and the like."""
    if not operands:
        return Splat(kind, Literal(kind.element, 0))
    if len(operands) == 1:
        operand = operands[0]
        if not isinstance(operand.type, Vector):
            return Splat(kind, expect(operand, kind.element))
        if operand.type.size != kind.size:
            raise Unreadable(f"{spelled(kind)} of {spelled(operand.type)}")
        return operand if operand.type is kind else Convert(kind, operand)
    parts = tuple(expect(operand, like(operand.type, kind.element)) for operand in operands)
    count = sum(part.type.size if isinstance(part.type, Vector) else 1 for part in parts)
    if count != kind.size:
        raise Unreadable(f"{spelled(kind)} of {count} elements")
    return Construct(kind, parts)


def filled(kind: Array, operands: Sequence[Expression]) -> Expression:
    """`array<T, N>(a, b)`, with all elements."""
    if len(operands) != kind.length:
        raise Unreadable(f"{spelled(kind)} of {len(operands)} elements")
    return Construct(kind, tuple(expect(operand, kind.element) for operand in operands))


def same_bits(kind: Type, operand: Expression) -> Expression:
    """`bitcast<kind>(operand)`."""
    operand = concrete(operand)
    if _bits(operand.type) != _bits(kind):
        raise Unreadable(f"{spelled(operand.type)} has other bits than {spelled(kind)}")
    return operand if operand.type is kind else Bitcast(kind, operand)


def _bits(kind: Type) -> int:
    if isinstance(kind, Vector):
        return kind.size * _bits(kind.element)
    if kind not in FLOATS | INTEGERS:
        raise Unreadable(f"bits of {spelled(kind)}")
    return 16 if kind is F16 else 32


def indexed(base: Expression, index: Expression) -> Expression:
    """`base[index]`."""
    index = concrete(index)
    if index.type not in INTEGERS:
        raise Unreadable(f"an index of {spelled(index.type)}")
    if not isinstance(base.type, Array | Vector):
        raise Unreadable(f"an element of {spelled(base.type)}")
    return Index(base.type.element, base, index)


def selected(base: Expression, name: str) -> Expression:
    """`base.name`: a member, or elements of a vector."""
    kind = base.type
    if isinstance(kind, Struct):
        for number, (member, type_) in enumerate(kind.members):
            if member == name:
                return Member(type_, base, name, number)
        raise Unreadable(f"{kind.name} has no member {name}")
    if not isinstance(kind, Vector):
        raise Unreadable(f".{name} of {spelled(kind)}")
    lanes = name.translate(str.maketrans("rgba", "xyzw"))
    if not 0 < len(lanes) <= 4 or not set(lanes) <= set("xyzw"[: kind.size]):
        raise Unreadable(f".{name} of {spelled(kind)}")
    return Swizzle(kind.element if len(lanes) == 1 else vector(kind.element, len(lanes)), base, lanes)


def builtin(name: str, given: Sequence[Expression]) -> Expression:
    """A call of a function of the language."""
    if name in _SAME:
        count, elements = _SAME[name]
        operands = unified(given)
        if len(operands) != count:
            raise Unreadable(f"{name} of {count} operands")
        if elements is FLOATS:
            operands = [concrete(value, F32) for value in operands]
        return Builtin(_scalar_or_vector(operands[0].type, elements, name), name, tuple(operands))
    if name in _BARRIERS:
        return Builtin(VOID, name, tuple(given))
    if name in _SUBGROUP:
        return _subgroup(name, given)
    if name in _ATOMICS or name == "workgroupUniformLoad":
        return _of_address(name, given)
    return _other(name, given)


def _subgroup(name: str, given: Sequence[Expression]) -> Expression:
    value = concrete(given[0])
    if len(given) != _SUBGROUP[name]:
        raise Unreadable(f"{name} of {len(given)} operands")
    return Builtin(value.type, name, (value, *(expect(lane, U32) for lane in given[1:])))


def _of_address(name: str, given: Sequence[Expression]) -> Expression:
    address, *values = given
    target = address.type.target if isinstance(address, Address) else VOID
    count = _ATOMICS.get(name)
    if len(given) != (count or 1) or isinstance(target, Atomic) != (count is not None):
        raise Unreadable(f"{name} of {', '.join(spelled(value.type) for value in given)}")
    kind = target.element if isinstance(target, Atomic) else target
    operands = (address, *(expect(value, kind) for value in values))
    return Builtin(VOID if name == "atomicStore" else kind, name, operands)


def _other(name: str, given: Sequence[Expression]) -> Expression:
    match name, tuple(given):
        case "select", (otherwise, chosen, condition):
            otherwise, chosen = unified((otherwise, chosen))
            truth = BOOL if condition.type is BOOL else like(chosen.type, BOOL)
            return Builtin(chosen.type, name, (otherwise, chosen, expect(condition, truth)))
        case "extractBits", (value, offset, count):
            value = concrete(value)
            kind = _scalar_or_vector(value.type, INTEGERS, name)
            return Builtin(kind, name, (value, expect(offset, U32), expect(count, U32)))
        case "insertBits", (value, new, offset, count):
            value, new = unified((value, new))
            kind = _scalar_or_vector(value.type, INTEGERS, name)
            return Builtin(kind, name, (value, new, expect(offset, U32), expect(count, U32)))
        case "unpack2x16float", (word,):
            return Builtin(vector(F32, 2), name, (expect(word, U32),))
        case "pack2x16float", (pair,):
            return Builtin(U32, name, (expect(pair, vector(F32, 2)),))
        case "dot", (left, right) if isinstance(left.type, Vector):
            return Builtin(left.type.element, name, (left, expect(right, left.type)))
        case (("dot4I8Packed" | "dot4U8Packed"), (left, right)):
            return Builtin(_PACKED_DOTS[name], name, (expect(left, U32), expect(right, U32)))
        case "length", (value,) if isinstance(value.type, Vector):
            return Builtin(_scalar_or_vector(value.type.element, FLOATS, name), name, (value,))
        case (("any" | "all"), (value,)) if element_of(value.type) is BOOL:
            return Builtin(BOOL, name, (value,))
    raise Unreadable(f"{name} of {', '.join(spelled(value.type) for value in given)}")


def address(place: Expression) -> Pointer:
    """The type of the address of a place."""
    base = place
    while isinstance(base, Index | Member):
        base = base.base
    space = getattr(base, "space", "")
    if not space:
        raise Unreadable(f"the address of {type(place).__name__}")
    return Pointer(space, place.type)
