"""The types of WGSL that shaders use. Scalars and vectors are made once, so `is` compares them; see `vector`.

`ABSTRACT_INT` and `ABSTRACT_FLOAT` are the types of literals without a suffix while they are read; a tree has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, eq=False)
class Scalar:
    """`f32`, `f16`, `i32`, `u32` or `bool`."""

    name: str


@dataclass(frozen=True, eq=False)
class Vector:
    """`size` elements, 2 to 4. Use `vector` to get one."""

    element: Scalar
    size: int


@dataclass(frozen=True)
class Array:
    """`length` elements; None for an array that is as long as its binding."""

    element: Type
    length: int | None


@dataclass(frozen=True)
class Atomic:
    """An `i32` or `u32` that only atomic functions access."""

    element: Scalar


@dataclass(frozen=True)
class Struct:
    """A struct with these members, as pairs of name and type."""

    name: str
    members: tuple[tuple[str, Type], ...]


@dataclass(frozen=True)
class Pointer:
    """The address of a `target` in an address space: `function`, `private`, `workgroup`, `uniform` or `storage`."""

    space: str
    target: Type


Type: TypeAlias = Scalar | Vector | Array | Atomic | Struct | Pointer

F32, F16, I32, U32, BOOL = (Scalar(name) for name in ("f32", "f16", "i32", "u32", "bool"))
VOID = Scalar("void")
"""The type of a call without a result."""
ABSTRACT_INT, ABSTRACT_FLOAT = Scalar("abstract int"), Scalar("abstract float")

SCALARS = {scalar.name: scalar for scalar in (F32, F16, I32, U32, BOOL)}
FLOATS = frozenset((F32, F16))
INTEGERS = frozenset((I32, U32))
ABSTRACT = frozenset((ABSTRACT_INT, ABSTRACT_FLOAT))

SIZES = {"vec2": 2, "vec3": 3, "vec4": 4}

_VECTORS = {
    (element, size): Vector(element, size)
    for element in (*SCALARS.values(), ABSTRACT_INT, ABSTRACT_FLOAT)
    for size in SIZES.values()
}


def vector(element: Scalar, size: int) -> Vector:
    """The vector of `size` elements."""
    return _VECTORS[element, size]


def element_of(kind: Type) -> Type:
    """The type of the elements of a vector; a type that is no vector itself."""
    return kind.element if isinstance(kind, Vector) else kind


def like(kind: Type, element: Scalar) -> Scalar | Vector:
    """A scalar or vector of `element`, with as many elements as `kind`."""
    return vector(element, kind.size) if isinstance(kind, Vector) else element


def spelled(kind: Type) -> str:
    """The type in WGSL."""
    match kind:
        case Vector(element, size):
            return f"vec{size}<{element.name}>"
        case Array(inner, length):
            return f"array<{spelled(inner)}{'' if length is None else f', {length}'}>"
        case Atomic(element):
            return f"atomic<{element.name}>"
        case Pointer(space, target):
            return f"ptr<{space}, {spelled(target)}>"
        case Scalar(name) | Struct(name):
            return name
