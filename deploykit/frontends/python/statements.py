"""Statements of a function: assignments, `if`, `match`, `return`. Loops are in `loops`.

Where control flow parts, names that are used later are put into variables that all branches set.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from deploykit.compiler.batching import control
from deploykit.compiler.batching.control import Number, Operation, Word
from deploykit.dynamic.types import List, Variant
from deploykit.frontends.python.expressions import condition, operation
from deploykit.frontends.python.functions import Reader, Scope
from deploykit.frontends.python.lists import new_list
from deploykit.frontends.python.names import names_assigned, names_used
from deploykit.frontends.python.reading import Otherwise, evaluate, expression, read_block, statement
from deploykit.frontends.python.source import Refused
from deploykit.frontends.python.values import (
    TENSORS,
    Reversed,
    RowsValue,
    Scalar,
    TupleValue,
    UnionValue,
    Value,
    Zipped,
    described,
    field_of,
    from_words,
    is_varying,
    type_of,
)


@statement(ast.Assign)
def _read_assign(reader: Reader, node: ast.Assign, _: frozenset[str]) -> bool:
    value = evaluate(reader, node.value, _hint(node.targets[0]))
    for target in node.targets:
        assign(reader, target, value)
    return False


@statement(ast.AnnAssign)
def _read_annotated(reader: Reader, node: ast.AnnAssign, _: frozenset[str]) -> bool:
    if node.value is None:
        raise Refused(node, "a name is given its value where it is declared")
    kind = reader.program.module.annotations().type(node.annotation)
    if type(kind) is List and isinstance(node.value, ast.List) and not node.value.elts:
        assign(reader, node.target, new_list(reader, Number(0), kind.item, _hint(node.target)))
        return False
    value = evaluate(reader, node.value, _hint(node.target))
    assign(reader, node.target, reader.coerced(value, kind, node.value, f"'{ast.unparse(node.target)}'"))
    return False


def _hint(target: ast.expr) -> str:
    return target.id if isinstance(target, ast.Name) else "value"


@statement(ast.AugAssign)
def _read_augmented(reader: Reader, node: ast.AugAssign, _: frozenset[str]) -> bool:
    if not isinstance(node.target, ast.Name):
        raise Refused(node, "values do not change: make a new one and give it a name")
    before = evaluate(reader, ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target))
    if isinstance(before, (*TENSORS, RowsValue)):
        name, text = node.target.id, "in Python, this changes the tensor wherever it is used"
        raise Refused(node, f"{text}: write '{name} = {name} ...'")
    assign(reader, node.target, operation(reader, node.op, before, evaluate(reader, node.value), node))
    return False


@statement(ast.Return)
def _read_return(reader: Reader, node: ast.Return, _: frozenset[str]) -> bool:
    if node.value is None:
        raise Refused(node, "a function returns a value")
    result = reader.coerced(evaluate(reader, node.value), reader.returns, node.value, "what is returned")
    reader.emit(control.Return(tuple(reader.words(result, node.value))))
    return True


@statement(ast.Assert)
def _read_assert(reader: Reader, node: ast.Assert, _: frozenset[str]) -> bool:
    text = f"line {node.lineno}: '{ast.unparse(node.test)}' does not hold"
    reader.emit(control.Require(condition(reader, node.test), text, Number(0)))
    return False


@statement(ast.Pass)
def _read_pass(_reader: Reader, _node: ast.Pass, _: frozenset[str]) -> bool:
    return False


@statement(ast.Expr)
def _read_expression(_reader: Reader, node: ast.Expr, _: frozenset[str]) -> bool:
    if not isinstance(node.value, ast.Constant):
        raise Refused(node, "the value of this expression is not used: give it a name")
    return False


def assign(reader: Reader, target: ast.expr, value: Value) -> None:
    """Let a name, or a tuple of names, stand for a value. Raises `Refused`."""
    match target:
        case ast.Name(name):
            require_reusable(value, target)
            reader.scope.names[name] = _held(reader, value, name)
        case ast.Tuple(targets) | ast.List(targets):
            if not isinstance(value, TupleValue) or len(value.items) != len(targets):
                raise Refused(target, f"{len(targets)} names are assigned, the value is {described(value)}")
            for each, item in zip(targets, value.items, strict=True):
                assign(reader, each, item)
        case _:
            raise Refused(target, "values do not change: make a new one and give it a name")


def require_reusable(value: Value, node: ast.AST) -> None:
    """Raises `Refused` for what Python goes through only once, so that it cannot have a name."""
    parts = value.items if isinstance(value, TupleValue) else (value,)
    if any(isinstance(part, Reversed | Zipped) for part in parts):
        raise Refused(node, "one loop uses this up: write it where the loop is, or make a list of it")


def _held(reader: Reader, value: Value, name: str) -> Value:
    """A number in a variable if it is a long expression, so that each use of the name does not repeat it."""
    if not isinstance(value, Scalar) or _size(value.expr) <= LONG:
        return value
    return Scalar(reader.held(value.expr, value.type, name), value.type)


LONG = 6
"""The most parts of an expression that is computed where its name is used."""


def _size(expr: control.Expr) -> int:
    """The number of parts of an expression."""
    match expr:
        case Operation(_, operands):
            return 1 + sum(map(_size, operands))
        case control.AsReal(operand):
            return 1 + _size(operand)
        case Word(handle, _, index):
            return 1 + _size(handle) + (0 if index is None else _size(index))
        case _:
            return 1


Branch = Callable[[], bool]
"""Reads the statements of a branch; whether control flow ends in it."""


def read_branches(
    reader: Reader, tests: Sequence[control.Expr], branches: Sequence[Branch], names: Sequence[str], node: ast.AST
) -> bool:
    """`if tests[0]: branches[0] elif ...: else: branches[-1]`. `names` may be assigned in branches and are used later.
    Whether control flow ends in all branches."""
    ends: list[tuple[list[control.Statement], Scope]] = []
    blocks: list[list[control.Statement]] = []
    for branch in branches:
        blocks.append([])
        with reader.at(blocks[-1], reader.scope.copy()):
            if not branch():
                ends.append((blocks[-1], reader.scope))
    if len(ends) == 1:
        reader.scope = ends[0][1]
    else:
        _join(reader, ends, names, node)
    statement = tuple(blocks[-1])
    for test, block in zip(reversed(tests), reversed(blocks[:-1]), strict=True):
        statement = (control.If(test, tuple(block), statement),)
    reader.block += statement
    return not ends


def _join(
    reader: Reader, ends: Sequence[tuple[list[control.Statement], Scope]], names: Sequence[str], node: ast.AST
) -> None:
    """Set variables at the end of each branch to what names stand for there."""
    joined: dict[str, Value] = {}
    for name in names:
        values = [scope.names.get(name) for _, scope in ends]
        if not values or any(value is None for value in values):
            reader.scope.names.pop(name, None)
            continue
        found = [value for value in values if value is not None]
        if all(value is found[0] for value in found):
            joined[name] = found[0]
            continue
        kinds = {type_of(value) for value in found}
        if len(kinds) > 1:
            texts = " and ".join(sorted({described(value) for value in found}))
            what = "the value" if isinstance(node, ast.IfExp) else f"'{name}'"
            raise Refused(node, f"{what} is {texts}, depending on the branch")
        (kind,) = kinds
        if kind is None:
            raise Refused(node, f"'{name}' is a sequence that only a loop can use: make a list of it")
        targets = reader.variables(kind, name)
        for (block, scope), value in zip(ends, found, strict=True):
            with reader.at(block, scope):
                reader.move(targets, value, node)
        joined[name] = from_words(kind, iter(targets), varying=any(map(is_varying, found)))
    reader.scope.names |= joined


@statement(ast.If)
def _read_if(reader: Reader, node: ast.If, later: frozenset[str]) -> bool:
    narrowed, others = narrowing(reader, node.test)
    test = condition(reader, node.test)
    used = later.union(*(names_used(each) for each in (*node.body, *node.orelse)))
    reader.settle(sorted(used))

    def branch(statements: Sequence[ast.stmt], names: dict[str, Value]) -> Branch:
        def read() -> bool:
            reader.scope.names |= names
            return read_block(reader, statements, later)

        return read

    names = sorted(names_assigned([node]) & later)
    return read_branches(reader, [test], [branch(node.body, narrowed), branch(node.orelse, others)], names, node)


def narrowing(reader: Reader, test: ast.expr) -> tuple[dict[str, Value], dict[str, Value]]:
    """What `isinstance(name, Class)` says of a name where it holds, and where it does not."""
    match test:
        case ast.UnaryOp(ast.Not(), operand):
            others, narrowed = narrowing(reader, operand)
            return narrowed, others
        case ast.Call(ast.Name("isinstance"), [ast.Name(name), ast.Name(variant)]):
            value = reader.scope.names.get(name)
            if isinstance(value, UnionValue):
                union = reader.program.module.unions[value.name]
                left = [each.name for each in union if each.name != variant]
                other = UnionValue(value.handle, value.name, left[0] if len(left) == 1 else None)
                return {name: UnionValue(value.handle, value.name, variant)}, {name: other}
        case _:
            pass
    return {}, {}


@statement(ast.Match)
def _read_match(reader: Reader, node: ast.Match, later: frozenset[str]) -> bool:
    subject = evaluate(reader, node.subject)
    if not isinstance(subject, UnionValue):
        raise Refused(node.subject, f"'match' takes a value of a dataclass, found {described(subject)}")
    variants = {each.name: (i, each) for i, each in enumerate(reader.program.module.unions[subject.name])}
    used = later.union(*(names_used(each) for case in node.cases for each in case.body))
    reader.settle(sorted(used))
    tests: list[control.Expr] = []
    branches: list[Branch] = []
    left = dict(variants)
    for case in node.cases:
        if case.guard is not None:
            raise Refused(case.guard, "a case has no condition: write an 'if' in it")
        name, bound = _pattern(case.pattern, subject, variants)
        if not left and isinstance(case.pattern, Otherwise):
            continue
        if not left:
            raise Refused(case.pattern, "no value comes here: the cases before take all")
        if name is not None and name not in left:
            raise Refused(case.pattern, f"a case before takes '{name}' already")
        if name is None:
            left = {}
        else:
            tests.append(Operation("==", (Word(subject.handle, 0), Number(left.pop(name)[0]))))
        branches.append(_case(reader, case.body, bound, later))
    if left:
        branches.append(lambda: False)
    else:
        tests = tests[: len(branches) - 1]
    return read_branches(reader, tests, branches, sorted(names_assigned([node]) & later), node)


def _case(reader: Reader, body: Sequence[ast.stmt], bound: dict[str, Value], later: frozenset[str]) -> Branch:
    def read() -> bool:
        reader.scope.names |= bound
        return read_block(reader, body, later)

    return read


def _pattern(
    pattern: ast.pattern, subject: UnionValue, variants: dict[str, tuple[int, Variant]]
) -> tuple[str | None, dict[str, Value]]:
    """The variant that a pattern takes, None for all, and the names that it binds."""
    match pattern:
        case ast.MatchAs(None, name):
            return None, {} if name is None else {name: subject}
        case ast.MatchAs(ast.MatchClass() as inner, str(name)):
            variant, bound = _pattern(inner, subject, variants)
            return variant, {**bound, name: UnionValue(subject.handle, subject.name, variant)}
        case ast.MatchClass(ast.Name(name), patterns, kwd_attrs, kwd_patterns):
            if name not in variants:
                raise Refused(pattern, f"'{name}' is no part of {subject.name}: {', '.join(variants)}")
            taken = variants[name][1]
            names = [field for field, _ in taken.fields]
            if len(patterns) > len(names) or not set(kwd_attrs) <= set(names):
                raise Refused(pattern, f"'{name}' has the fields {', '.join(names) or 'none'}")
            bound = {}
            for field, part in [*zip(names, patterns, strict=False), *zip(kwd_attrs, kwd_patterns, strict=True)]:
                if not isinstance(part, ast.MatchAs) or part.pattern is not None:
                    raise Refused(part, "a field in a pattern is a name: match its value in the case")
                if part.name is not None:
                    bound[part.name] = field_of(subject.handle, taken, field)
            return name, bound
        case _:
            raise Refused(pattern, "a case is a dataclass with names for its fields, or '_'")


@expression(ast.IfExp)
def _read_choice(reader: Reader, node: ast.IfExp, hint: str) -> Value:
    """`a if condition else b`."""
    name = ast.copy_location(ast.Name(f"{hint} if", ast.Store()), node)
    test = condition(reader, node.test)
    reader.settle(sorted(names_used(node.body) | names_used(node.orelse)))

    def branch(chosen: ast.expr) -> bool:
        assign(reader, name, evaluate(reader, chosen, hint))
        return False

    read_branches(reader, [test], [lambda: branch(node.body), lambda: branch(node.orelse)], [name.id], node)
    return reader.scope.names.pop(name.id)
