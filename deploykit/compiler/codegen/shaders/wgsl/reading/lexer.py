"""The tokens of a WGSL text. They are plain strings; the first character says what each is."""

from __future__ import annotations

import re
from itertools import islice

_TOKEN = re.compile(
    r"[A-Za-z_]\w*"
    r"|0[xX][0-9a-fA-F]+[iu]?"
    r"|(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?[iufh]?"
    r"|<<=|>>=|->|&&|\|\||<<|>>|[<>=!+\-*/%&|^]=|\S"
)
_COMMENT = re.compile(r"//[^\n]*")

END = ""
"""The token after the last."""


def tokens(text: str) -> list[str]:
    """The tokens, and `END`."""
    return [*_TOKEN.findall(_without_comments(text)), END]


def line_of(text: str, number: int) -> tuple[int, str]:
    """The line of token `number`: its number from 1, and its text."""
    plain = _without_comments(text)
    token = next(islice(_TOKEN.finditer(plain), number, None), None)
    line = plain.count("\n", 0, token.start() if token else len(plain.rstrip()))
    return line + 1, text.splitlines()[line].strip()


def _without_comments(text: str) -> str:
    return _COMMENT.sub("", text) if "//" in text else text
