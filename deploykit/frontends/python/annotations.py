"""Annotations of the source as types."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from deploykit.dynamic.types import Bool, Float, Int, List, Rows, Tensor, Tuple, Type, Union, Unions
from deploykit.frontends.python.numbers import number
from deploykit.frontends.python.source import Refused

_PLAIN: dict[str, Type] = {"int": Int(), "bool": Bool(), "float": Float()}


@dataclass(frozen=True)
class Annotations:
    """The names that annotations may use: those of `deploykit.dynamic`, numbers, dataclasses and unions."""

    modules: AbstractSet[str]
    names: Mapping[str, str]
    numbers: Mapping[str, int | float]
    unions_of: Mapping[str, str]
    unions: Unions

    def type(self, node: ast.expr) -> Type:
        """The type that an annotation names. Raises `Refused` for one that there is not."""
        match node:
            case ast.Constant(str(text)):
                return self.type(parsed(text, node))
            case ast.Name(name) if name in _PLAIN:
                return _PLAIN[name]
            case ast.Name(name) if name in self.unions:
                return Union(name)
            case ast.Name(name) if name in self.unions_of:
                text = f"'{name}' is a part of '{self.unions_of[name]}': write that name"
                raise Refused(node, text)
            case ast.Subscript(ast.Name("list" | "List"), item):
                return List(self.type(item))
            case ast.Subscript(ast.Name("tuple" | "Tuple"), ast.Tuple(items)):
                return Tuple(tuple(map(self.type, items)))
            case ast.Subscript(ast.Name("tuple" | "Tuple"), item):
                return Tuple((self.type(item),))
            case ast.Subscript(value, shape) if self._is_tensor(value):
                dim, *others = shape.elts if isinstance(shape, ast.Tuple) and shape.elts else [shape]
                if isinstance(dim, ast.Constant) and isinstance(dim.value, str):
                    return Rows(Tensor(tuple(map(self._extent, others))), dim.value)
                return Tensor(self.tensor(node))
            case _:
                known = ", ".join(["int", "bool", "float", "Tensor[...]", "list[...]", "tuple[...]", *self.unions])
                raise Refused(node, f"'{ast.unparse(node)}' is no type of a model; there are {known}")

    def tensor(self, node: ast.expr) -> tuple[int, ...]:
        """The shape of `Tensor[3, 4]`. Raises `Refused` for any other annotation."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return self.tensor(parsed(node.value, node))
        if not isinstance(node, ast.Subscript) or not self._is_tensor(node.value):
            raise Refused(node, "a weight is a tensor, such as 'Tensor[128]'")
        extents = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return tuple(self._extent(extent) for extent in extents)

    def _is_tensor(self, node: ast.expr) -> bool:
        match node:
            case ast.Name(name):
                return self.names.get(name) == "Tensor"
            case ast.Attribute(ast.Name(module), "Tensor"):
                return module in self.modules
            case _:
                return False

    def _extent(self, node: ast.expr) -> int:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            raise Refused(node, "only the first extent of a tensor may have a name, and none of a weight")
        found = number(node, self.numbers)
        if not isinstance(found, int) or found < 1:
            raise Refused(node, f"an extent of a tensor is a positive integer, found {found}")
        return found


def parsed(text: str, node: ast.expr) -> ast.expr:
    """The expression of a text, at the place of the text. Raises `Refused` if there is none."""
    try:
        found = ast.parse(text, mode="eval").body
    except SyntaxError:
        raise Refused(node, f"'{text}' is no expression") from None
    for each in ast.walk(found):
        ast.copy_location(each, node)
    return found
