"""Which variables of the module each function uses, and which it writes, itself or in functions that it calls.

OpenCL C has no such variables. Those in the memory of a workgroup and private ones are declared in the kernel; all are
passed to the functions that use them. A private variable is passed as its value to functions that only read it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from deploykit.compiler.codegen.shaders.wgsl.reading.tree import (
    Assign,
    Call,
    Function,
    Index,
    Let,
    Member,
    Module,
    Name,
    Swizzle,
    Var,
    Variable,
)
from deploykit.compiler.codegen.shaders.wgsl.reading.types import Array, Atomic, Pointer, Scalar, Struct, Vector

_TYPES = (Scalar, Vector, Array, Struct, Pointer, Atomic)


@dataclass(frozen=True)
class Uses:
    """What a function needs from its caller: `variables` in the order of their declaration, without the struct of the
    scalars, of which it needs `scalars`. It writes the private variables `written`."""

    variables: tuple[Variable, ...]
    scalars: tuple[str, ...]
    written: frozenset[str]

    @property
    def shared(self) -> bool:
        """Whether the function could be one of other kernels as well: it has no tensors or sizes."""
        return not self.scalars and not any(variable.space == "storage" for variable in self.variables)


def uses_of(module: Module) -> dict[str, Uses]:
    """The uses of each function of a module."""
    found: dict[str, Uses] = {}
    for function in module.functions:
        own = list(nodes(function.body))
        names = {node.name for node in own if isinstance(node, Name) and node.space not in ("", "function")}
        scalars = {node.name for node in own if isinstance(node, Member)}
        written = {root_of(node.target) for node in own if isinstance(node, Assign)}
        for node in own:
            if isinstance(node, Call):
                callee = found[node.function]
                names |= {variable.name for variable in callee.variables}
                scalars |= set(callee.scalars)
                written |= callee.written
        variables = tuple(v for v in module.variables if v.name in names and v.space != "uniform")
        private = frozenset(v.name for v in variables if v.space == "private" and v.name in written)
        fields_ = tuple(name for name, _ in scalars_of(module) if name in scalars)
        found[function.name] = Uses(variables, fields_, private)
    return found


def scalars_of(module: Module) -> tuple[tuple[str, Any], ...]:
    """The members of the struct of scalars: names and types."""
    kinds = [variable.type for variable in module.variables if variable.space == "uniform"]
    return tuple(member for kind in kinds if isinstance(kind, Struct) for member in kind.members)


def root_of(place: Any) -> str:
    """The name of the variable that a place is a part of."""
    while isinstance(place, Index | Member | Swizzle):
        place = place.base
    return place.name if isinstance(place, Name) else ""


def data_of(function: Function, uses: Uses) -> frozenset[str]:
    """The variables of a function whose values depend on tensors. They may be anything, unlike sizes and indices. For a
    function without tensors, its parameters are among them."""
    found = {parameter.name for parameter in function.parameters} if uses.shared else set()
    values = [
        (node.name if isinstance(node, Let | Var) else root_of(node.target), node.value)
        for node in nodes(function.body)
        if isinstance(node, Let | Var | Assign) and node.value is not None
    ]
    before = -1
    while before != len(found):
        before = len(found)
        found |= {name for name, value in values if depends_on_data(value, found)}
    return frozenset(found)


def depends_on_data(value: Any, data: Collection[str]) -> bool:
    """Whether an expression reads a tensor, one of these variables, or what a function returns."""
    return any(
        isinstance(node, Call) or (isinstance(node, Name) and (node.space == "storage" or node.name in data))
        for node in nodes(value)
    )


def names_of(module: Module) -> frozenset[str]:
    """All names that a module declares."""
    found = {variable.name for variable in module.variables} | {name for name, _ in scalars_of(module)}
    for function in module.functions:
        found |= {function.name, *(parameter.name for parameter in function.parameters)}
        found |= {node.name for node in nodes(function.body) if isinstance(node, Let | Var)}
    return frozenset(found)


def nodes(node: Any) -> Iterator[Any]:
    """A statement or expression, and all in it."""
    if isinstance(node, tuple):
        for part in node:
            yield from nodes(part)
    elif is_dataclass(node) and not isinstance(node, _TYPES):
        yield node
        for field in fields(node):
            yield from nodes(getattr(node, field.name))
