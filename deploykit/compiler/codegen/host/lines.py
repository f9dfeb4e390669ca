"""Lines of C: breaking them, indenting them, and what of a model may stand in a comment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from textwrap import wrap
from typing import Any

import jinja2

from deploykit.compiler.dims import to_text
from deploykit.compiler.dims.expressions import IntExpr

INDENT = "    "
_LINE = 98
"""Characters, so that a line still fits when it is indented a few levels."""
_LONG_EXTENT = 40

Lines = list[str]


def statement(text: str) -> Lines:
    """`text` broken into lines that fit."""
    return wrap(text, _LINE, subsequent_indent=INDENT, break_long_words=False, break_on_hyphens=False)


def indented(lines: Iterable[str]) -> Lines:
    return [INDENT + line for line in lines]


def braced(lines: Iterable[str]) -> Lines:
    """`lines` as a block."""
    return ["{", *indented(lines), "}"]


def checked(call: str) -> Lines:
    """A call that ends the function when it fails."""
    return [*statement(f"status = {call};"), "if (status != DK_OK) {", INDENT + "return status;", "}"]


def operand(text: str) -> str:
    """The C text of an expression as an operand of others."""
    return text if text.isidentifier() or text.isdigit() else f"({text})"


def shape_text(shape: Iterable[IntExpr]) -> str:
    """`[batch, 10]` for a comment. Extents that would fill a line are left out."""
    texts = (to_text(extent) for extent in shape)
    return f"[{', '.join('...' if len(text) > _LONG_EXTENT else text for text in texts)}]"


def in_comment(text: str) -> str:
    """`text` as it may stand inside a C comment."""
    return text.replace("*/", "* /").replace("/*", "/ *").replace("\n", " ").replace("\\", "/")


def render(template: str, view: Mapping[str, Any]) -> str:
    """The text of a template of the host code."""
    return _environment().get_template(template).render(view)


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("deploykit.compiler.codegen.host"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701 - the output is C
    )
