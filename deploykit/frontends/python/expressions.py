"""Expressions: numbers, tensors, lists and tuples. Calls are in `calls`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import partial
from math import isfinite

from deploykit.compiler.batching import control
from deploykit.compiler.batching.control import Number, Operation, Real
from deploykit.compiler.batching.tensors import Weight
from deploykit.dynamic.types import Bool, Float, Int
from deploykit.frontends.python import rows
from deploykit.frontends.python.functions import Reader
from deploykit.frontends.python.lists import from_end, part_of
from deploykit.frontends.python.numbers import ARITHMETIC, arithmetic
from deploykit.frontends.python.reading import evaluate, expression, operand_of
from deploykit.frontends.python.sequences import element, length
from deploykit.frontends.python.source import Refused
from deploykit.frontends.python.tensors import apply, as_real, as_tensor
from deploykit.frontends.python.values import (
    TENSORS,
    ListValue,
    Scalar,
    TupleValue,
    UnionValue,
    Value,
    described,
    field_of,
)

_TENSORS = {ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide", ast.MatMult: "matmul"}
_SCALARS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%"}
_COMPARISONS = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


@expression(ast.Constant)
def _read_constant(_reader: Reader, node: ast.Constant, _hint: str) -> Value:
    match node.value:
        case bool(value):
            return Scalar(Number(int(value)), Bool())
        case int(value):
            return Scalar(_number(value, node), Int())
        case float(value) if isfinite(value):
            return Scalar(Real(value), Float())
        case _:
            raise Refused(node, f"'{ast.unparse(node)[:60]}' cannot be used in a model")


@expression(ast.BinOp)
def _read_operation(reader: Reader, node: ast.BinOp, _hint: str) -> Value:
    return operation(reader, node.op, operand_of(reader, node.left), operand_of(reader, node.right), node)


@expression(ast.UnaryOp)
def _read_unary(reader: Reader, node: ast.UnaryOp, hint: str) -> Value:
    match node.op:
        case ast.USub():
            return _negative(reader, operand_of(reader, node.operand), node)
        case ast.UAdd():
            return evaluate(reader, node.operand, hint)
        case _:
            return _read_condition(reader, node, hint)


@expression(ast.Compare, ast.BoolOp)
def _read_condition(reader: Reader, node: ast.expr, _hint: str) -> Value:
    return Scalar(condition(reader, node), Bool())


def _number(value: int, node: ast.AST) -> Number:
    if not -(2**31) <= value < 2**31:
        raise Refused(node, f"integers have 32 bits, found {value}")
    return Number(value)


@expression(ast.Name)
def _read_name(reader: Reader, node: ast.Name, _hint: str) -> Value:
    name = node.id
    if name in reader.scope.names:
        return reader.scope.names[name]
    if name in reader.program.module.numbers and name not in reader.local:
        value = reader.program.module.numbers[name]
        return Scalar(Real(value), Float()) if isinstance(value, float) else Scalar(_number(value, node), Int())
    if name in reader.broken:
        raise Refused(node, "")
    raise Refused(node, f"'{name}' has no value here, or not on every way that leads here")


@expression(ast.Attribute)
def _read_attribute(reader: Reader, node: ast.Attribute, _hint: str) -> Value:
    module = reader.program.module
    if isinstance(node.value, ast.Name) and node.value.id == "self" and "self" not in reader.scope.names:
        if node.attr in module.weights:
            return Weight(module.weights[node.attr], node.attr)
        known = ", ".join(module.weights) or "none"
        raise Refused(node, f"the model has no weight '{node.attr}'; its weights are: {known}")
    value = evaluate(reader, node.value)
    if not isinstance(value, UnionValue):
        raise Refused(node, f"{described(value)} has no attribute '{node.attr}'")
    variants = module.unions[value.name]
    chosen = [each for each in variants if each.name == value.variant] if value.variant else list(variants)
    if len(chosen) > 1:
        text = f"{value.name} may be {' or '.join(each.name for each in chosen)}: find out with 'match' first"
        raise Refused(node, text)
    if node.attr not in dict(chosen[0].fields):
        raise Refused(node, f"'{chosen[0].name}' has no field '{node.attr}'")
    return field_of(value.handle, chosen[0], node.attr)


def operation(reader: Reader, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
    """`left op right`. Raises `Refused`."""
    if any(isinstance(value, (*TENSORS, *rows.KINDS)) for value in (left, right)):
        if type(op) not in _TENSORS:
            raise Refused(node, "tensors have the operators + - * / @ only")
        if isinstance(left, rows.KINDS) or isinstance(right, rows.KINDS):
            return rows.operation(reader, _TENSORS[type(op)], left, right, node)
        return apply(_TENSORS[type(op)], [as_tensor(left, node), as_tensor(right, node)], node)
    if isinstance(left, ListValue) or isinstance(right, ListValue):
        raise Refused(node, "a list gets further items like this: '[*items, item]'")
    if not isinstance(left, Scalar) or not isinstance(right, Scalar):
        raise Refused(node, f"no operator takes {described(left)} and {described(right)}")
    folded = _folded(op, left.expr, right.expr)
    if folded is not None:
        return Scalar(Real(folded), Float()) if isinstance(folded, float) else Scalar(_number(folded, node), Int())
    real = Float() in (left.type, right.type) or isinstance(op, ast.Div)
    if real and isinstance(op, ast.Div):
        quotient = Operation("/", (as_real(left), as_real(right)), real=True)
        require_divisor(reader, Operation("!=", (as_real(right), Real(0.0)), real=True), Number(0), node)
        return Scalar(quotient, Float())
    if type(op) not in _SCALARS or (real and isinstance(op, ast.FloorDiv | ast.Mod)):
        raise Refused(node, "numbers have the operators + - * and /, integers // and %, too")
    if real:
        return Scalar(Operation(_SCALARS[type(op)], (as_real(left), as_real(right)), real=True), Float())
    if isinstance(op, ast.FloorDiv | ast.Mod):
        require_divisor(reader, Operation("!=", (right.expr, Number(0))), right.expr, node)
    return Scalar(Operation(_SCALARS[type(op)], (left.expr, right.expr)), Int())


def _folded(op: ast.operator, left: control.Expr, right: control.Expr) -> int | float | None:
    """The result of an operator on two constants; None for others, and for one that is not finite."""
    if not isinstance(left, Number | Real) or not isinstance(right, Number | Real) or type(op) not in ARITHMETIC:
        return None
    return arithmetic(op, left.value, right.value)


def require_divisor(reader: Reader, test: control.Expr, value: control.Expr, node: ast.AST) -> None:
    reader.emit(control.Require(test, f"line {getattr(node, 'lineno', 0)}: division by 0", value))


def _negative(reader: Reader, value: Value, node: ast.AST) -> Value:
    if isinstance(value, rows.KINDS):
        return rows.each(reader, "negative", [value], node)
    if isinstance(value, TENSORS):
        return apply("negative", [value], node)
    if not isinstance(value, Scalar) or value.type == Bool():
        raise Refused(node, f"'-' takes a number or a tensor, found {described(value)}")
    match value.expr:
        case Number(number):
            return Scalar(Number(-number), Int())
        case Real(number):
            return Scalar(Real(-number), Float())
        case _:
            return Scalar(Operation("neg", (value.expr,), value.type == Float()), value.type)


def condition(reader: Reader, node: ast.expr) -> control.Expr:
    """A test as a number, 0 or 1. Raises `Refused`."""
    match node:
        case ast.UnaryOp(ast.Not(), operand):
            return Operation("not", (condition(reader, operand),))
        case ast.BoolOp(op, [first, *others]):
            tests = [partial(condition, reader, other) for other in others]
            return _all_or_any(reader, condition(reader, first), tests, every=isinstance(op, ast.And))
        case ast.Compare(left, ops, comparators):
            return _comparison(reader, left, ops, comparators, node)
        case _:
            value = evaluate(reader, node)
            if isinstance(value, Scalar) and value.type == Bool():
                return value.expr
            hint = " (compare 'float(...)' of a tensor with a number)" if isinstance(value, TENSORS) else ""
            raise Refused(node, f"a condition is a bool, found {described(value)}{hint}")


def _all_or_any(
    reader: Reader, first: control.Expr, others: Sequence[Callable[[], control.Expr]], *, every: bool
) -> control.Expr:
    """`and` and `or`: an operand is computed only if the ones before it do not decide."""
    result = reader.held(first, Bool(), "condition")
    for other in others:
        block: list[control.Statement] = []
        with reader.at(block, reader.scope.copy()):
            reader.emit(control.Set(result, other()))
        reader.emit(control.If(result, tuple(block)) if every else control.If(result, (), tuple(block)))
    return result


def _comparison(
    reader: Reader, left: ast.expr, ops: Sequence[ast.cmpop], comparators: Sequence[ast.expr], node: ast.AST
) -> control.Expr:
    """`a < b < c`: `c` is computed only if `a < b`."""
    before, value = evaluate(reader, left), evaluate(reader, comparators[0])
    first = _compared(ops[0], before, value, node)
    if len(ops) == 1:
        return first

    def following(op: ast.cmpop, comparator: ast.expr) -> control.Expr:
        nonlocal before, value
        before, value = value, evaluate(reader, comparator)
        return _compared(op, before, value, node)

    tests = [partial(following, *pair) for pair in zip(ops[1:], comparators[1:], strict=True)]
    return _all_or_any(reader, first, tests, every=True)


def _compared(op: ast.cmpop, left: Value, right: Value, node: ast.AST) -> control.Expr:
    if type(op) not in _COMPARISONS:
        raise Refused(node, "numbers are compared with == != < <= > >=")
    if not isinstance(left, Scalar) or not isinstance(right, Scalar):
        found = left if isinstance(right, Scalar) else right
        hint = ": take 'float(...)' of it" if isinstance(found, TENSORS) else ""
        raise Refused(node, f"only numbers can be compared, found {described(found)}{hint}")
    if Float() in (left.type, right.type):
        return Operation(_COMPARISONS[type(op)], (as_real(left), as_real(right)), real=True)
    return Operation(_COMPARISONS[type(op)], (left.expr, right.expr))


@expression(ast.Subscript)
def _read_item(reader: Reader, node: ast.Subscript, _hint: str) -> Value:
    """`value[index]`, and parts of lists."""
    value, index = evaluate(reader, node.value), node.slice
    if isinstance(index, ast.Slice):
        if not isinstance(value, ListValue):
            raise Refused(node, f"only a list has parts, found {described(value)}")
        return part_of(reader, value, index)
    where = evaluate(reader, index)
    if not isinstance(where, Scalar) or where.type != Int():
        raise Refused(index, f"an index is an int, found {described(where)}")
    if isinstance(value, TupleValue):
        if not isinstance(where.expr, Number) or not -len(value.items) <= where.expr.value < len(value.items):
            raise Refused(index, f"the index of a tuple is a number below {len(value.items)}")
        return value.items[where.expr.value]
    if isinstance(value, ListValue):
        count = length(value)
        message = f"line {index.lineno}: the index {{}} is not in the list"
        return element(value, _within(reader, where.expr, count, message))
    if isinstance(value, Weight):
        rows = value.shape[0] if value.shape else 0
        message = f"line {index.lineno}: row {{}} of '{value.name}' of {rows}"
        return apply("row", [value], node, numbers=(_within(reader, where.expr, Number(rows), message),))
    raise Refused(node, f"only lists, tuples and weights have an index, found {described(value)}")


def _within(reader: Reader, index: control.Expr, count: control.Expr, message: str) -> control.Expr:
    """The index from the beginning, of one that may count from the end. The run ends if it is outside."""
    place = from_end(index, count)
    low, high = Operation(">=", (place, Number(0))), Operation("<", (place, count))
    reader.emit(control.Require(Operation("and", (low, high)), message, index))
    return place


def await_number(reader: Reader, value: Value, node: ast.AST, hint: str) -> Scalar:
    """The only element of a tensor, as a float; the instance waits until it is computed."""
    if isinstance(value, Scalar):
        return Scalar(as_real(value), Float())
    if not isinstance(value, TENSORS) or value.shape:
        text = f"'float' takes a number or a tensor without axes, such as a 'sum', found {described(value)}"
        raise Refused(node, text)
    (handle,) = reader.words(value, node)
    (variable,) = reader.variables(Float(), hint)
    reader.emit(control.Await(variable, handle))
    return Scalar(variable, Float())
