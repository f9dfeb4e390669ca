"""Translates expressions: each becomes instructions of the current block, and the id of its value.

An instruction that computes the same as one before it on every way to it is left out, as are loads of variables of the
function and of elements whose value is known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from deploykit.compiler.codegen.shaders.spirv.bounds import most
from deploykit.compiler.codegen.shaders.spirv.module import STORAGE, ModuleBuilder
from deploykit.compiler.codegen.shaders.spirv.numbers import Capability, Glsl, Op
from deploykit.compiler.codegen.shaders.wgsl.reading.tree import (
    Binary,
    Bitcast,
    Builtin,
    Call,
    Construct,
    Convert,
    Expression,
    Index,
    Literal,
    Member,
    Name,
    Splat,
    Swizzle,
    Unary,
)
from deploykit.compiler.codegen.shaders.wgsl.reading.types import (
    BOOL,
    F16,
    FLOATS,
    I32,
    U32,
    Array,
    Scalar,
    Type,
    Vector,
    element_of,
    like,
    spelled,
)

_FLOATS = {
    "+": Op.F_ADD,
    "-": Op.F_SUB,
    "*": Op.F_MUL,
    "/": Op.F_DIV,
    "%": Op.F_REM,
    "==": Op.F_EQUAL,
    "!=": Op.F_UNORD_NOT_EQUAL,
    "<": Op.F_LESS,
    "<=": Op.F_LESS_EQUAL,
    ">": Op.F_GREATER,
    ">=": Op.F_GREATER_EQUAL,
}
_INTEGERS = {
    "+": Op.I_ADD,
    "-": Op.I_SUB,
    "*": Op.I_MUL,
    "==": Op.I_EQUAL,
    "!=": Op.I_NOT_EQUAL,
    "&": Op.BITWISE_AND,
    "|": Op.BITWISE_OR,
    "^": Op.BITWISE_XOR,
    "<<": Op.SHIFT_LEFT,
}
_OPERATORS: dict[Type, dict[str, int]] = {
    **dict.fromkeys(FLOATS, _FLOATS),
    I32: {
        **_INTEGERS,
        "<": Op.S_LESS,
        "<=": Op.S_LESS_EQUAL,
        ">": Op.S_GREATER,
        ">=": Op.S_GREATER_EQUAL,
        ">>": Op.SHIFT_RIGHT_ARITHMETIC,
    },
    U32: {
        **_INTEGERS,
        "<": Op.U_LESS,
        "<=": Op.U_LESS_EQUAL,
        ">": Op.U_GREATER,
        ">=": Op.U_GREATER_EQUAL,
        ">>": Op.SHIFT_RIGHT_LOGICAL,
        "/": Op.U_DIV,
        "%": Op.U_MOD,
    },
    BOOL: {
        "&": Op.LOGICAL_AND,
        "|": Op.LOGICAL_OR,
        "&&": Op.LOGICAL_AND,
        "||": Op.LOGICAL_OR,
        "==": Op.LOGICAL_EQUAL,
        "!=": Op.LOGICAL_NOT_EQUAL,
    },
}
_ACTING = frozenset((Op.LOAD, Op.PHI, Op.FUNCTION_CALL, *range(Op.CONTROL_BARRIER, Op.PHI), *range(Op.SHUFFLE, 400)))
"""Instructions with results that depend on more than their operands: on memory, blocks or other invocations."""
_LANES = {lane: number for number, lane in enumerate("xyzw")}
_SHIFTS = frozenset(("<<", ">>"))
_LOWEST = -(2**31)


class ExpressionWriter:
    """The expressions of one function. `functions` are the ids of those that it can call. `FunctionWriter` adds
    handlers for the functions of WGSL and for conversions, which use this class."""

    def __init__(self, module: ModuleBuilder, functions: dict[str, int], variables: dict[str, int]) -> None:
        self.module, self.functions = module, functions
        self.ids = dict(variables)
        """The ids of the names in scope: of values, and of pointers to variables."""
        self.bounds: dict[str, int] = {}
        """The largest values of the names in scope, as far as they are known."""
        self.scalars: dict[int, int] = {}
        """The members of the push constants that are loaded, by their numbers."""
        self.first: list[int] = []
        """Words at the start of the function, after the variables."""
        self.body: list[int] = []
        self.values: dict[tuple[int, ...], int] = {}
        """The ids of what is computed on every way to here, by instructions without them."""
        self.stored: dict[int, int] = {}
        """The ids of what the function's variables hold here, as far as they are known."""
        self.loaded: dict[int, int] = {}
        """The ids of what is at pointers to other memory here, as far as they are known."""
        self.read: set[int] = set()
        """The function's variables that are loaded, or of which parts are taken."""
        self.label = 0
        """The id of the current block."""
        self.guarded = 0
        """How many `select`s are around the expression, which evaluate what they do not choose."""

    def new(self, op: int, kind: int, *operands: int) -> int:
        """An instruction with a result of the type `kind`, and its id."""
        module, key = self.module, (op, kind, *operands)
        known = self.values.get(key)
        if known is not None:
            return known
        result = module.bound
        module.bound += 1
        self.body += ((len(operands) + 3) << 16 | op, kind, result, *operands)
        if op not in _ACTING:
            self.values[key] = result
        elif op != Op.LOAD:
            self.loaded = {}
        return result

    def act(self, op: int, *operands: int) -> None:
        """An instruction without a result."""
        self.loaded = {}
        self.body += ((len(operands) + 1) << 16 | op, *operands)

    def typed(self, op: int, kind: Type, *operands: int) -> int:
        return self.new(op, self.module.type(kind), *operands)

    def glsl(self, function: int, kind: Type, *operands: int) -> int:
        """A call of a function of `GLSL.std.450`."""
        return self.new(Op.EXT_INST, self.module.type(kind), self.module.library, function, *operands)

    def constant(self, kind: Type, value: float) -> int:
        """A constant scalar, or vector of equal elements."""
        if isinstance(kind, Vector):
            element = self.module.number(kind.element, value)
            return self.module.composite(self.module.type(kind), [element] * kind.size)
        assert isinstance(kind, Scalar)
        return self.module.number(kind, value)

    def most(self, value: Expression) -> int | None:
        """The largest value of an integer, if that is known."""
        return most(value, self.bounds)

    def value(self, expression: Expression) -> int:
        """The id of an expression's value."""
        handler = self.handlers.get(type(expression))
        if handler is None:
            raise ValueError(f"no SPIR-V for {type(expression).__name__}")
        return handler(self, expression)

    # Memory

    def _literal(self, literal: Literal) -> int:
        return self.module.number(literal.type, literal.value)

    def _name(self, name: Name) -> int:
        if not name.space:
            return self.ids[name.name]
        pointer = self.ids[name.name]
        if name.space != "function":
            return self._load(name.type, pointer)
        known = self.stored.get(pointer)
        if known is None:
            known = self.stored[pointer] = self.typed(Op.LOAD, name.type, pointer)
            self.read.add(pointer)
        return known

    def _load(self, kind: Type, pointer: int) -> int:
        known = self.loaded.get(pointer)
        if known is None:
            known = self.loaded[pointer] = self.typed(Op.LOAD, kind, pointer)
        return known

    def _member(self, member: Member) -> int:
        """A member of the scalars, which is loaded once, where the function begins."""
        if not isinstance(member.base, Name) or member.base.space != "uniform":
            raise ValueError(f"no SPIR-V for a member of {spelled(member.base.type)}")
        known = self.scalars.get(member.number)
        if known is None:
            body, self.body = self.body, self.first
            known = self.scalars[member.number] = self.typed(Op.LOAD, member.type, self.place(member))
            self.body = body
        return known

    def _index(self, index: Index) -> int:
        if _root(index):
            return self._load(index.type, self.place(index))
        base, number = self.value(index.base), self.value(index.index)
        if isinstance(index.base.type, Vector):
            return self.typed(Op.VECTOR_EXTRACT_DYNAMIC, index.type, base, number)
        raise ValueError(f"no SPIR-V for an element of a value of {spelled(index.base.type)}")

    def _swizzle(self, swizzle: Swizzle) -> int:
        numbers = [_LANES[lane] for lane in swizzle.lanes]
        if len(numbers) == 1 and isinstance(swizzle.base, Index) and _root(swizzle.base):
            return self._load(swizzle.type, self.place(swizzle))
        base = self.value(swizzle.base)
        if len(numbers) == 1:
            return self.typed(Op.COMPOSITE_EXTRACT, swizzle.type, base, *numbers)
        return self.typed(Op.VECTOR_SHUFFLE, swizzle.type, base, base, *numbers)

    def place(self, place: Expression) -> int:
        """The pointer to a place."""
        steps: list[int] = []
        base = place
        while not isinstance(base, Name):
            match base:
                case Index(_, inner, index):
                    steps.append(self._step(inner, index))
                case Member(_, inner, _, number):
                    steps.append(self.module.number(I32, number))
                case Swizzle(_, inner, lane) if len(lane) == 1:
                    steps.append(self.module.number(U32, _LANES[lane]))
                case _:
                    raise ValueError(f"no SPIR-V for a place in {type(base).__name__}")
            base = inner
        if not base.space:
            raise ValueError(f"{base.name} is no variable")
        if base.space == "storage":
            steps.append(self.module.number(I32, 0))
        if not steps:
            return self.ids[base.name]
        if base.space == "function":
            self.read.add(self.ids[base.name])
        kind = self.module.pointer(STORAGE[base.space], self.module.type(place.type))
        return self.new(Op.ACCESS_CHAIN, kind, self.ids[base.name], *reversed(steps))

    def _step(self, base: Expression, index: Expression) -> int:
        """An index, inside an array of known length if the access may be one that was not chosen."""
        number = self.value(index)
        kind = base.type
        if not self.guarded or not isinstance(kind, Array) or kind.length is None:
            return number
        bound = self.most(index)
        if bound is not None and bound < kind.length:
            return number
        if index.type is I32:
            number = self.typed(Op.BITCAST, U32, number)
        return self.glsl(Glsl.U_MIN, U32, number, self.module.number(U32, kind.length - 1))

    # Operators

    def _unary(self, unary: Unary) -> int:
        operand = self.value(unary.operand)
        if unary.operator == "-":
            self.arithmetic(unary.type)
            op = Op.F_NEGATE if element_of(unary.type) in FLOATS else Op.S_NEGATE
        else:
            op = Op.LOGICAL_NOT if unary.operator == "!" else Op.NOT
        return self.typed(op, unary.type, operand)

    def arithmetic(self, kind: Type) -> None:
        """Note an operation other than a conversion, which is more than 16-bit memory needs."""
        if element_of(kind) is F16:
            self.module.capabilities.add(Capability.FLOAT16)

    def _binary(self, binary: Binary) -> int:
        symbol, kind = binary.operator, binary.left.type
        if symbol in ("&&", "||") and not _cheap(binary.right):
            return self._branched(binary)
        element = element_of(kind)
        if element is I32 and symbol in ("/", "%"):
            return self._signed_division(binary)
        left, right = self.value(binary.left), self.value(binary.right)
        if symbol in _SHIFTS and ((bound := self.most(binary.right)) is None or bound > 31):
            right = self.typed(Op.BITWISE_AND, binary.right.type, right, self.constant(binary.right.type, 31))
        self.arithmetic(kind)
        return self.typed(_OPERATORS[element][symbol], binary.type, left, right)

    def _branched(self, binary: Binary) -> int:
        """`&&` or `||` whose right operand is evaluated only if it is needed."""
        left = self.value(binary.left)
        before, right, after = self.label, self.module.new(), self.module.new()
        self.act(Op.SELECTION_MERGE, after, 0)
        self.act(Op.BRANCH_CONDITIONAL, left, *((right, after) if binary.operator == "&&" else (after, right)))
        self.begin(right)
        values, stored = self.values.copy(), self.stored.copy()
        second = self.value(binary.right)
        last = self.label
        self.act(Op.BRANCH, after)
        self.values, self.stored = values, stored
        self.begin(after)
        return self.typed(Op.PHI, BOOL, left, before, second, last)

    def begin(self, label: int) -> None:
        """Begin a block."""
        self.act(Op.LABEL, label)
        self.label = label

    def _signed_division(self, binary: Binary) -> int:
        """A quotient or remainder. A division by 0, or of the lowest number by -1, is one by 1. Vulkan defines no
        remainder of negative numbers."""
        kind = binary.left.type
        left, right = self.value(binary.left), self.value(binary.right)
        if not isinstance(binary.right, Literal) or binary.right.value in (0, -1):
            truth, one = like(kind, BOOL), self.constant(kind, 1)
            zero = self.typed(Op.I_EQUAL, truth, right, self.constant(kind, 0))
            lowest = self.typed(Op.I_EQUAL, truth, left, self.constant(kind, _LOWEST))
            negative = self.typed(Op.I_EQUAL, truth, right, self.constant(kind, -1))
            over = self.typed(Op.LOGICAL_AND, truth, lowest, negative)
            right = self.typed(Op.SELECT, kind, self.typed(Op.LOGICAL_OR, truth, zero, over), one, right)
        quotient = self.typed(Op.S_DIV, kind, left, right)
        if binary.operator == "/":
            return quotient
        return self.typed(Op.I_SUB, kind, left, self.typed(Op.I_MUL, kind, quotient, right))

    # Calls and values of parts

    def _call(self, call: Call) -> int:
        arguments = [self.value(argument) for argument in call.arguments]
        return self.typed(Op.FUNCTION_CALL, call.type, self.functions[call.function], *arguments)

    def composed(self, kind: Type, parts: list[int]) -> int:
        """A vector or array of these parts."""
        if self.module.constants.issuperset(parts):
            return self.module.composite(self.module.type(kind), parts)
        return self.typed(Op.COMPOSITE_CONSTRUCT, kind, *parts)

    def _construct(self, construct: Construct) -> int:
        parts = [self.value(argument) for argument in construct.arguments]
        if isinstance(construct.type, Vector) and len(parts) < construct.type.size:
            return self.typed(Op.COMPOSITE_CONSTRUCT, construct.type, *parts)
        return self.composed(construct.type, parts)

    def _splat(self, splat: Splat) -> int:
        return self.composed(splat.type, [self.value(splat.operand)] * splat.type.size)

    def _bitcast(self, bitcast: Bitcast) -> int:
        return self.typed(Op.BITCAST, bitcast.type, self.value(bitcast.operand))

    handlers: dict[type, Callable[[ExpressionWriter, Any], int]] = {  # noqa: RUF012
        Literal: _literal,
        Name: _name,
        Member: _member,
        Index: _index,
        Swizzle: _swizzle,
        Unary: _unary,
        Binary: _binary,
        Call: _call,
        Construct: _construct,
        Splat: _splat,
        Bitcast: _bitcast,
    }


def _root(place: Expression) -> bool:
    """Whether an expression is a place in memory."""
    while isinstance(place, Index | Member | Swizzle):
        place = place.base
    return isinstance(place, Name) and bool(place.space)


def _cheap(value: Expression) -> bool:
    """Whether an expression may be evaluated without need: it loads no element, calls nothing and does not divide."""
    match value:
        case Literal() | Name():
            return True
        case Member(_, base) | Swizzle(_, base):
            return _cheap(base)
        case Unary(_, _, operand) | Convert(_, operand) | Bitcast(_, operand) | Splat(_, operand):
            return _cheap(operand)
        case Binary(_, symbol, left, right):
            return symbol not in ("/", "%") and _cheap(left) and _cheap(right)
        case Builtin(_, "select" | "min" | "max" | "abs", arguments):
            return all(_cheap(argument) for argument in arguments)
    return False
