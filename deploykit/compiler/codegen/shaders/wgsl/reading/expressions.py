"""Reads types and expressions."""

from __future__ import annotations

from deploykit.compiler.codegen.shaders.wgsl.reading import resolving
from deploykit.compiler.codegen.shaders.wgsl.reading.cursor import Cursor
from deploykit.compiler.codegen.shaders.wgsl.reading.errors import Unreadable
from deploykit.compiler.codegen.shaders.wgsl.reading.tree import Address, Call, Expression, Function, Literal, Name
from deploykit.compiler.codegen.shaders.wgsl.reading.types import (
    ABSTRACT_FLOAT,
    ABSTRACT_INT,
    BOOL,
    F16,
    F32,
    I32,
    SCALARS,
    SIZES,
    U32,
    Array,
    Atomic,
    Scalar,
    Struct,
    Type,
    Vector,
    spelled,
    vector,
)

_LEVELS = (("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!=", "<", "<=", ">", ">="), ("<<", ">>"), "+-", "*/%")
_LEVEL = {symbol: level for level, symbols in enumerate(_LEVELS) for symbol in symbols}
_SUFFIXES = {"i": I32, "u": U32, "f": F32, "h": F16}
_SHORT = {f"vec{n}{end}": vector(kind, n) for n in (2, 3, 4) for end, kind in _SUFFIXES.items()}
_FALSE_TRUE = {"false": Literal(BOOL, False), "true": Literal(BOOL, True)}


class ExpressionReader(Cursor):
    """Reads expressions with the names in scope, and knows which functions they call."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.structs: dict[str, Struct] = {}
        self.heads: dict[str, Function] = {}
        """The functions that can be called, without their bodies."""
        self.names: dict[str, Name] = {}
        """The variables and values in scope."""
        self.called: dict[str, None] = {}
        """The functions that were called, in order."""

    def _type(self) -> Type:
        name = self._next()
        if name in SCALARS:
            return SCALARS[name]
        if name in _SHORT:
            return _SHORT[name]
        if name in self.structs:
            return self.structs[name]
        if name not in ("array", "atomic", *SIZES):
            self.at -= 1
            raise Unreadable(f"the type {name!r}")
        self._take("<")
        element = self._type()
        length = int(self._next().rstrip("ui")) if name == "array" and self._taken(",") else None
        if self.tokens[self.at] == ">>":
            self.tokens[self.at] = ">"  # the other one ends the type around this one
        else:
            self._take(">")
        if name == "array":
            return Array(element, length)
        if not isinstance(element, Scalar):
            raise Unreadable(f"{name} of {spelled(element)}")
        return Atomic(element) if name == "atomic" else vector(element, SIZES[name])

    def _expression(self, least: int = 0) -> Expression:
        """An expression of operators that bind at least as tightly as level `least`."""
        left = self._operand()
        while True:
            symbol = self.tokens[self.at]
            level = _LEVEL.get(symbol, -1)
            if level < least:
                return left
            self.at += 1
            left = resolving.binary(symbol, left, self._expression(level + 1))

    def _operand(self) -> Expression:
        word = self.tokens[self.at]
        self.at += 1
        name = self.names.get(word)
        if name is not None:
            return self._parts(name)
        first = word[:1]
        if first.isdigit() or (first == "." and len(word) > 1):
            return _literal(word)
        if word == "(":
            inner = self._expression()
            self._take(")")
            return self._parts(inner)
        if word in ("-", "!", "~"):
            return resolving.unary(word, self._operand())
        if word == "&":
            place = self._operand()
            return Address(resolving.address(place), place)
        return self._parts(self._called(word))

    def _parts(self, base: Expression) -> Expression:
        """Members and elements of a value."""
        while True:
            word = self.tokens[self.at]
            if word == ".":
                self.at += 1
                base = resolving.selected(base, self._name())
            elif word == "[":
                self.at += 1
                base = resolving.indexed(base, self._expression())
                self._take("]")
            else:
                return base

    def _arguments(self) -> list[Expression]:
        self._take("(")
        found: list[Expression] = []
        self._listed(")", lambda: found.append(self._expression()))
        return found

    def _called(self, name: str) -> Expression:
        """A call, a conversion, a constructor or a truth, by its first word."""
        if name in self.heads:
            head = self.heads[name]
            given = self._arguments()
            if len(given) != len(head.parameters):
                raise Unreadable(f"{name} of {len(given)} arguments")
            self.called[name] = None
            taken = zip(given, head.parameters, strict=True)
            return Call(head.result, name, tuple(resolving.expect(value, p.type) for value, p in taken))
        if name in resolving.BUILTINS:
            return resolving.builtin(name, self._arguments())
        if name in _FALSE_TRUE:
            return _FALSE_TRUE[name]
        if name == "bitcast":
            self._take("<")
            kind = self._type()
            self._take(">")
            (operand,) = self._arguments()
            return resolving.same_bits(kind, operand)
        if name not in SCALARS and name not in SIZES and name not in _SHORT and name != "array":
            self.at -= 1
            raise Unreadable(f"the name {name!r}")
        self.at -= 1
        kind = self._type()
        given = self._arguments()
        if isinstance(kind, Vector):
            return resolving.constructed(kind, given)
        return resolving.filled(kind, given) if isinstance(kind, Array) else _scalar(kind, given)


def _scalar(kind: Type, given: list[Expression]) -> Expression:
    if not isinstance(kind, Scalar) or len(given) > 1:
        raise Unreadable(f"{spelled(kind)} of {len(given)} values")
    return resolving.converted(kind, given)


def _literal(word: str) -> Expression:
    """A number. Hexadecimal digits may end with `f`, so only decimal numbers have that suffix."""
    whole = word[:2] in ("0x", "0X")
    kind = _SUFFIXES.get(word[-1]) if not whole or word[-1] in "iu" else None
    digits = word[:-1] if kind else word
    number = int(digits, 16 if whole else 10) if whole or digits.isdigit() else float(digits)
    literal = Literal(ABSTRACT_INT if isinstance(number, int) else ABSTRACT_FLOAT, number)
    return resolving.concrete(literal, kind) if kind else literal
