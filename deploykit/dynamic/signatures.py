"""How a dynamic model is called: the types that `main` takes and returns, as texts that people can read.

    Signature([("tree", Union("Tree"))], Tensor((5,)), {"Tree": (Variant("Leaf", ...), Variant("Node", ...))})

The text of a type is its annotation: `list[Tensor[64]]`.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from deploykit.dynamic.types import Bool, Float, Int, List, Rows, Tensor, Tuple, Type, Union, Unions, Variant
from deploykit.errors import ArtifactError

_PLAIN: dict[str, Type] = {"int": Int(), "bool": Bool(), "float": Float()}


@dataclass(frozen=True)
class Signature:
    """`takes` are the names and types of the parameters of `main`, `gives` is what it returns."""

    takes: tuple[tuple[str, Type], ...]
    gives: Type
    unions: Unions


def parse_type(text: str) -> Type:
    """The type of a text. Raises `ArtifactError` for a text that is none."""
    try:
        return _parsed(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError) as error:
        raise ArtifactError(f"'{text}' is no type: {error}") from error


def _parsed(node: ast.expr) -> Type:
    match node:
        case ast.Name(name):
            return _PLAIN.get(name) or Union(name)
        case ast.Subscript(ast.Name("list"), item):
            return List(_parsed(item))
        case ast.Subscript(ast.Name("tuple"), ast.Tuple(items)):
            return Tuple(tuple(map(_parsed, items)))
        case ast.Subscript(ast.Name("tuple"), item):
            return Tuple((_parsed(item),))
        case ast.Subscript(ast.Name("Tensor"), shape):
            found = ast.literal_eval(shape)
            extents = found if isinstance(found, tuple) else (found,)
            if extents and isinstance(extents[0], str):
                return Rows(Tensor(extents[1:]), extents[0])
            return Tensor(extents)
        case _:
            raise ValueError("there are int, bool, float, Tensor, list, tuple and the names of unions")


def fields_text(variant: Variant) -> dict[str, str]:
    """The types of the fields of a dataclass as texts."""
    return {name: str(kind) for name, kind in variant.fields}
