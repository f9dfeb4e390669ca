"""Forms of conversations are what templates render."""

from __future__ import annotations

import pytest

from deploykit.errors import UsageError
from deploykit.language.form import NoForm, form_of, render
from deploykit.language.template import ChatTemplate

SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}

TURNS = "{% for m in messages %}{{ '<|' + m.role + '|>' + m.content + eos_token }}{% endfor %}"
PROMPT = "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"

TABLES = {
    "plain": TURNS + PROMPT,
    "no-prompt": TURNS,
    "trimmed": TURNS.replace("m.content", "(m.content | trim)") + PROMPT,
    "first": "{{ bos_token }}" + TURNS + PROMPT,
    "usual-system": "{% if messages[0].role != 'system' %}<|system|>Be kind.</s>{% endif %}" + TURNS + PROMPT,
    "other-names": TURNS.replace("m.role", "{'assistant': 'model'}.get(m.role, m.role)"),
    "alternating": (
        "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('turns') }}{% endif %}[{{ m.content }}]{% endfor %}"
    ),
}

MORE = {
    "moved": "{% for m in messages | reverse %}{{ m.content }};{% endfor %}",
    "counted": "{% for m in messages %}{{ loop.index }}:{{ m.content }}{% endfor %}",
    "said": TURNS.replace("m.content", "m.content.split('b')[-1]"),
    "dated": "{{ strftime_now('%d') }}" + TURNS,
    "left-out": "{% for m in messages if m.role != 'system' %}{{ m.content }}{% endfor %}{{ messages | length }}",
}


@pytest.mark.parametrize("name", TABLES)
def test_tables(name: str) -> None:
    template = ChatTemplate(TABLES[name], SPECIAL)
    form = form_of(template)
    messages = [
        {"role": "user", "content": " What?\n"},
        {"role": "assistant", "content": "<b> \n\nyes"},
        {"role": "user", "content": "Grüße 🙂"},
    ]
    for part in (messages[:1], messages):
        assert render(form, part) == template.render(part)
    if name == "alternating":
        with pytest.raises(UsageError, match="a message of the role 'system' cannot follow"):
            render(form, [{"role": "system", "content": "x"}, *messages])


@pytest.mark.parametrize("name", MORE)
def test_more_than_tables(name: str) -> None:
    with pytest.raises(NoForm):
        form_of(ChatTemplate(MORE[name], SPECIAL))


def test_templates_run_without_access_to_python() -> None:
    for text in ("{{ ''.__class__.__mro__ }}", "{{ messages.append(1) }}", "{% for"):
        with pytest.raises(UsageError):
            ChatTemplate(text, SPECIAL).render([{"role": "user", "content": "x"}])
