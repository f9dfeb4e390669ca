"""A place in the tokens of a text."""

from __future__ import annotations

from collections.abc import Callable

from deploykit.compiler.codegen.shaders.wgsl.reading.errors import Unreadable
from deploykit.compiler.codegen.shaders.wgsl.reading.lexer import END, tokens


class Cursor:
    """Takes one token after another; `at` is the number of the next one."""

    def __init__(self, text: str) -> None:
        self.tokens, self.at = tokens(text), 0

    @property
    def done(self) -> bool:
        return self.tokens[self.at] == END

    def _next(self) -> str:
        word = self.tokens[self.at]
        if word == END:
            raise Unreadable("the text ends")
        self.at += 1
        return word

    def _take(self, wanted: str) -> None:
        if self.tokens[self.at] != wanted:
            raise Unreadable(f"{self.tokens[self.at]!r} where {wanted!r} is wanted")
        self.at += 1

    def _taken(self, wanted: str) -> bool:
        found = self.tokens[self.at] == wanted
        self.at += found
        return found

    def _name(self) -> str:
        name = self._next()
        if not name.isidentifier():
            self.at -= 1
            raise Unreadable(f"{name!r} where a name is wanted")
        return name

    def _listed(self, end: str, item: Callable[[], None]) -> None:
        """Items with commas between them, up to `end`."""
        while not self._taken(end):
            item()
            if not self._taken(","):
                self._take(end)
                return
