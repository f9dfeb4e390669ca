"""Programs of templates give what Jinja gives, or refuse by name."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from deploykit.errors import UsageError
from deploykit.language.programs.proof import proved
from deploykit.language.programs.rendering import rendered
from deploykit.language.programs.statements import Program, program_of
from deploykit.language.programs.steps import NoProgram
from deploykit.language.template import ChatTemplate

SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}

TURNS = "{% for m in messages %}{{ '<|' + m.role + '|>' + m.content + eos_token }}{% endfor %}"
PROMPT = "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"

TEMPLATES = {
    "plain": TURNS + PROMPT,
    "trimmed": TURNS.replace("m.content", "(m.content | trim)") + PROMPT,
    "first": "{{ bos_token }}" + TURNS + PROMPT,
    "usual-system": "{% if messages[0].role != 'system' %}<|system|>Be kind.</s>{% endif %}" + TURNS + PROMPT,
    "other-names": TURNS.replace("m.role", "{'assistant': 'model'}.get(m.role, m.role)"),
    "alternating": (
        "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('turns of ' ~ m['role']) }}{% endif %}[{{ m.content }}]{% endfor %}"
    ),
    "moved": "{% for m in messages | reverse %}{{ m.content }};{% endfor %}",
    "loops": (
        "{% for m in messages[1:] if m.content %}{{ loop.index }}/{{ loop.length }} {{ loop.first }} {{ loop.last }}"
        "{{ loop.revindex }}{{ loop.previtem.role }}{{ loop.nextitem.role if not loop.last }}{% if loop.index > 2 %}"
        "{% break %}{% elif m.role == 'user' %}{% continue %}{% else %}!{% endif %}:{{ m.content }}{% else %}none"
        "{% endfor %}{% for k, v in messages[0].items() %}{{ k }}={{ v }};{% endfor %}"
    ),
    "reasoning": (
        "{% for m in messages %}{% set text = m.content %}{% if '</think>' in text %}"
        "{% set text = text.split('</think>')[-1].lstrip('\\n') %}{% endif %}{{ m.role.upper()[:1] ~ text }}"
        "{% endfor %}{{ text }}"
    ),
    "spaces": (
        "{% set ns = namespace(system='', last=-1) %}{% for m in messages %}{% if m.role == 'system' %}"
        "{% set ns.system = ns.system + m.content.strip() + '\\n' %}{% set ns.last = loop.index0 %}{% endif %}"
        "{% endfor %}{{ ns.system | trim }}|{{ ns.last }}|{{ ns.other is defined }}"
    ),
    "scopes": (
        "{% set x = 1 %}{% for m in messages %}{{ x }}{% set x = loop.index %}{{ x }}{% if y is defined %}{{ y }}"
        "{% endif %}{% set y = 2 %}{% endfor %}{{ x }}{{ y is defined }}"
        "{% if messages | length > 1 %}{% set z = 3 %}{% endif %}{{ z }}{% with x = x + 1, w = x %}{{ x }}"
        "{{ w }}{% endwith %}"
        "{% generation %}{% set x = 7 %}{{ x }}{% endgeneration %}{{ x }}"
    ),
    "macros": (
        "{% macro turn(role, text='-', end=role) %}<{{ role }}>{{ text | trim }}{{ shout(end) if end }}{% endmacro %}"
        "{% macro shout(text) %}{{ '(' ~ text ~ level ~ ')' }}{% endmacro %}{% set level = 9 %}"
        "{% macro deep(n) %}{{ n }}{% if n > 0 %}{{ deep(n - 1) }}{% endif %}{% endmacro %}"
        "{% for m in messages %}{{ turn(m.role, m.content) }}{{ turn('x', end=m.role) }}{{ turn(m.role) }}{% endfor %}"
        "{% set kept %}{% for i in range(3) %}{{ deep(i) }}{% endfor %}{% endset %}[{{ kept | length }}{{ kept }}]"
        "{% filter trim | upper %}  a{{ messages | length }} {% endfilter %}"
    ),
    "tools": (
        "{% if tools %}{% for t in tools %}{{ t | tojson }}\n{{ t.function | tojson(indent=2) }}"
        "{{ t | tojson(ensure_ascii=True) }}{% for k, v in t.function.parameters.properties | dictsort %}{{ k }}: "
        "{{ v.type | default('any') }} {{ v['enum'] | join(', ') if v.enum is defined }}{% endfor %}"
        "{{ t.function.parameters.required | list }}{% endfor %}{% endif %}{% for m in messages %}"
        "{% if m.tool_calls %}{% for c in m.tool_calls %}{{ c.function.arguments | tojson | safe }}"
        "{% for k, v in c.function.arguments | items %}{{ k }}={{ v if v is string else v | tojson }};{% endfor %}"
        "{% endfor %}{% elif m.content is string %}{{ m.content }}{% elif m.content is none %}nothing{% else %}"
        "{{ m.content | selectattr('type', 'equalto', 'text') | map(attribute='text') | join('|') }}"
        "{{ m.content | rejectattr('type', 'eq', 'text') | list | length }}{% endif %}{% endfor %}"
    ),
    "lists": (
        "{{ tools | selectattr('type', 'equalto', 'function') | list | length }}{{ none | map('upper') | join }}"
        "{{ (1,) ~ (1, 'a') }}{{ messages | map(attribute='role') | join(',') }}{{ ['a', '', 'b'] | select | join }}"
        "{{ [1, 2, 3] | reject('odd') | list }}{{ ['a', 'b'] | map('upper') | list }}{{ messages | first | length }}"
        "{{ [1] + [2] }}{{ (messages | last).role }}{{ range(5) | list | reverse | list }}"
        "{{ {'b': 1, 'A': 2} | dictsort }}"
    ),
    "kinds": (
        "{% for v in [1, true, none, 'a', [1], {'a': 1}, missing, messages[0].role, 0, ''] %}{{ v is defined }}"
        "{{ v is none }}{{ v is string }}{{ v is mapping }}{{ v is iterable }}{{ v is sequence }}{{ v is boolean }}"
        "{{ v is number }}{{ v is integer }}{{ v is true }}{{ v is false }}{{ not v }}{{ v or 'or' }}{{ v and 'and' }}"
        "{{ v == 1 }}{{ v != 'a' }}{{ v in [1, 'a', none] }}{{ v == [1] }};{% endfor %}"
        "{{ none ~ true ~ 1 ~ missing ~ [1, 'it\\'s', none] ~ {'a': \"\\n\"} }}"
    ),
    "numbers": (
        "{{ 7 // 2 }}{{ -7 // 2 }}{{ -7 % 3 }}{{ 7 % -3 }}{{ 2 * 3 - 4 }}{{ 'ab' * 3 }}{{ 3 > 2 }}{{ 2 <= 2 }}"
        "{{ 'a' < 'b' }}{{ 'ab' >= 'b' }}{{ 3 is odd }}{{ 3 is even }}{{ range(2, 9, 3) | list }}{{ range(3) | list }}"
    ),
    "texts": (
        "{% for m in messages %}{% set t = m.content | string %}{{ t | length }}{{ t[1:] }}{{ t[:-1] }}{{ t[::-1] }}"
        "{{ t[0] }}{{ t[-1] }}{{ t[99] is defined }}{{ t.startswith(('a', '<')) }}{{ t.endswith('b') }}"
        "{{ t.split() }}{{ t.split('\\n', 1) }}{{ t.replace('a', 'bb') }}{{ t | replace('\\n', '') }}"
        "{{ t.strip('ab<') }}{{ t.rstrip() }}{{ t | first }}{{ t | last }}{{ ', '.join(t.split(' ')) }}"
        "{{ 'Ab c'.title() ~ 'aB'.capitalize() ~ 'aB' | lower }}{{ t | default('x', true) }}{{ 'a' in t }};{% endfor %}"
    ),
    "dated": "{{ strftime_now('%d %b %Y, %A %B %Y-%m-%d %H:%M:%S %I %p %y %a') if strftime_now is defined }}" + TURNS,
}

CALL = {"id": "1", "function": {"name": "f", "arguments": {"a": 'x"\\y', "b": [1, 2.5, None, True], "c": {}, "d": []}}}
TOOL = {
    "type": "function",
    "function": {
        "name": "f",
        "description": 'Füßchen <b> "q" 🙂\u007f\u0001',
        "parameters": {
            "type": "object",
            "properties": {"b": {"type": "x", "enum": ["u", "v"]}, "A": {}},
            "required": ["b"],
        },
    },
}
GIVEN: list[dict[str, Any]] = [
    {"messages": [{"role": "user", "content": " What?\n"}]},
    {
        "messages": [
            {"role": "user", "content": "a b\nab"},
            {"role": "assistant", "content": "<b> \n\nyes"},
            {"role": "user", "content": "hm</think>\n\nb"},
            {"role": "assistant", "content": ""},
        ]
    },
    {"messages": [{"role": "system", "content": "\u3000a "}, {"role": "user", "content": "Grüße 🙂"}], "y": 5},
    {
        "messages": [{"role": "system", "content": "x"}, {"role": "system", "content": " y "}],
        "add_generation_prompt": False,
    },
    {
        "messages": [
            {
                "role": "user",
                "content": [{"type": "text", "text": "p"}, {"type": "image"}, {"type": "text", "text": "q"}],
            },
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "name": "f", "content": "[1]\r\n\ttabs"},
        ],
        "tools": [TOOL],
    },
]
NOW = 1_803_740_767


def compiled(text: str) -> Program:
    return program_of(ChatTemplate(text, SPECIAL).parsed(), SPECIAL)


def _expected(text: str, given: dict[str, Any]) -> str | None:
    try:
        clock = time.gmtime(NOW)
        return ChatTemplate(text, SPECIAL).render(**given, strftime_now=lambda form: time.strftime(form, clock))
    except UsageError:
        return None


def found_of(text: str, given: dict[str, Any]) -> str | None:
    try:
        return rendered(compiled(text).steps, given, NOW)
    except UsageError:
        return None


@pytest.mark.parametrize("name", TEMPLATES)
def test_programs_give_what_jinja_gives(name: str) -> None:
    assert not compiled(TEMPLATES[name]).lacks
    answers = 0
    for given in GIVEN:
        expected = _expected(TEMPLATES[name], given)
        if name == "texts" and not str(given["messages"][0]["content"]).isascii():
            assert found_of(TEMPLATES[name], given) is None  # a list of texts that Python may escape
        else:
            assert found_of(TEMPLATES[name], given) == expected
        answers += expected is not None
    assert answers > 0


def test_texts_of_all_kinds() -> None:
    random = np.random.default_rng(5)
    letters = [*"ab <\n\t\"'\\{}", "é", "日", "🙂", "\u3000", "\x1c", "\x7f", "\u2028"]
    text = (
        "{% for m in messages %}{{ m.content | trim }}|{{ m.content | length }}|{{ m.content[1:3] }}|"
        "{{ m.content[-2:] }}|{{ m.content | tojson }}|{{ m.content.rstrip() }}|{{ m.content.split('b') | join('+') }}|"
        "{{ m.content.split() | join('+') }}|{{ m.content[::2] }}|{{ m.content.replace('ab', 'c') }}|"
        "{{ m.content.lstrip('a é') }}|{{ m.content | tojson(ensure_ascii=true) }}|{{ m.content < 'é' }}{% endfor %}"
    )
    program = compiled(text).steps
    for _ in range(100):
        contents = ["".join(random.choice(letters, int(random.integers(0, 9)))) for _ in range(5)]
        given = {"messages": [{"role": "user", "content": content} for content in contents]}
        assert rendered(program, given) == ChatTemplate(text, {}).render(**given)


@pytest.mark.parametrize(
    ("text", "lack"),
    [
        ("{{ messages | sort(attribute='role') }}", "the filter 'sort' in line 1"),
        ("\n{{ 'a'.center(3) }}", "the method 'center' in line 2"),
        ("{% for m in messages recursive %}{% endfor %}", "a recursive loop in line 1"),
        ("{% call(x) f() %}{% endcall %}", "'CallBlock' in line 1"),
        ("{{ 1 < 2 < 3 }}", "a chain of comparisons in line 1"),
        ("{{ ('<' | safe) + messages[0].content }}", "the filter 'safe' in line 1"),
        ("{% if messages | selectattr('role') %}{% endif %}", "the filter 'selectattr' without 'list' in line 1"),
        ("{{ messages[0].items }}", "the method 'items' as a value in line 1"),
        (
            "{% for m in messages %}{% macro f() %}{% endmacro %}{% endfor %}",
            "the macro 'f' within a loop or a macro in line 1",
        ),
        ("{{ loop.index }}", "'loop.index' in line 1"),
        ("{{ 0.5 }}", "the number 0.5 in line 1"),
        ("{{ messages is callable }}", "the test 'callable' in line 1"),
    ],
)
def test_what_has_no_steps_is_named(text: str, lack: str) -> None:
    program = compiled("a{% if messages | length > 1 %}" + text + "{% endif %}b")
    assert program.lacks == (lack,)
    one = {"role": "user", "content": "x"}
    assert rendered(program.steps, {"messages": [one]}) == "ab"
    with pytest.raises(UsageError, match=lack.split(" in line", maxsplit=1)[0].replace("(", r"\(")):
        rendered(program.steps, {"messages": [one, one]})
    with pytest.raises(NoProgram, match=lack.split(" in line", maxsplit=1)[0]):
        proved(ChatTemplate(text, SPECIAL))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{{ messages[0].content + 1 }}", "not for its kind"),
        ("{{ nobody.content }}", "a part of something that is not there"),
        ("{{ 'é' | upper }}", "letters beyond ASCII"),
        ("{{ ['é'] }}", "letters beyond ASCII"),
        ("{{ missing | tojson }}", "something that is not there"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "call each other too deeply"),
        ("{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}", "does not come to an end"),
        ("{{ messages[0]['items'] }}", "a method as a value"),
        ("{{ raise_exception('no ' ~ 1) }}", "refuses these messages: no 1"),
        ("{{ strftime_now('%U') }}", "a form that is not known"),
    ],
)
def test_faults_of_a_conversation(text: str, fault: str) -> None:
    with pytest.raises(UsageError, match=fault):
        rendered(compiled(text).steps, {"messages": [{"role": "user", "content": "x"}]})


def test_a_program_that_differs_is_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    template = ChatTemplate(TURNS, SPECIAL)
    assert proved(template).lacks == ()
    other = program_of(ChatTemplate(TURNS + "x", SPECIAL).parsed(), SPECIAL)
    monkeypatch.setattr("deploykit.language.programs.proof.program_of", lambda *_: other)
    with pytest.raises(NoProgram, match="the program and Jinja differ for"):
        proved(template)


def test_a_conversation_of_any_size() -> None:
    program = compiled(
        "{% for m in messages %}{% set t %}{{ m.content }}{% endset %}{{ t ~ t ~ t ~ t ~ t ~ t }}{% endfor %}"
    )
    given = {"messages": [{"role": "user", "content": "é" * 100_000}] * 3}
    assert rendered(program.steps, given) == "é" * 1_800_000


def test_messages_that_are_no_json() -> None:
    with pytest.raises(UsageError, match="these messages are no JSON"):
        rendered(compiled("x").steps, {"messages": [{"role": "user", "content": {1, 2}}]})


def test_templates_run_without_access_to_python() -> None:
    for text in ("{{ ''.__class__.__mro__ }}", "{{ messages.append(1) }}", "{% for"):
        with pytest.raises(UsageError):
            ChatTemplate(text, SPECIAL).render([{"role": "user", "content": "x"}])
