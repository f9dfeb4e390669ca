"""What a module declares: data types, the weights and methods of the model, other functions, and numbers.

Only `deploykit.dynamic`, `dataclasses`, `typing` and `__future__` may be imported, as nothing is executed. Numbers at
the top of the module, such as `HIDDEN = 128`, may be computed from others.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isinf
from typing import Any, TypeGuard

from deploykit.dynamic.types import Unions, Variant, least_depths
from deploykit.errors import UsageError
from deploykit.frontends.python.annotations import Annotations, parsed
from deploykit.frontends.python.numbers import number
from deploykit.frontends.python.source import Refused, Source

_IGNORED = ("dataclasses", "typing", "__future__")


@dataclass
class Module:
    """The declarations of a module. `modules` are names of `deploykit.dynamic` itself, `names` maps names to what was
    imported from it."""

    source: Source
    modules: set[str] = field(default_factory=set)
    names: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, int | float] = field(default_factory=dict)
    unions: dict[str, tuple[Variant, ...]] = field(default_factory=dict)
    unions_of: dict[str, str] = field(default_factory=dict)
    """The union of each dataclass."""
    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)
    methods: dict[str, ast.FunctionDef] = field(default_factory=dict)
    weights: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def variants(self) -> dict[str, tuple[str, int, Variant]]:
        """For each dataclass its union, its number in it, and its fields."""
        return {
            variant.name: (union, number, variant)
            for union, variants in self.unions.items()
            for number, variant in enumerate(variants)
        }

    def annotations(self) -> Annotations:
        return Annotations(self.modules, self.names, self.numbers, self.unions_of, self.unions)


def read_module(source: Source, model: str) -> Module:
    """The declarations of a module for the model of that class. Faults are noted in `source`.

    Raises `UsageError` if there is no such class."""
    module = Module(source)
    classes: dict[str, ast.ClassDef] = {}
    aliases: dict[str, list[str]] = {}
    for statement in source.tree.body:
        try:
            _declare(module, statement, classes, aliases)
        except Refused as refused:
            source.refuse(refused)
    if model not in classes:
        known = ", ".join(name for name, each in classes.items() if not _is_dataclass(each)) or "none"
        raise UsageError(f"{source.path} has no class '{model}'; its classes are: {known}")
    data = {name: each for name, each in classes.items() if _is_dataclass(each)}
    _declare_data(module, data, aliases)
    _declare_model(module, classes, model)
    return module


def _declare(
    module: Module, statement: ast.stmt, classes: dict[str, ast.ClassDef], aliases: dict[str, list[str]]
) -> None:
    match statement:
        case ast.Expr(ast.Constant()):
            pass
        case ast.Import(names) | ast.ImportFrom(names=names):
            _declare_import(module, statement, names)
        case ast.ClassDef(name):
            classes[name] = statement
        case ast.FunctionDef(name):
            module.functions[name] = statement
        case ast.If(ast.Compare(ast.Name("__name__")) | ast.Name("TYPE_CHECKING")):
            pass
        case ast.Assign([ast.Name(name)], value) | ast.AnnAssign(ast.Name(name), value=ast.expr() as value):
            _declare_name(module, name, value, aliases)
        case ast.Assign([ast.Tuple(names)], ast.Tuple(values)) if _are_names(names) and len(names) == len(values):
            found = [number(value, module.numbers) for value in values]
            module.numbers |= {name.id: value for name, value in zip(names, found, strict=True)}
        case _ if type(statement).__name__ == "TypeAlias":  # 'type A = B | C' of Python 3.12
            declared: Any = statement
            _declare_name(module, declared.name.id, declared.value, aliases)
        case _:
            raise Refused(
                statement, "a module of a model has imports, numbers, dataclasses, functions and classes only"
            )


def _are_names(nodes: Sequence[ast.expr]) -> TypeGuard[Sequence[ast.Name]]:
    return all(isinstance(node, ast.Name) for node in nodes)


def _declare_import(module: Module, statement: ast.Import | ast.ImportFrom, names: list[ast.alias]) -> None:
    for alias in names:
        own = alias.asname or alias.name
        start = statement.module if isinstance(statement, ast.ImportFrom) else None
        if (start, alias.name) in (("deploykit", "dynamic"), (None, "deploykit.dynamic")):
            module.modules.add(own)
        elif start == "deploykit.dynamic":
            module.names[own] = alias.name
        elif (start or alias.name) not in _IGNORED:
            raise Refused(
                statement, f"'{start or alias.name}' cannot be used in a model: import from deploykit.dynamic only"
            )


def _declare_name(module: Module, name: str, value: ast.expr, aliases: dict[str, list[str]]) -> None:
    members = list(_members(value))
    if members:
        aliases[name] = members
    else:
        module.numbers[name] = number(value, module.numbers)


def _members(value: ast.expr) -> Iterator[str]:
    """The names of `A | B`, also in a text or in `Union[A, B]`; nothing for other expressions."""
    match value:
        case ast.Constant(str(text)):
            yield from _members(parsed(text, value))
        case ast.BinOp(left, ast.BitOr(), right):
            for side in (left, right):
                yield from _members(side) if isinstance(side, ast.BinOp) else [_member(side)]
        case ast.Subscript(ast.Name("Union"), ast.Tuple(items)):
            yield from map(_member, items)


def _member(node: ast.expr) -> str:
    if not isinstance(node, ast.Name):
        raise Refused(node, f"a union is made of dataclasses, found '{ast.unparse(node)}'")
    return node.id


def _is_dataclass(declared: ast.ClassDef) -> bool:
    """Whether it has the decorator `@dataclass`."""
    for decorator in declared.decorator_list:
        found = decorator.func if isinstance(decorator, ast.Call) else decorator
        if (found.attr if isinstance(found, ast.Attribute) else getattr(found, "id", "")) == "dataclass":
            return True
    return False


def _declare_data(module: Module, classes: Mapping[str, ast.ClassDef], aliases: Mapping[str, list[str]]) -> None:
    """The unions: each alias of dataclasses, and each dataclass that is in none."""
    for alias, members in aliases.items():
        for member in members:
            if member not in classes:
                fault = Refused(
                    module.source.tree.body[0], f"'{alias}' has the member '{member}', which is no dataclass"
                )
                module.source.refuse(fault)
            elif module.unions_of.setdefault(member, alias) != alias:
                text = f"'{member}' is in '{module.unions_of[member]}' already: a dataclass is in one union"
                module.source.refuse(Refused(classes[member], text))
    for name in classes:
        module.unions_of.setdefault(name, name)
    unions: Unions = dict.fromkeys(module.unions_of.values(), ())
    module.unions |= unions
    annotations = module.annotations()
    orders = {union: aliases.get(union, [union]) for union in unions}
    for union, members in orders.items():
        found = [_variant(module, classes[member], annotations) for member in members if member in classes]
        module.unions[union] = tuple(found)
    for union, depth in least_depths(module.unions).items():
        if isinf(depth) and module.unions[union]:
            text = f"no '{union}' can exist, because each contains another one: make one of its fields a list"
            module.source.refuse(Refused(classes[module.unions[union][0].name], text))


def _variant(module: Module, declared: ast.ClassDef, annotations: Annotations) -> Variant:
    fields = []
    if declared.bases:
        module.source.refuse(Refused(declared.bases[0], "a dataclass of a model has no bases: repeat the fields"))
    for statement in declared.body:
        match statement:
            case ast.AnnAssign(ast.Name(name), annotation, None):
                try:
                    fields.append((name, annotations.type(annotation)))
                except Refused as refused:
                    module.source.refuse(refused)
            case ast.Expr(ast.Constant()) | ast.Pass():
                pass
            case _:
                module.source.refuse(Refused(statement, "a dataclass of a model has fields without defaults only"))
    return Variant(declared.name, tuple(fields))


def _linearized(classes: Mapping[str, ast.ClassDef], model: str) -> list[str]:
    """The names of a class and its bases in the module, in the order in which Python looks for methods."""
    made: dict[str, type] = {}

    def of(name: str) -> type:
        if name not in made:
            own = [base.id for base in classes[name].bases if isinstance(base, ast.Name)]
            made[name] = object  # a class is no base of itself
            made[name] = type(name, tuple(of(base) for base in own if base in classes), {})
        return made[name]

    try:
        return [each.__name__ for each in of(model).__mro__ if each is not object]
    except TypeError as error:
        raise UsageError(f"the bases of '{model}' have no order: {error}") from None


def _declare_model(module: Module, classes: Mapping[str, ast.ClassDef], model: str) -> None:
    """The weights and methods of a model, those of its bases in the module included."""
    annotations = module.annotations()
    for statement in (each for name in reversed(_linearized(classes, model)) for each in classes[name].body):
        match statement:
            case ast.AnnAssign(ast.Name(name), annotation, None):
                try:
                    module.weights[name] = annotations.tensor(annotation)
                except Refused as refused:
                    module.source.refuse(refused)
            case ast.FunctionDef(name):
                module.methods[name] = statement
            case ast.Expr(ast.Constant()) | ast.Pass():
                pass
            case _:
                text = "a model has weights, such as 'bias: Tensor[128]', and methods only"
                module.source.refuse(Refused(statement, text))
