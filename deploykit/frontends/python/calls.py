"""Calls: of methods and functions of the module, of functions of `deploykit.dynamic`, of dataclasses, and of Python's
own functions `len`, `range`, `float`, `enumerate`, `zip`, `reversed`, `min`, `max` and `isinstance`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from deploykit.compiler.batching import control
from deploykit.compiler.batching.control import Number, Operation, Word
from deploykit.compiler.batching.tensors import Filled
from deploykit.dynamic.types import Bool, Float, Int, offsets, width
from deploykit.frontends.python import rows
from deploykit.frontends.python.expressions import await_number
from deploykit.frontends.python.folds import sum_of_list
from deploykit.frontends.python.functions import Callee, Reader, Scope, callee_of, require_plain
from deploykit.frontends.python.numbers import number
from deploykit.frontends.python.reading import evaluate, expression, operand_of, read_statement
from deploykit.frontends.python.sequences import ENDLESS, length, sequence_of
from deploykit.frontends.python.source import Refused
from deploykit.frontends.python.statements import require_reusable
from deploykit.frontends.python.tensors import OPERANDS, apply, as_real, as_tensor
from deploykit.frontends.python.values import (
    ListValue,
    Range,
    Reversed,
    Scalar,
    TupleValue,
    UnionValue,
    Value,
    Zipped,
    described,
    fields,
)


@expression(ast.Call)
def _read_call(reader: Reader, node: ast.Call, hint: str) -> Value:
    callee = callee_of(reader, node)
    if callee is not None:
        operands = _operands(reader, callee, node)
        return _inlined(reader, callee, operands) if callee.inline else reader.call(callee, operands, node, hint)
    name = _function_name(reader, node.func)
    if name is not None:
        return _tensor_call(reader, name, node)
    match node.func:
        case ast.Name(name) if name in _BUILTINS:
            if node.keywords and name != "zip":
                raise Refused(node, f"'{name}' has no keywords in a model")
            return _BUILTINS[name](reader, node, hint)
        case ast.Name(name) if name in reader.program.module.unions_of:
            return _made(reader, name, node, hint)
        case _:
            raise Refused(node.func, f"'{ast.unparse(node.func)}' cannot be called in a model")


@expression(ast.Tuple)
def _read_tuple(reader: Reader, node: ast.Tuple, hint: str) -> TupleValue:
    """The items of a tuple. If all are calls of functions with control flow, these go on independently."""
    nodes = node.elts
    callees = [callee_of(reader, each) if isinstance(each, ast.Call) else None for each in nodes]
    if len(nodes) < 2 or not all(callee is not None and not callee.inline for callee in callees):
        return TupleValue(tuple(evaluate(reader, each, hint) for each in nodes))
    made: list[tuple[Callee, control.Call]] = []
    for callee, each in zip(callees, nodes, strict=True):
        assert callee is not None
        assert isinstance(each, ast.Call)
        made.append((callee, reader.prepared_call(callee, _operands(reader, callee, each), each, hint)))
    reader.emit(control.CallAll(tuple(call for _, call in made)))
    return TupleValue(tuple(reader.result(callee, call) for callee, call in made))


def _operands(reader: Reader, callee: Callee, node: ast.Call) -> list[Value]:
    require_plain(callee)
    names = [parameter.arg for parameter in callee.parameters]
    given = _given(callee.name, names, node)
    return [evaluate(reader, given[name], name) for name in names]


def _given(name: str, names: Sequence[str], node: ast.Call) -> dict[str, ast.expr]:
    """The operand for each name of a parameter."""
    pairs = [*zip(names, node.args, strict=False), *((keyword.arg, keyword.value) for keyword in node.keywords)]
    if len(node.args) > len(names) or sorted(str(key) for key, _ in pairs) != sorted(names):
        raise Refused(node, f"'{name}' takes {', '.join(names) or 'nothing'}")
    return {str(key): value for key, value in pairs}


def _inlined(reader: Reader, callee: Callee, operands: Sequence[Value]) -> Value:
    """The result of a function without control flow, read where it is called."""
    annotations = reader.program.module.annotations()
    names: dict[str, Value] = {}
    for parameter, operand in zip(callee.parameters, operands, strict=True):
        names[parameter.arg] = operand
        if parameter.annotation is not None:
            kind = annotations.type(parameter.annotation)
            names[parameter.arg] = reader.coerced(operand, kind, parameter, f"'{parameter.arg}' of '{callee.name}'")
        require_reusable(names[parameter.arg], parameter)
    outer, local = reader.scope, reader.local
    reader.scope, reader.local = Scope(names, outer.known), callee.assigned
    try:
        *statements, last = callee.node.body
        for statement in statements:
            read_statement(reader, statement, frozenset())
        assert isinstance(last, ast.Return)
        assert last.value is not None
        value = evaluate(reader, last.value)
        if callee.node.returns is None:
            return value
        kind = annotations.type(callee.node.returns)
        return reader.coerced(value, kind, last.value, f"what '{callee.name}' returns")
    finally:
        reader.scope, reader.local = outer, local


# Functions of tensors


def _function_name(reader: Reader, node: ast.expr) -> str | None:
    """The name of a function of `deploykit.dynamic`."""
    match node:
        case ast.Name(name):
            return reader.program.module.names.get(name)
        case ast.Attribute(ast.Name(module), name) if module in reader.program.module.modules:
            return name
        case _:
            return None


def _tensor_call(reader: Reader, name: str, node: ast.Call) -> Value:
    if name == "zeros":
        return Filled(tuple(_plain(reader, each) for each in node.args), 0.0)
    if name == "stack" and len(node.args) == 1 and isinstance(node.args[0], ast.Starred):
        return rows.stacked(reader, evaluate(reader, node.args[0].value), node)
    values = [operand_of(reader, each) for each in node.args]
    if name == "random":
        return _random(values, node)
    if name in ("sum", "mean"):
        return _reduced(reader, name, values, node)
    if node.keywords:
        raise Refused(node, f"'{name}' has no keywords")
    if name == "split":
        if len(values) != 2:
            raise Refused(node, "'split' takes a tensor and the number of parts")
        count = _plain(reader, node.args[1])
        if isinstance(values[0], rows.KINDS):
            return rows.split(reader, values[0], count, node)
        x = as_tensor(values[0], node.args[0])
        return TupleValue(tuple(apply("part", [x], node, (index, count)) for index in range(count)))
    if any(isinstance(value, rows.KINDS) for value in values):
        return rows.call(reader, name, values, node)
    operands = [as_tensor(value, each) for value, each in zip(values, node.args, strict=True)]
    if OPERANDS.get(name) == len(operands) or (name in ("concat", "stack") and operands):
        return apply(name, operands, node)
    raise Refused(node, f"'{name}' cannot be called like this in a model")


def _random(values: Sequence[Value], node: ast.Call) -> Value:
    """A random number, and the state of the next one."""
    if len(values) != 1 or not isinstance(values[0], Scalar) or values[0].type != Int():
        raise Refused(node, "'random' takes a state, which is an int")
    state = control.NextState(values[0].expr)
    return TupleValue((Scalar(control.RandomReal(state), Float()), Scalar(state, Int())))


def _plain(reader: Reader, node: ast.expr) -> int:
    found = number(node, reader.program.module.numbers)
    if not isinstance(found, int) or found < 1:
        raise Refused(node, f"a positive integer is needed here, found {found}")
    return found


def _reduced(reader: Reader, name: str, values: Sequence[Value], node: ast.Call) -> Value:
    """`sum(x)`, `sum(x, axis)`, `mean(x)`, and `sum(list)`."""
    axes = [*node.args[1:], *(keyword.value for keyword in node.keywords if keyword.arg == "axis")]
    if not values or len(axes) + 1 != len(node.args) + len(node.keywords):
        raise Refused(node, f"'{name}' takes a tensor and an axis")
    attributes = tuple(int(number(axis, reader.program.module.numbers)) for axis in axes)
    if isinstance(values[0], rows.KINDS):
        return rows.reduced(reader, name, values[0], attributes, node)
    if isinstance(values[0], ListValue) and name == "sum" and not axes:
        return sum_of_list(reader, values[0], node)
    return apply(name, [as_tensor(values[0], node.args[0])], node, attributes)


# Dataclasses


def _made(reader: Reader, name: str, node: ast.Call, hint: str) -> UnionValue:
    """A new object of a dataclass."""
    union, tag, variant = reader.program.module.variants()[name]
    given = _given(name, [field for field, _ in variant.fields], node)
    values = []
    for field, kind in variant.fields:
        value = evaluate(reader, given[field], field)
        values.append(reader.coerced(value, kind, given[field], f"'{field}' of '{name}'"))
    words = reader.words(TupleValue(tuple(values)), node)
    (target,) = reader.variables(Int(), hint)
    reader.emit(control.Allocate(target, 1 + sum(width(kind) for _, kind in variant.fields)))
    reader.emit(control.Store(Word(target, 0), Number(tag)))
    places = offsets(variant)
    parts = [place for field, kind in variant.fields for place in fields(kind, target, places[field])]
    reader.store(parts, words)
    return UnionValue(target, union, name)


def _isinstance(reader: Reader, node: ast.Call, _: str) -> Value:
    if len(node.args) == 2 and isinstance(node.args[1], ast.Name):
        value = evaluate(reader, node.args[0])
        found = reader.program.module.variants().get(node.args[1].id)
        if isinstance(value, UnionValue) and found is not None and found[0] == value.name:
            return Scalar(Operation("==", (Word(value.handle, 0), Number(found[1]))), Bool())
    raise Refused(node, "'isinstance' takes a value and a dataclass of its union")


# Python's own functions


def _one(node: ast.Call, name: str) -> ast.expr:
    if len(node.args) != 1:
        raise Refused(node, f"'{name}' takes one value")
    return node.args[0]


def _len(reader: Reader, node: ast.Call, _: str) -> Value:
    value = evaluate(reader, _one(node, "len"))
    if not isinstance(value, ListValue | Range):
        raise Refused(node, f"'len' takes a list, found {described(value)}")
    return Scalar(length(value), Int())


def _range(reader: Reader, node: ast.Call, _: str) -> Value:
    if not 1 <= len(node.args) <= 2:
        raise Refused(node, "'range' takes an end, or a start and an end")
    ends = [evaluate(reader, each) for each in node.args]
    numbers = [end.expr for end in ends if isinstance(end, Scalar) and end.type == Int()]
    if len(numbers) != len(ends):
        raise Refused(node, "'range' takes integers")
    start, end = (Number(0), numbers[0]) if len(numbers) == 1 else numbers
    count = end if start == Number(0) else Operation("-", (end, start))
    return Range(start, Operation("max", (count, Number(0))))


def _float(reader: Reader, node: ast.Call, hint: str) -> Value:
    argument = _one(node, "float")
    return await_number(reader, evaluate(reader, argument), argument, hint)


def _reversed(reader: Reader, node: ast.Call, _: str) -> Value:
    argument = _one(node, "reversed")
    value = evaluate(reader, argument)
    if not isinstance(value, ListValue | Range):
        raise Refused(node, f"'reversed' takes a list or a range, found {described(value)}")
    return Reversed(value)


def _zip(reader: Reader, node: ast.Call, _: str) -> Value:
    if not node.args:
        raise Refused(node, "'zip' takes at least one sequence")
    sources = tuple(sequence_of(evaluate(reader, each), each) for each in node.args)
    match node.keywords:
        case []:
            pass
        case [ast.keyword("strict", ast.Constant(bool(strict)))]:
            for other in sources[1:] if strict else ():
                equal = Operation("==", (length(other), length(sources[0])))
                text = f"line {node.lineno}: sequences of different lengths, one of {{}}"
                reader.emit(control.Require(equal, text, length(other)))
        case _:
            raise Refused(node, "the only keyword of 'zip' is 'strict'")
    return Zipped(sources)


def _enumerate(reader: Reader, node: ast.Call, _: str) -> Value:
    argument = _one(node, "enumerate")
    return Zipped((Range(Number(0), ENDLESS), sequence_of(evaluate(reader, argument), argument)))


def _extreme(name: str) -> Callable[[Reader, ast.Call, str], Value]:
    def read(reader: Reader, node: ast.Call, _: str) -> Value:
        values = [evaluate(reader, each) for each in node.args]
        numbers = [value for value in values if isinstance(value, Scalar)]
        if len(values) != 2 or len(numbers) != 2:
            raise Refused(
                node, f"'{name}' takes two numbers; of tensors, 'dynamic.{name}imum' is the greater or lesser"
            )
        real = any(each.type == Float() for each in numbers)
        operands = tuple(as_real(each) if real else each.expr for each in numbers)
        return Scalar(Operation(name, operands, real), Float() if real else Int())

    return read


_BUILTINS: dict[str, Callable[[Reader, ast.Call, str], Value]] = {
    "len": _len,
    "range": _range,
    "float": _float,
    "reversed": _reversed,
    "zip": _zip,
    "enumerate": _enumerate,
    "min": _extreme("min"),
    "max": _extreme("max"),
    "isinstance": _isinstance,
}
