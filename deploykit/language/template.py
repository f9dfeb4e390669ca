"""Conversations as texts: the templates that models come with, in the language Jinja.

They see what transformers gives them: `messages`, `tools`, `documents`, `add_generation_prompt`, the special tokens,
and the functions `raise_exception` and `strftime_now`. A template is foreign text: it runs without access to Python.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from deploykit.errors import ToolchainError, UsageError

if TYPE_CHECKING:
    import jinja2
    from jinja2 import nodes

ROLES = ("system", "developer", "user", "assistant", "tool")


class ChatTemplate:
    """A template, with the special tokens that it knows. Raises `UsageError` for one that cannot be read."""

    def __init__(self, text: str, special: Mapping[str, str]) -> None:
        self.text, self.special = text, special

    @cached_property
    def _environment(self) -> jinja2.Environment:
        try:
            from jinja2.sandbox import ImmutableSandboxedEnvironment
        except ModuleNotFoundError as error:
            raise ToolchainError(
                "the template of conversations of this model needs jinja2: pip install jinja2"
            ) from error

        from deploykit.language.generation_blocks import GenerationBlocks

        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", GenerationBlocks]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)  # noqa: DTZ005 - local time
        return environment

    @cached_property
    def _template(self) -> jinja2.Template:
        environment = self._environment
        import jinja2

        try:
            return environment.from_string(self.text)
        except jinja2.TemplateError as error:
            raise UsageError(f"the template of conversations of this model cannot be read: {error}") from error

    def parsed(self) -> nodes.Template:
        """What Jinja reads in it. Raises `UsageError`."""
        environment = self._environment
        import jinja2

        try:
            return environment.parse(self.text)
        except jinja2.TemplateError as error:
            raise UsageError(f"the template of conversations of this model cannot be read: {error}") from error

    def render(self, messages: Sequence[Mapping[str, Any]], **given: Any) -> str:
        """The text of a conversation, at whose end the model goes on. Raises `UsageError` for messages that are none,
        or that the template refuses."""
        given_messages, template = checked_messages(messages), self._template
        import jinja2

        try:
            return template.render(
                messages=[dict(message) for message in given_messages],
                **{"add_generation_prompt": True, "tools": None, "documents": None, **self.special, **given},
            )
        except (jinja2.TemplateError, TypeError, ValueError, KeyError) as error:
            raise UsageError(f"the template of conversations of this model refuses these messages: {error}") from error


def checked_messages(messages: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The messages. Raises `UsageError` for what is none."""
    given = list(messages)
    for number, message in enumerate(given):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str) or "content" not in message:
            raise UsageError(f"message {number} is no object with 'role' and 'content': {message!r:.60}")
        if message["role"] not in ROLES:
            raise UsageError(f"message {number} has the role {message['role']!r:.40}; there are {', '.join(ROLES)}")
    return given


def _refuse(message: str) -> None:
    raise ValueError(message)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
