"""Reads statements and expressions with the function that is registered for their kind.

The modules `statements`, `loops`, `expressions` and `calls` register what they read.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from deploykit.frontends.python.functions import Reader
from deploykit.frontends.python.names import names_assigned, names_needed
from deploykit.frontends.python.source import Refused
from deploykit.frontends.python.values import Unstored, Value

ReadExpression: TypeAlias = Callable[[Reader, Any, str], Value]
"""Takes the expression and a name for variables of its value."""

ReadStatement: TypeAlias = Callable[[Reader, Any, frozenset[str]], bool]
"""Takes the statement and the names that are used behind it; whether control flow ends with it."""

_EXPRESSIONS: dict[type[ast.expr], ReadExpression] = {}
_STATEMENTS: dict[type[ast.stmt], ReadStatement] = {}


def expression(*kinds: type[ast.expr]) -> Callable[[ReadExpression], ReadExpression]:
    """Register a function for kinds of expressions."""

    def register(read: ReadExpression) -> ReadExpression:
        _EXPRESSIONS.update(dict.fromkeys(kinds, read))
        return read

    return register


def statement(*kinds: type[ast.stmt]) -> Callable[[ReadStatement], ReadStatement]:
    """Register a function for kinds of statements."""

    def register(read: ReadStatement) -> ReadStatement:
        _STATEMENTS.update(dict.fromkeys(kinds, read))
        return read

    return register


def evaluate(reader: Reader, node: ast.expr, hint: str = "value") -> Value:
    """What an expression stands for. `hint` names variables for it. Raises `Refused`."""
    value = operand_of(reader, node, hint)
    return value.stored(node, hint) if isinstance(value, Unstored) else value


def operand_of(reader: Reader, node: ast.expr, hint: str = "value") -> Value:
    """The same for an operand of an operator, which may be computed together with it."""
    if type(node) not in _EXPRESSIONS:
        raise Refused(node, f"'{ast.unparse(node)[:60]}' cannot be used in a model")
    return _EXPRESSIONS[type(node)](reader, node, hint)


def read_statement(reader: Reader, node: ast.stmt, later: frozenset[str]) -> bool:
    """Read a statement; whether control flow ends with it. Raises `Refused`."""
    if type(node) not in _STATEMENTS:
        kind = type(node).__name__.lower()
        text = f"'{kind}' cannot be used in a model; there are assignments, if, match, for, while, return, assert"
        raise Refused(node, text)
    return _STATEMENTS[type(node)](reader, node, later)


def read_body(reader: Reader, body: Sequence[ast.stmt], function: ast.FunctionDef) -> None:
    """Read the whole body of a function. Faults are noted in the source."""
    if not read_block(reader, body, frozenset()):
        reader.program.module.source.refuse(Refused(function, f"'{function.name}' may end without a 'return'"))


def read_block(reader: Reader, statements: Sequence[ast.stmt], later: frozenset[str]) -> bool:
    """Read statements; whether control flow ends in them. `later` are the names that are used behind them. Faults are
    noted, and reading goes on with the next statement.

    Statements without control flow behind an `if` or a `match` are read in each branch, so that the tensors of the
    branch and theirs become one cell."""
    for number, each in enumerate(statements):
        rest = statements[number + 1 :]
        parted = isinstance(each, ast.If | ast.Match) and bool(rest) and reader.is_straight(rest)
        statement = _with_tail(each, rest) if parted else each
        used = later if parted else names_needed(rest, later) | _left_with(reader, rest)
        reader.later = used
        try:
            ended = read_statement(reader, statement, used)
        except Refused as refused:
            reader.program.module.source.refuse(refused)
            for name in names_assigned([statement]):
                reader.scope.names.pop(name, None)
                reader.broken.add(name)
            ended = isinstance(rest[-1] if parted else each, ast.Return)
        if ended or parted:
            return ended
    return False


def _left_with(reader: Reader, statements: Sequence[ast.stmt]) -> frozenset[str]:
    """The names whose values a `break` or a `continue` in statements takes out of the loop around them."""
    leaves = any(isinstance(each, ast.Break | ast.Continue) for node in statements for each in ast.walk(node))
    return frozenset(reader.loops[-1] if leaves and reader.loops else ())


def _with_tail(node: ast.stmt, tail: Sequence[ast.stmt]) -> ast.stmt:
    """An `if` or a `match` with further statements in each branch, and where no branch is taken."""
    if isinstance(node, ast.If):
        return ast.copy_location(ast.If(node.test, [*node.body, *tail], [*node.orelse, *tail]), node)
    assert isinstance(node, ast.Match)
    cases = [ast.match_case(case.pattern, case.guard, [*case.body, *tail]) for case in node.cases]
    otherwise = ast.match_case(Otherwise(), None, list(tail))
    return ast.copy_location(ast.Match(node.subject, [*cases, otherwise]), node)


class Otherwise(ast.MatchAs):
    """A pattern for what no case takes, if there is anything."""
