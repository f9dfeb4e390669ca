"""Programs of templates are compared with Jinja when a model is built, on conversations of all kinds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from deploykit.errors import UsageError
from deploykit.language.programs.rendering import rendered
from deploykit.language.programs.statements import Program, program_of
from deploykit.language.programs.steps import NoProgram
from deploykit.language.template import ChatTemplate

_NOW = datetime(2027, 3, 4, 15, 6, 7, tzinfo=UTC)

_TEXTS = (
    "Hi!",
    "  spaces  ",
    "Two\nlines\n",
    "",
    '<b>&amp;</b> {{ x }} "quoted" \\\\',
    "Grüße, 日本語 🙂\u3000",
    "x" * 300,
    "None",
    "<think>\nhm\n</think>\n\nyes",
    "{}",
)
_ROLES = ("system", "user", "assistant")

_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": 'The "weather" of a <city> & more.',
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "Its name"},
                    "unit": {"type": "string", "enum": ["c", "f"]},
                    "days": {"type": "integer"},
                },
                "required": ["city"],
            },
        },
    }
]
_CALLS = [
    {
        "id": "call00001",
        "type": "function",
        "function": {"name": "weather", "arguments": {"city": "Köln", "days": 2, "exact": True, "places": ["a", None]}},
    }
]


def proved(template: ChatTemplate) -> Program:
    """The program of a template, which gives the same texts as Jinja. Raises `NoProgram`, and `UsageError` for a
    template that cannot be read."""
    program = program_of(template.parsed(), template.special)
    answers = 0
    for given in (*_spoken(), *_with_tools()):
        expected = _tried(template, given)
        try:
            found = rendered(program.steps, given, int(_NOW.timestamp()))
        except UsageError as error:
            if expected is None or "tools" in given:
                continue
            raise NoProgram(str(error)) from error
        if found != expected:
            raise NoProgram(f"the program and Jinja differ for {given!s:.200}")
        answers += 1
    if answers == 0:
        raise NoProgram(", ".join(program.lacks) or "the template refuses all conversations")
    return program


def _tried(template: ChatTemplate, given: Mapping[str, Any]) -> str | None:
    """What Jinja gives; None if the template refuses it."""
    try:
        return template.render(**given, strftime_now=_NOW.strftime)
    except UsageError:
        return None


def _spoken() -> Iterator[dict[str, Any]]:
    """Conversations without tools."""
    for shift, roles in enumerate(_orders()):
        texts = [_TEXTS[(number + shift) % len(_TEXTS)] for number, _ in enumerate(roles)]
        yield {"messages": [{"role": r, "content": t} for r, t in zip(roles, texts, strict=True)]}
    yield {"messages": [{"role": "user", "content": "a"}], "add_generation_prompt": False}
    yield {"messages": [{"role": "user", "content": "a"}], "enable_thinking": False}


def _orders() -> Iterator[tuple[str, ...]]:
    """Orders of roles, short ones first."""
    for length in range(1, 7):
        turns = tuple(itertools.islice(itertools.cycle(("user", "assistant")), length))
        yield turns
        yield ("system", *turns)
    yield from ((role,) for role in _ROLES)
    yield from itertools.product(_ROLES, _ROLES)
    yield ("user", "system", "user")


def _with_tools() -> Iterator[dict[str, Any]]:
    """Conversations with tools, of which a template may refuse some."""
    asked = {"role": "user", "content": "Wetter?"}
    result = {"role": "tool", "name": "weather", "tool_call_id": "call00001", "content": '{"t": 21.5}'}
    said = {"role": "assistant", "content": "It is 21.5"}
    yield {"messages": [asked], "tools": _TOOLS}
    for content in ("", "I look.", None):
        called = {"role": "assistant", "content": content, "tool_calls": _CALLS}
        yield {"messages": [asked, called, result], "tools": _TOOLS}
        yield {"messages": [asked, called, result, said, asked], "tools": _TOOLS}
    yield {"messages": [{"role": "user", "content": [{"type": "text", "text": "parts"}]}], "tools": None}
