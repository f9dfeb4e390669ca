"""The functions with which a C program builds instances of a dynamic model, one for each dataclass.

    <prefix>_instances.h   int32_t tree_Node(dk_builder* builder, int32_t left, int32_t right);

An int and a bool are an int32_t, a float is a double, and everything else is a handle, which another function returned.
A tuple is several parameters.
"""

from __future__ import annotations

from collections.abc import Iterator

from deploykit.compiler.batching.model import DynamicModel
from deploykit.compiler.codegen.host.identifiers import Names
from deploykit.compiler.codegen.host.lines import Lines, in_comment, indented, statement
from deploykit.dynamic.types import Float, List, Tensor, Tuple, Type, Union, Variant, depth_of, least_depths, width


def emit_builders(head: str, prefix: str, model: DynamicModel) -> str:
    """The text of the header. `head` begins its first comment."""
    macro, lines = f"{prefix.upper()}_INSTANCES_H", list[str]()
    for union, variants in model.unions.items():
        for number, variant in enumerate(variants):
            lines += ["", *_function(prefix, union, number, variant)]
    takes = ", ".join(f"{name}: {kind}" for name, kind in model.control.takes)
    start = [
        f"{head} Builds instances of {in_comment(f'main({takes})')}. */",
        f"#ifndef {macro}",
        f"#define {macro}",
        "",
        '#include "builder.h"',
    ]
    return "\n".join([*start, *lines, "", "#endif"]) + "\n"


def _function(prefix: str, union: str, number: int, variant: Variant) -> Lines:
    names = Names(("builder", "handle", "words"))
    parameters = [(names.take(name), kind) for field, of in variant.fields for name, kind in _parts(field, of)]
    listed = ", ".join(["dk_builder* builder", *(f"{_c_type(kind)} {name}" for name, kind in parameters)])
    size = 1 + sum(width(kind) for _, kind in variant.fields)
    sets, offset = ["words[0] = " + f"{number};"], 1
    for name, kind in parameters:
        if isinstance(kind, Float):
            sets.append(f"memcpy(words + {offset}, &{name}, sizeof {name});")
        else:
            sets.append(f"words[{offset}] = {name};")
        offset += width(kind)
    fields = ", ".join(f"{name}: {kind}" for name, kind in variant.fields)
    return [
        f"/* {in_comment(f'{union}: {variant.name}({fields})')} */",
        *statement(f"static inline int32_t {prefix}_{variant.name}({listed}) {{"),
        *indented(
            [
                f"const int32_t handle = dk_build(builder, {size});",
                "if (handle != 0) {",
                *indented(["int32_t* words = builder->words + handle;", *sets]),
                "}",
                "return handle;",
            ]
        ),
        "}",
    ]


def _parts(name: str, kind: Type) -> Iterator[tuple[str, Type]]:
    """The parameters of a field."""
    if not isinstance(kind, Tuple):
        yield name, kind
        return
    for number, item in enumerate(kind.items):
        yield from _parts(f"{name}_{number}", item)


def _c_type(kind: Type) -> str:
    return "double" if isinstance(kind, Float) else "int32_t"


def example(prefix: str, model: DynamicModel) -> dict[str, Lines]:
    """C statements that build a small instance, `lines`, and the words of its `roots`, as expressions."""
    writer = _Example(prefix, model)
    roots = [word for _, kind in model.control.takes for word in writer.words(kind)]
    return {"lines": writer.lines, "roots": roots}


class _Example:
    """Writes the smallest instance of a type: numbers are 0, lists are empty, tensors are the first elements."""

    def __init__(self, prefix: str, model: DynamicModel) -> None:
        self.lines: Lines = []
        self._prefix, self._unions = prefix, model.unions
        self._least = least_depths(model.unions)
        self._names = Names(("builder", "words", "roots"))

    def words(self, kind: Type) -> list[str]:
        """The arguments, or the words, of a value."""
        match kind:
            case Tuple(items):
                return [word for item in items for word in self.words(item)]
            case Tensor():
                return [self._built("tensor", "dk_build_tensor(&builder, 0)")]
            case List(item):
                return [self._built("list", f"dk_build_list(&builder, 0, {width(item)})")]
            case Union(name):
                variant = min(self._unions[name], key=lambda variant: depth_of(variant, self._least))
                arguments = [word for _, field in variant.fields for word in self.words(field)]
                call = f"{self._prefix}_{variant.name}({', '.join(['&builder', *arguments])})"
                return [self._built(variant.name, call)]
            case Float():
                return ["0.0"]
            case _:
                return ["0"]

    def _built(self, name: str, call: str) -> str:
        own = self._names.take(name)
        self.lines += statement(f"const int32_t {own} = {call};")
        return own
