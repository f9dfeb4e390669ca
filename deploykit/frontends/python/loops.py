"""Loops and comprehensions.

Names that a loop assigns and that were known before it are *carried*: variables hold them, which each repetition sets
at its end. A comprehension whose expression calls functions with control flow runs its elements independently of each
other: they become calls of a function of their own (ACRoBat's `map`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace

from deploykit.compiler.batching import control
from deploykit.compiler.batching.control import Expr, Number, Operation, Variable, Word
from deploykit.compiler.batching.tensors import is_constant
from deploykit.dynamic.types import LIST_FIRST, Float, Int, Type, width
from deploykit.frontends.python.expressions import condition
from deploykit.frontends.python.functions import Carried, Reader, Scope
from deploykit.frontends.python.lists import append, new_list
from deploykit.frontends.python.names import names_assigned, names_needed, names_used
from deploykit.frontends.python.reading import evaluate, expression, read_block, statement
from deploykit.frontends.python.sequences import element, length, sequence_of, times
from deploykit.frontends.python.source import Refused
from deploykit.frontends.python.statements import assign, narrowing
from deploykit.frontends.python.values import (
    TENSORS,
    ListValue,
    Range,
    Reversed,
    Sequence_,
    TupleValue,
    Value,
    Zipped,
    fields,
    from_words,
    is_varying,
    type_of,
)


@statement(ast.While)
def _read_while(reader: Reader, node: ast.While, later: frozenset[str]) -> bool:
    if node.orelse:
        raise Refused(node.orelse[0], "a loop has no 'else' in a model")

    endless = isinstance(node.test, ast.Constant) and node.test.value is True

    def body() -> None:
        narrowed, _ = narrowing(reader, node.test)
        if not endless:
            reader.emit(control.If(condition(reader, node.test), (), (control.Break(),)))
        reader.scope.names |= narrowed

    _read_loop(reader, node, later, body)
    return endless and not any(isinstance(each, ast.Break) for each in ast.walk(node))


@statement(ast.For)
def _read_for(reader: Reader, node: ast.For, later: frozenset[str]) -> bool:
    """A loop over a list, a range, or several of them."""
    if node.orelse:
        raise Refused(node.orelse[0], "a loop has no 'else' in a model")
    sequence = sequence_of(evaluate(reader, node.iter), node.iter)
    count = reader.held(length(sequence), Int(), "count")
    index, ends, step = reader.counting(Number(0), count)

    def body() -> None:
        reader.emit(ends)
        assign(reader, node.target, element(sequence, index))

    _read_loop(reader, node, later, body, (step,))
    return False


def _read_loop(
    reader: Reader,
    node: ast.While | ast.For,
    later: frozenset[str],
    begin: Callable[[], None],
    step: tuple[control.Statement, ...] = (),
) -> None:
    """Read the body of a loop, which starts with what `begin` emits."""
    assigned = names_assigned([node])
    used = later | names_used(node)
    reader.settle(sorted(used))
    carried: Carried = {}
    for name in sorted(assigned & used & reader.scope.names.keys()):
        value = reader.scope.names[name]
        kind = type_of(value)
        if kind is None:
            raise Refused(node, f"'{name}' is a sequence that only a loop can use, and the loop changes it")
        carried[name] = kind, reader.variables(kind, name)
        reader.move(carried[name][1], value, node)
        reader.scope.names[name] = from_words(kind, iter(carried[name][1]), varying=True)
    tested = names_used(node.test) if isinstance(node, ast.While) else set()
    again = names_needed(node.body, later) | tested | carried.keys()
    body: list[control.Statement] = []
    reader.loops.append(carried)
    try:
        with reader.at(body, reader.scope.copy()):
            begin()
            if not read_block(reader, node.body, again):
                _carry(reader, node)
    finally:
        reader.loops.pop()
    for name in assigned - carried.keys():
        reader.scope.names.pop(name, None)
    reader.emit(control.Loop(tuple(body), step))


@statement(ast.Break, ast.Continue)
def _leave_loop(reader: Reader, node: ast.Break | ast.Continue, _: frozenset[str]) -> bool:
    if not reader.loops:
        raise Refused(node, "there is no loop to leave here")
    _carry(reader, node)
    reader.emit(control.Break() if isinstance(node, ast.Break) else control.Continue())
    return True


def _carry(reader: Reader, node: ast.AST) -> None:
    """Set the variables of the innermost loop to what its names stand for now, all at once."""
    values: dict[str, Value] = {}
    for name, (kind, _) in reader.loops[-1].items():
        if name not in reader.scope.names:
            raise Refused(node, "" if name in reader.broken else f"'{name}' has no value at the end of the loop")
        values[name] = reader.coerced(reader.scope.names[name], kind, node, f"'{name}' at the end of the loop")
    words = reader.words(TupleValue(tuple(values.values())), node)
    targets = [target for _, own in reader.loops[-1].values() for target in own]
    _move_together(reader, [pair for pair in zip(targets, words, strict=True) if pair[0] != pair[1]])


def _move_together(reader: Reader, moves: Sequence[tuple[Variable, Expr]]) -> None:
    """Set variables as if at the same time: a value that reads a variable set before is kept first."""
    kept: list[tuple[Variable, Expr]] = []
    for number, (target, word) in enumerate(moves):
        if any(_reads(word, earlier) for earlier, _ in moves[:number]):
            kept.append((target, reader.held(word, Float() if target.real else Int(), "kept")))
        else:
            kept.append((target, word))
    for target, word in kept:
        reader.emit(control.Set(target, word))


def _reads(word: Expr, variable: Variable) -> bool:
    match word:
        case Variable():
            return word == variable
        case Word(handle, _, index):
            return _reads(handle, variable) or (index is not None and _reads(index, variable))
        case Operation(_, operands):
            return any(_reads(each, variable) for each in operands)
        case control.AsReal(operand) | control.FloatWord(operand):
            return _reads(operand, variable)
        case control.NextState(state) | control.RandomReal(state):
            return _reads(state, variable)
        case _:
            return False


# Comprehensions


@expression(ast.ListComp)
def _read_comprehension(reader: Reader, node: ast.ListComp, hint: str) -> ListValue:
    if len(node.generators) > 1:
        raise Refused(node, "a comprehension has one 'for': write a loop")
    generator = node.generators[0]
    sequence = sequence_of(evaluate(reader, generator.iter), generator.iter)
    if generator.ifs:
        sequence = _filtered(reader, sequence, generator)
    if reader.has_any([node.elt], (ast.ListComp,)):
        return _read_calls(reader, node, sequence, hint)
    count = reader.held(length(sequence), Int(), "count")
    index, ends, step = reader.counting(Number(0), count)
    reader.settle(sorted(names_used(node.elt)))
    body: list[control.Statement] = [ends]
    inner = reader.scope.copy()
    with reader.at(body, inner):
        assign(reader, generator.target, element(sequence, index))
        value = evaluate(reader, node.elt)
        kind = _item_type(value, node.elt)
        words = reader.words(value, node.elt)
    made = new_list(reader, count, kind, hint)
    with reader.at(body, inner):
        reader.store(fields(kind, Word(made.handle, LIST_FIRST), 0, times(index, width(kind))), words)
    reader.emit(control.Loop(tuple(body), (step,)))
    return replace(made, varying=is_varying(value))


def _filtered(reader: Reader, sequence: Sequence_, generator: ast.comprehension) -> ListValue:
    """The elements for which all conditions of a comprehension hold."""
    count = reader.held(length(sequence), Int(), "count")
    index, ends, step = reader.counting(Number(0), count)
    value = element(sequence, index)
    empty = new_list(reader, Number(0), _item_type(value, generator.iter), "kept")
    target = reader.held(empty.handle, Int(), "kept")
    kept = replace(empty, handle=target)
    reader.settle(sorted({name for test in generator.ifs for name in names_used(test)}))
    body: list[control.Statement] = [ends]
    with reader.at(body, reader.scope.copy()):
        assign(reader, generator.target, value)
        for test in generator.ifs:
            reader.emit(control.If(condition(reader, test), (), (control.Continue(),)))
        reader.emit(control.Set(target, append(reader, kept, [value], generator.iter).handle))
    reader.emit(control.Loop(tuple(body), (step,)))
    return replace(kept, varying=is_varying(value))


def _item_type(value: Value, node: ast.AST) -> Type:
    kind = type_of(value)
    if kind is None:
        raise Refused(node, "only a loop can use this: it cannot be an item of a list")
    return kind


def _read_calls(reader: Reader, node: ast.ListComp, sequence: Sequence_, hint: str) -> ListValue:
    """A comprehension as calls of a function that takes the names it uses, the sequence, and an index."""
    generator = node.generators[0]
    names = sorted((names_used(node.elt) - names_assigned([generator.target])) & reader.scope.names.keys())
    held = {name: reader.scope.names[name] for name in names}
    reader.settle(names)
    program = reader.program
    name = program.unique(f"{reader.name}_each")
    inner = Reader(program, reader.component, Int(), name)
    inner.local = reader.local
    operands: list[Expr] = []

    def taken(value: Value, own: str) -> Value:
        """A value of the comprehension in the function that computes an element."""
        match value:
            case Reversed(source):
                return Reversed(sequence_of(taken(source, own), node))
            case Zipped(sources):
                return Zipped(tuple(sequence_of(taken(source, own), node) for source in sources))
            case Range(start, count):
                operands.extend((start, count))
                first, number = (inner.variables(Int(), own)[0] for _ in range(2))
                return Range(first, number)
            case TupleValue(items):
                return TupleValue(tuple(taken(item, own) for item in items))
            case _:
                pass
        kind = type_of(value)
        if kind is None or (isinstance(value, TENSORS) and is_constant(value)):
            return value
        operands.extend(reader.words(value, node))
        return inner.parameter(kind, own, varying=is_varying(value))

    inner.scope = Scope({each: taken(value, each) for each, value in held.items()})
    own = sequence_of(taken(sequence, "sequence"), node)
    (index,) = inner.variables(Int(), "index")
    count = len(inner.names)
    assign(inner, generator.target, element(own, index))
    value = evaluate(inner, node.elt)
    kind = _item_type(value, node.elt)
    inner.returns = kind
    inner.emit(control.Return(tuple(inner.words(value, node.elt))))
    program.functions[name] = inner.function(count)
    number = reader.held(length(sequence), Int(), "count")
    made = new_list(reader, number, kind, hint)
    reader.emit(control.CallEach(name, tuple(operands), number, Word(made.handle, LIST_FIRST), width(kind)))
    return replace(made, varying=is_varying(value))
