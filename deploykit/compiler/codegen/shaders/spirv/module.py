"""Builds the binary of a SPIR-V module: ids, types and constants that exist once, and the sections in their order."""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterable

from deploykit.compiler.codegen.shaders.spirv.numbers import (
    EXTENSIONS,
    GL_COMPUTE,
    GLSL450,
    LOCAL_SIZE,
    LOGICAL,
    MAGIC,
    SHAPES,
    TO_NEAREST_EVEN,
    USUAL_SHAPE,
    VERSION,
    Capability,
    Decoration,
    Op,
    StorageClass,
)
from deploykit.compiler.codegen.shaders.wgsl.reading.types import (
    BOOL,
    F16,
    F32,
    FLOATS,
    I32,
    U32,
    VOID,
    Array,
    Atomic,
    Scalar,
    Struct,
    Type,
    Vector,
    spelled,
)

_LIBRARY = "GLSL.std.450"
_HEADER, _BOUND = 5, 3
"""The words before the first instruction, and the place of one more than the last id."""


class ModuleBuilder:
    """A module under construction. Numbers in all its methods are ids, or the words of operands."""

    def __init__(self) -> None:
        self.bound = 1
        """The next id."""
        self.capabilities = {Capability.SHADER}
        self.functions: list[int] = []
        """The words of the functions."""
        self.constants: set[int] = set()
        """The ids of the constants."""
        self._decorations: list[int] = []
        self._declarations: list[int] = []
        """The words of types, constants and variables of the module."""
        self._known: dict[tuple[int, ...], int] = {}
        """The ids of declarations without their own, which make them equal."""
        self._types: dict[Type, int] = {}
        self._numbers: dict[tuple[Scalar, float], int] = {}
        self._blocks: set[int] = set()
        """The structs that are decorated."""
        self._rounded: set[int] = set()
        """The conversions that are decorated."""
        self._library = 0

    def new(self) -> int:
        """A new id."""
        self.bound += 1
        return self.bound - 1

    @property
    def library(self) -> int:
        """The id of the functions of `GLSL.std.450`."""
        self._library = self._library or self.new()
        return self._library

    # Types

    def type(self, kind: Type) -> int:
        """A type outside the memory of bindings."""
        known = self._types.get(kind)
        if known is None:
            known = self._types[kind] = self._type(kind)
        return known

    def _type(self, kind: Type) -> int:
        match kind:
            case Scalar():
                return self._scalar(kind)
            case Vector(element, size):
                return self._declared(Op.TYPE_VECTOR, self.type(element), size)
            case Atomic(element):
                return self.type(element)
            case Array(element, length) if length is not None:
                return self._declared(Op.TYPE_ARRAY, self.type(element), self.number(U32, length))
        raise ValueError(f"no SPIR-V for the type {spelled(kind)}")

    def _scalar(self, kind: Scalar) -> int:
        if kind is VOID:
            return self._declared(Op.TYPE_VOID)
        if kind is BOOL:
            return self._declared(Op.TYPE_BOOL)
        if kind in FLOATS:
            return self._declared(Op.TYPE_FLOAT, 16 if kind is F16 else 32)
        return self._declared(Op.TYPE_INT, 32, int(kind is I32))

    def block(self, kind: Type) -> int:
        """The struct around what a binding or the push constants hold."""
        if isinstance(kind, Struct):
            members = [self.type(member) for _, member in kind.members]
            result = self._declared(Op.TYPE_STRUCT, *members)
            self._as_block(result, [4 * number for number in range(len(members))])
            return result
        if not isinstance(kind, Array) or kind.length is not None:
            raise ValueError(f"no SPIR-V for a binding of {spelled(kind)}")
        element = self.type(kind.element)
        elements = self._known.get((Op.TYPE_RUNTIME_ARRAY, element))
        if elements is None:
            elements = self._declared(Op.TYPE_RUNTIME_ARRAY, element)
            self.decorate(elements, Decoration.ARRAY_STRIDE, _bytes(kind.element))
        result = self._declared(Op.TYPE_STRUCT, elements)
        self._as_block(result, [0])
        return result

    def _as_block(self, kind: int, offsets: Iterable[int]) -> None:
        if kind not in self._blocks:
            self._blocks.add(kind)
            self.decorate(kind, Decoration.BLOCK)
            for number, offset in enumerate(offsets):
                _append(self._decorations, Op.MEMBER_DECORATE, kind, number, Decoration.OFFSET, offset)

    def pointer(self, storage: int, target: int) -> int:
        return self._declared(Op.TYPE_POINTER, storage, target)

    def function_type(self, result: int, parameters: Iterable[int]) -> int:
        return self._declared(Op.TYPE_FUNCTION, result, *parameters)

    # Constants and variables

    def number(self, kind: Scalar, value: float) -> int:
        """A constant number or truth."""
        key = kind, value
        known = self._numbers.get(key) if value else None  # 0.0 and -0.0 are equal keys
        if known is None:
            known = self._numbers[key] = self._number(kind, value)
            self.constants.add(known)
        return known

    def _number(self, kind: Scalar, value: float) -> int:
        if kind is BOOL:
            return self._constant(Op.CONSTANT_TRUE if value else Op.CONSTANT_FALSE, kind)
        if kind is F32:
            return self._constant(Op.CONSTANT, kind, *struct.unpack("<I", struct.pack("<f", value)))
        if kind is F16:
            self.capabilities.add(Capability.FLOAT16)
            return self._constant(Op.CONSTANT, kind, *struct.unpack("<H", struct.pack("<e", value)))
        return self._constant(Op.CONSTANT, kind, int(value) & 0xFFFFFFFF)

    def _constant(self, op: int, kind: Scalar, *words: int) -> int:
        return self._valued(op, self.type(kind), *words)

    def composite(self, kind: int, parts: Iterable[int]) -> int:
        """A constant vector or array of constants."""
        result = self._valued(Op.CONSTANT_COMPOSITE, kind, *parts)
        self.constants.add(result)
        return result

    def variable(self, storage: int, target: int) -> int:
        """A variable of the module."""
        pointer, result = self.pointer(storage, target), self.new()
        _append(self._declarations, Op.VARIABLE, pointer, result, storage)
        return result

    def decorate(self, target: int, *words: int) -> None:
        _append(self._decorations, Op.DECORATE, target, *words)

    def round_to_even(self, value: int) -> None:
        """Say of a conversion how it rounds."""
        if value not in self._rounded:
            self._rounded.add(value)
            self.decorate(value, Decoration.ROUNDING_MODE, TO_NEAREST_EVEN)

    def _declared(self, op: int, *words: int) -> int:
        """A type, whose id is the first operand."""
        known = self._known.get((op, *words))
        if known is None:
            known = self._known[op, *words] = self.new()
            _append(self._declarations, op, known, *words)
        return known

    def _valued(self, op: int, kind: int, *words: int) -> int:
        """A constant, whose id is the second operand."""
        known = self._known.get((op, kind, *words))
        if known is None:
            known = self._known[op, kind, *words] = self.new()
            _append(self._declarations, op, kind, known, *words)
        return known

    # The whole

    def binary(self, entry: int, name: str, interface: Iterable[int], workgroup: tuple[int, ...]) -> bytes:
        """The module, with an entry point that has these input variables."""
        words = [MAGIC, VERSION, 0, self.bound, 0]
        for capability in sorted(self.capabilities):
            _append(words, Op.CAPABILITY, capability)
        for capability, extension in EXTENSIONS.items():
            if capability in self.capabilities:
                _append(words, Op.EXTENSION, *_string(extension))
        if self._library:
            _append(words, Op.EXT_INST_IMPORT, self._library, *_string(_LIBRARY))
        _append(words, Op.MEMORY_MODEL, LOGICAL, GLSL450)
        _append(words, Op.ENTRY_POINT, GL_COMPUTE, entry, *_string(name), *interface)
        _append(words, Op.EXECUTION_MODE, entry, LOCAL_SIZE, *(*workgroup, 1, 1)[:3])
        found = array("I", _renumbered([*words, *self._decorations, *self._declarations, *self.functions]))
        if sys.byteorder == "big":
            found.byteswap()
        return found.tobytes()


def _renumbered(words: list[int]) -> list[int]:
    """The module with ids in the order in which they appear, so that equal code in two modules looks alike."""
    numbers: dict[int, int] = {}
    at = _HEADER
    while at < len(words):
        shape = SHAPES.get(words[at] & 0xFFFF, USUAL_SHAPE)
        for place in range(1, words[at] >> 16):
            if shape[min(place, len(shape)) - 1] != "w":
                words[at + place] = numbers.setdefault(words[at + place], len(numbers) + 1)
        at += words[at] >> 16
    words[_BOUND] = len(numbers) + 1
    return words


def _append(into: list[int], op: int, *words: int) -> None:
    into.append((len(words) + 1) << 16 | op)
    into += words


def _string(text: str) -> tuple[int, ...]:
    data = text.encode() + b"\0"
    data += bytes(-len(data) % 4)
    return struct.unpack(f"<{len(data) // 4}I", data)


def _bytes(kind: Type) -> int:
    """The size of an element of a binding."""
    if isinstance(kind, Vector):
        return (4 if kind.size == 3 else kind.size) * _bytes(kind.element)
    if isinstance(kind, Atomic):
        return _bytes(kind.element)
    return 2 if kind is F16 else 4


STORAGE = {
    "function": StorageClass.FUNCTION,
    "private": StorageClass.PRIVATE,
    "workgroup": StorageClass.WORKGROUP,
    "storage": StorageClass.STORAGE_BUFFER,
    "uniform": StorageClass.PUSH_CONSTANT,
}
"""The storage classes of WGSL's address spaces."""
