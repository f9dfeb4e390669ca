"""Conversations as texts without Jinja: a table of what stands in front of a message, by its role and that of the one
before.

Most templates are such a table: `<|im_start|>user` and a new line at the beginning, `<|im_end|>`, a new line,
`<|im_start|>assistant` and a new line between a user's message and the answer, and so on. `form_of` finds the table of
a template by rendering conversations of known texts, and compares the table with the template on further ones. A
template that is more than a table has no form: one that moves a message, that looks at what messages say, or that tells
the date.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from deploykit.artifact.tasks import FormEntry
from deploykit.errors import UsageError
from deploykit.language.template import ChatTemplate

START, END = "start", "end"
SPOKEN = ("system", "user", "assistant")
"""The roles of a form."""


def render(form: FormEntry, messages: Sequence[Mapping[str, Any]]) -> str:
    """The text of a conversation. Raises `UsageError` for an order of roles that the form has not."""
    roles = [START, *(str(message["role"]) for message in messages), END]
    parts: list[str] = []
    for (before, role), message in zip(itertools.pairwise(roles), [*messages, None], strict=True):
        joint = form.joints.get(f"{before} {role}")
        if joint is None:
            raise UsageError(f"a message of the role '{role}' cannot follow one of the role '{before}' in this model")
        parts.append(joint)
        if message is not None:
            text = str(message["content"])
            parts.append(text.strip() if role in form.trimmed else text)
    return "".join(parts)


class NoForm(Exception):
    """Why a template has no form."""


def form_of(template: ChatTemplate) -> FormEntry:
    """The form of a template. Raises `NoForm`."""
    if "strftime_now" in template.text:
        raise NoForm("it tells the date")
    joints: dict[str, str] = {}
    for roles in _conversations():
        texts = [f"text{chr(97 + number)}" for number, _ in enumerate(roles)]
        rendered = _rendered(template, [{"role": r, "content": t} for r, t in zip(roles, texts, strict=True)])
        if rendered is None:
            continue
        for pair, joint in _taken_apart(rendered, [START, *roles, END], texts):
            if joints.setdefault(pair, joint) != joint:
                raise NoForm(f"what stands between the roles {pair} is not always the same")
    trimmed = tuple(role for role in SPOKEN if _trims(template, role))
    form = FormEntry(joints=joints, trimmed=trimmed)
    for messages in _trials():
        expected = _rendered(template, messages)
        try:
            found = render(form, messages)
        except UsageError:
            found = None
        if expected != found:
            raise NoForm("it looks at what messages say, or at their number")
    if f"{START} user" not in joints:
        raise NoForm("it refuses a message of a user")
    return form


def _conversations() -> Iterator[tuple[str, ...]]:
    """Orders of roles, short ones first."""
    turns = ("user", "assistant")
    for length in range(1, 7):
        spoken = tuple(itertools.islice(itertools.cycle(turns), length))
        yield spoken
        yield ("system", *spoken)
    yield from ((role,) for role in SPOKEN)
    yield from itertools.product(SPOKEN, SPOKEN)
    yield ("user", "system", "user")


def _trials() -> Iterator[list[dict[str, str]]]:
    """Conversations on which a form is compared with its template."""
    texts = (
        "Hi!",
        "  spaces  ",
        "Two\nlines\n",
        "",
        "<b>&amp;</b> {{ x }}",
        "Grüße, 日本語 🙂",
        "x" * 300,
        "None",
        "0",
        "{}",
    )
    for shift, roles in enumerate(_conversations()):
        yield [{"role": r, "content": texts[(n + shift) % len(texts)]} for n, r in enumerate(roles)]
    for role in SPOKEN:
        yield [{"role": role, "content": "a"}, {"role": role, "content": "b"}]
    yield [{"role": "user", "content": "a"}, {"role": "system", "content": "b"}, {"role": "user", "content": "c"}]


def _rendered(template: ChatTemplate, messages: list[dict[str, str]]) -> str | None:
    """None if the template refuses the messages."""
    try:
        return template.render(messages)
    except UsageError:
        return None


def _taken_apart(rendered: str, roles: Sequence[str], texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    at = 0
    for pair, text in zip(itertools.pairwise(roles), [*texts, None], strict=True):
        place = len(rendered) if text is None else rendered.find(text, at)
        if place < 0 or (text is not None and rendered.count(text) != 1):
            raise NoForm("it moves messages, repeats them or leaves them out")
        yield " ".join(pair), rendered[at:place]
        at = place + len(text or "")


def _trims(template: ChatTemplate, role: str) -> bool:
    """Whether white space around a message is left out."""
    for front in ([], ["user"], ["assistant"]):
        messages = [{"role": other, "content": "x"} for other in front]
        plain = _rendered(template, [*messages, {"role": role, "content": "textz"}])
        wide = _rendered(template, [*messages, {"role": role, "content": "  textz\n "}])
        if plain is not None and wide is not None:
            return plain == wide
    return False
