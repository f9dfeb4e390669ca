"""Prints expressions. Every operation with operands is in parentheses, except the outermost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from deploykit.compiler.codegen.shaders.opencl import builtins
from deploykit.compiler.codegen.shaders.opencl.errors import Unprintable
from deploykit.compiler.codegen.shaders.opencl.types import bare, literal, truths, type_of
from deploykit.compiler.codegen.shaders.opencl.uses import Uses, data_of, depends_on_data
from deploykit.compiler.codegen.shaders.opencl.words import Names
from deploykit.compiler.codegen.shaders.wgsl.reading.tree import (
    Address,
    Binary,
    Bitcast,
    Builtin,
    Call,
    Construct,
    Convert,
    Expression,
    Function,
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
    I32,
    INTEGERS,
    U32,
    Array,
    Vector,
    element_of,
    like,
)

_DIVISIONS = {"/": "quotient", "%": "rest"}
_WRAPPING = frozenset("+-*")


class ExpressionPrinter:
    """Prints expressions of a function. `kernel`: whether the variables of the module are its own. `called` are the
    names of functions, `uses` what they need."""

    def __init__(
        self, names: Names, uses: Mapping[str, Uses], called: Mapping[str, str], function: Function, *, kernel: bool
    ) -> None:
        self.names, self.uses, self.called, self.kernel = names, uses, called, kernel
        self.here = uses[function.name]
        self.data = data_of(function, self.here)

    def value(self, node: Expression) -> str:
        """The text of a whole value, such as an argument."""
        return bare(self.print(node))

    def print(self, node: Expression) -> str:
        """The text of a value as an operand."""
        return self._handlers[type(node)](self, node)

    def _literal(self, node: Literal) -> str:
        return literal(node)

    def _name(self, node: Name) -> str:
        name = self.names.of(node.name)
        pointed = node.space == "workgroup" and not isinstance(node.type, Array) and not self.kernel
        pointed = pointed or (node.space == "private" and node.name in self.here.written and not self.kernel)
        return f"(*{name})" if pointed else name

    def _member(self, node: Member) -> str:
        return self.names.of(node.name)

    def _swizzle(self, node: Swizzle) -> str:
        part = f"{self.print(node.base)}.{node.lanes}"
        return f"({part} != 0)" if truths(node.base.type) and node.type is BOOL else part

    def _index(self, node: Index) -> str:
        if isinstance(node.base.type, Vector):
            raise Unprintable("an element of a vector by its index")
        return f"{self.print(node.base)}[{self.value(node.index)}]"

    def _unary(self, node: Unary) -> str:
        return f"({node.operator}{self.print(node.operand)})"

    def _binary(self, node: Binary) -> str:
        symbol, kind = node.operator, element_of(node.type)
        if symbol in _DIVISIONS and kind in INTEGERS and not _not_zero(node.right):
            if node.type is not kind:
                raise Unprintable("vectors divided by what may be zero")
            name = f"{_DIVISIONS[symbol]}_{type_of(kind)}"
            return f"{name}({self.value(node.left)}, {self.value(node.right)})"
        if kind is I32 and symbol in _WRAPPING and depends_on_data(node, self.data):
            return f"as_{type_of(node.type)}({bare(self._wrapped(node))})"
        left, right = self.print(node.left), self.print(node.right)
        if symbol == "%" and kind not in INTEGERS:
            return f"fmod({left}, {right})"
        text = f"({left} {symbol} {right})"
        if kind is BOOL and isinstance(node.type, Vector) and element_of(node.left.type) is F16:
            return f"convert_int{node.type.size}{text}"
        return text

    def _wrapped(self, node: Expression) -> str:
        """Signed integers as unsigned ones, whose sums and products wrap around."""
        if isinstance(node, Binary) and node.operator in _WRAPPING:
            return f"({self._wrapped(node.left)} {node.operator} {self._wrapped(node.right)})"
        if isinstance(node, Literal) and node.value >= 0:
            return f"{self.print(node)}u"
        return f"as_{type_of(like(node.type, U32))}({self.value(node)})"

    def _call(self, node: Call) -> str:
        given = [*self._passed(self.uses[node.function]), *(self.value(value) for value in node.arguments)]
        return f"{self.called[node.function]}({', '.join(given)})"

    def _passed(self, uses: Uses) -> list[str]:
        """The variables of the module that a function takes."""
        found = []
        for variable in uses.variables:
            name = self.names.of(variable.name)
            if variable.space == "private":
                ours, theirs = self.kernel or variable.name not in self.here.written, variable.name in uses.written
                found.append(name if ours != theirs else f"&{name}" if theirs else f"*{name}")
            else:
                own = self.kernel and variable.space == "workgroup" and not isinstance(variable.type, Array)
                found.append(f"&{name}" if own else name)
        return [*found, *map(self.names.of, uses.scalars)]

    def _builtin(self, node: Builtin) -> str:
        return builtins.called(node, self.print, self._place)

    def _place(self, node: Expression) -> str:
        if not isinstance(node, Address):
            raise Unprintable("an address that is computed")
        return self.print(node.operand)

    def _construct(self, node: Construct) -> str:
        if isinstance(node.type, Array):
            return f"{{{', '.join(self.value(value) for value in node.arguments)}}}"
        if not truths(node.type):
            return f"({type_of(node.type)})({', '.join(self.value(value) for value in node.arguments)})"
        masks = (self.print(value) if truths(value.type) else f"-{self.print(value)}" for value in node.arguments)
        return f"({type_of(node.type)})({', '.join(masks)})"

    def _splat(self, node: Splat) -> str:
        text = f"-{self.print(node.operand)}" if truths(node.type) else self.value(node.operand)
        return f"({type_of(node.type)})({text})"

    def _convert(self, node: Convert) -> str:
        return builtins.converted(node.operand.type, node.type, self.print(node.operand))

    def _bitcast(self, node: Bitcast) -> str:
        return f"as_{type_of(node.type)}({self.value(node.operand)})"

    _handlers: dict[type, Callable[[ExpressionPrinter, Any], str]] = {  # noqa: RUF012
        Literal: _literal,
        Name: _name,
        Member: _member,
        Swizzle: _swizzle,
        Index: _index,
        Unary: _unary,
        Binary: _binary,
        Call: _call,
        Builtin: _builtin,
        Construct: _construct,
        Splat: _splat,
        Convert: _convert,
        Bitcast: _bitcast,
    }


def _not_zero(node: Expression) -> bool:
    """Whether a divisor is a literal that divides without an exception."""
    number = node.operand if isinstance(node, Splat) else node
    return isinstance(number, Literal) and number.value != 0 and not (number.type is I32 and number.value == -1)
