"""Instances of a dynamic model in Java: a class for each dataclass, an interface for each union of several.

    Tree = Leaf | Node      interface Tree; class Leaf, with a constructor Leaf(int word), and class Node(Tree, Tree)
    int, float, bool        int, double, boolean
    Tensor[4, 2]            float[], all elements
    Tensor["n", 4]          List<float[]>
    list[int]               List<Integer>
    tuple[int, Tree]        Object[]

Results are of the same types.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Mapping
from math import prod
from typing import TYPE_CHECKING, Any

from deploykit.dynamic.policies import POLICIES
from deploykit.dynamic.signatures import Signature
from deploykit.dynamic.types import Bool, Float, Int, List, Tensor, Tuple, Type, Union, depth_of, least_depths, width

if TYPE_CHECKING:
    from deploykit.compiler.batching.model import DynamicModel

_GIVEN = {
    "instances": "encoder.words()",
    "roots": "encoder.roots()",
    "policy": "policy",
    "elements": "encoder.elements()",
}
"""By the names of the inputs of a dynamic model, what a run passes."""

_BOXED = {"int": "Integer", "double": "Double", "boolean": "Boolean"}

Words = Callable[[Iterable[str]], list[str]]
"""Makes Java identifiers of names."""


def instances_view(model: DynamicModel, inputs: Iterable[str], words: Words, taken: Container[str]) -> dict[str, Any]:
    """What the templates of a dynamic model need. `inputs` are the names of its inputs, `taken` the names that classes
    cannot have."""
    signature = Signature(model.control.takes, model.control.gives, model.unions)
    writer = _Writer(signature, words, taken)
    takes = Tuple(tuple(kind for _, kind in signature.takes))
    given = takes.items[0] if len(takes.items) == 1 else takes
    return {
        "dataclasses": writer.dataclasses(),
        "interfaces": writer.interfaces_view(),
        "types": writer.types([takes, signature.gives]),
        "takes": writer.number(takes),
        "gives": writer.number(signature.gives),
        "width": width(takes),
        "inputs": [_GIVEN[name] for name in inputs],
        "policy": POLICIES[model.policy],
        "instance": writer.boxed(given),
        "result": writer.boxed(signature.gives),
        "signature": f"main({', '.join(f'{name}: {kind}' for name, kind in signature.takes)}) -> {signature.gives}",
        "example": writer.example(given, _JAVA),
        "kotlin": writer.example(given, _KOTLIN),
        "kotlin_result": writer.kotlin(signature.gives),
    }


class _Writer:
    """`classes` are the names in Java of dataclasses, `interfaces` those of unions of several."""

    def __init__(self, signature: Signature, words: Words, taken: Container[str]) -> None:
        self._signature, self._words = signature, words
        names = list(dict.fromkeys(variant.name for own in signature.unions.values() for variant in own))
        several = [union for union, own in signature.unions.items() if len(own) > 1]
        made = dict(zip([*names, *several], words([*names, *several]), strict=True))
        unlike = {name: f"{word}_" if word in taken else word for name, word in made.items()}
        self.classes = {name: unlike[name] for name in names}
        self.interfaces = {name: unlike[name] for name in several}
        self._numbers: dict[Type, int] = {}
        self._least = least_depths(signature.unions)

    def dataclasses(self) -> list[dict[str, Any]]:
        """The classes: the fields of each, with their types, and the interfaces that it implements."""
        found: dict[str, dict[str, Any]] = {}
        for union, variants in self._signature.unions.items():
            for variant in variants:
                fields = zip(variant.fields, self._words(name for name, _ in variant.fields), strict=True)
                own = found.setdefault(
                    variant.name,
                    {
                        "class": self.classes[variant.name],
                        "name": variant.name,
                        "string": json.dumps(variant.name),
                        "implements": [],
                        "fields": [self._field(name, kind, word) for (name, kind), word in fields],
                    },
                )
                own["implements"] += [self.interfaces[union]] if union in self.interfaces else []
        return [own | {"lists": any("List<" in field["java"] for field in own["fields"])} for own in found.values()]

    def _field(self, name: str, kind: Type, word: str) -> dict[str, str]:
        java = self.java(kind)
        annotation = "" if java in _BOXED else "@NonNull "
        return {"word": word, "java": java, "annotation": annotation, "text": f"{name}: {kind}"}

    def interfaces_view(self) -> list[dict[str, str]]:
        """The interfaces, and what they stand for."""
        unions = self._signature.unions
        return [
            {"class": word, "text": f"{union} = {' | '.join(each.name for each in unions[union])}"}
            for union, word in self.interfaces.items()
        ]

    def java(self, kind: Type) -> str:
        match kind:
            case Int():
                return "int"
            case Float():
                return "double"
            case Bool():
                return "boolean"
            case Tensor():
                return "float[]"
            case List(item):
                return f"List<{self.boxed(item)}>"
            case Tuple():
                return "Object[]"
            case Union(name):
                return self.interfaces.get(name) or self.classes[self._signature.unions[name][0].name]

    def kotlin(self, kind: Type) -> str:
        """The type in Kotlin."""
        match kind:
            case Tensor():
                return "FloatArray"
            case List(item):
                return f"List<{self.kotlin(item)}>"
            case Tuple():
                return "Array<Any>"
            case Union():
                return self.java(kind)
            case _:
                return self.java(kind).capitalize()

    def boxed(self, kind: Type) -> str:
        """The type as that of items."""
        return _BOXED.get(self.java(kind), self.java(kind))

    def number(self, kind: Type) -> int:
        return self._numbers[kind]

    def types(self, kinds: Iterable[Type]) -> list[dict[str, Any]]:
        """All types that values of `kinds` consist of, by their numbers, each behind those of its items."""
        made: list[dict[str, Any]] = []
        unions: list[Union] = []

        def number(kind: Type) -> int:
            if kind not in self._numbers:
                items = kind.items if isinstance(kind, Tuple) else (kind.item,) if isinstance(kind, List) else ()
                parts = [number(item) for item in items]
                unions.extend([kind] if isinstance(kind, Union) else [])
                self._numbers[kind] = len(made)
                shape = kind.shape if isinstance(kind, Tensor) else ()
                string = json.dumps(str(kind))
                made.append({"kind": _kind(kind), "string": string, "shape": shape, "items": parts, "variants": []})
            return self._numbers[kind]

        for kind in kinds:
            number(kind)
        for union in unions:  # grows: their fields may be of further unions
            made[self._numbers[union]]["variants"] = [
                {
                    "class": self.classes[variant.name],
                    "string": json.dumps(variant.name),
                    "fields": [{"string": json.dumps(name), "type": number(kind)} for name, kind in variant.fields],
                    "arguments": [f"({self.boxed(kind)}) v[{at}]" for at, (_, kind) in enumerate(variant.fields)],
                }
                for variant in self._signature.unions[union.name]
            ]
        return made

    def example(self, kind: Type, language: Mapping[str, str], *, depth: int = 0, loose: bool = False) -> str:
        """An expression for a small value. Numbers are 0, because they may be indices. `loose`: the type of the value
        does not follow from its place."""

        def inner(each: Type) -> str:
            return self.example(each, language, depth=depth + 1, loose=isinstance(kind, Tuple))

        match kind:
            case Int():
                return "0"
            case Float():
                return "0.0"
            case Bool():
                return "false"
            case Tensor(shape):
                return language["tensor"].format(prod(shape))
            case List(item):
                return language["loose" if loose else "list"].format(inner(item) if depth == 0 else "")
            case Tuple(items):
                return language["tuple"].format(", ".join(map(inner, items)))
            case Union(name):
                choose = max if depth == 0 else min
                variant = choose(self._signature.unions[name], key=lambda each: depth_of(each, self._least))
                fields = ", ".join(inner(each) for _, each in variant.fields)
                return f"{language['new']}{self.classes[variant.name]}({fields})"


_JAVA = {
    "tensor": "new float[{}]",
    "list": "Arrays.asList({})",
    "loose": "Arrays.asList({})",
    "tuple": "new Object[] {{{}}}",
    "new": "new ",
}
_KOTLIN = {
    "tensor": "FloatArray({})",
    "list": "listOf({})",
    "loose": "listOf<Any>({})",
    "tuple": "arrayOf<Any>({})",
    "new": "",
}


def _kind(kind: Type) -> str:
    return "LIST" if isinstance(kind, List) else type(kind).__name__.upper()
