"""Language models in web packages: node, workers, and the page of Chromium."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

import deploykit
from bench.browser import FolderHandler, find_chromium, served
from deploykit.errors import UsageError
from deploykit.sessions.session import Session
from tests.apps.devtools import chromium
from tests.language.models import write_language_model
from tests.web.test_ragged import evaluated, in_node
from tests.web.test_types import OPTIONS, check

ASK = "[{ role: 'user', content: 'abc' }]"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("language")
    deploykit.build(write_language_model(place / "model.gguf"), "webgpu", output=place / "web")
    return place / "web"


def test_answers_are_those_of_the_host(package: Path, session: Session) -> None:
    message = [{"role": "user", "content": "abc"}]
    for settings, same in (
        ("maxTokens: 9, ignoreEnd: true", {"max_tokens": 9, "ignore_end": True}),
        (
            "maxTokens: 9, temperature: 0.9, topP: 0.95, topK: 30, seed: 7n, repetitionPenalty: 1.2",
            {"max_tokens": 9, "temperature": 0.9, "top_p": 0.95, "top_k": 30, "seed": 7, "repetition_penalty": 1.2},
        ),
        (
            "maxTokens: 60, ignoreEnd: true, overflow: 'window', sinks: 3",
            {"max_tokens": 60, "ignore_end": True, "overflow": "window", "sinks": 3},
        ),
    ):
        found = evaluated(package, f"await model.complete({ASK}, {{ {settings} }})")
        answer = session.generate(message, **same)
        assert found["text"] == answer.read()
        assert found["tokens"] == answer.tokens
        assert found["reason"] == answer.reason


def test_a_long_prompt_without_its_oldest_tokens(package: Path, session: Session) -> None:
    found = evaluated(package, "await model.complete('ab'.repeat(40), { maxTokens: 5, overflow: 'window' })")
    assert found["text"] == session.generate("ab" * 40, max_tokens=5, overflow="window").read()


def test_answers_of_nothing_and_stops_that_never_come(package: Path, session: Session) -> None:
    none = evaluated(package, "await model.complete('hello', { maxTokens: 0 })")
    assert (none["text"], none["tokens"], none["reason"]) == ("", [], "length")
    whole = session.generate("hello", max_tokens=12, ignore_end=True).read()
    stop = f"stop: [{json.dumps(whole[-3:] + '!')}]"
    found = evaluated(package, f"await model.complete('hello', {{ maxTokens: 12, ignoreEnd: true, {stop} }})")
    assert (found["text"], found["reason"]) == (whole, "length")


def test_pieces_stops_and_what_is_remembered(package: Path, session: Session) -> None:
    whole = session.generate("hello", max_tokens=20, ignore_end=True).read()
    script = f"""await (async () => {{
      const parts = [];
      const options = {{ maxTokens: 20, ignoreEnd: true, stop: ['{whole[5:8]}'] }};
      for await (const piece of model.generate('hello', options)) parts.push(piece.text);
      const again = await model.complete('hello', {{ maxTokens: 2, ignoreEnd: true }});
      return [parts, again.timings.promptTokens, model.tokenizer.count({ASK})];
    }})()"""
    parts, read_again, count = evaluated(package, script)
    assert "".join(parts) == whole[: whole.find(whole[5:8])]
    assert read_again == 1
    assert count == len("Q:abc") + 1 + len("A:")


def test_answers_at_once(package: Path, session: Session) -> None:
    """Also the first ones, for which memory is made, and those that are asked for while it is made anew."""
    options = "{ maxTokens: 12, ignoreEnd: true }"
    texts = ("hello", "abc")
    calls = ", ".join(f"model.complete('{text}', {options})" for text in texts)
    script = f"""await (async () => {{
      const first = await Promise.all([{calls}]);
      const made = model.reset({{ pages: 2 }});
      const second = await Promise.all([{calls}, made, model.reset({{ pages: 2 }})]);
      return [...first, ...second.slice(0, 2)].map(({{ tokens }}) => tokens);
    }})()"""
    expected = []
    for text in texts:
        answer = session.generate(text, max_tokens=12, ignore_end=True)
        answer.read()
        expected.append(answer.tokens)
    assert evaluated(package, script) == [*expected, *expected]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        ("model.complete('')", "UsageError", "the text is empty"),
        ("model.complete('a'.repeat(50))", "DataError", "has 50 tokens, and the model takes 40"),
        ("model.complete({})", "UsageError", "takes a text, a list of messages, or a list of tokens"),
        ("model.complete([{ role: 'robot', content: '' }])", "UsageError", "has the role 'robot'"),
        ("model.complete('a', { temperature: NaN })", "UsageError", "temperature is NaN"),
        ("model.complete('a', { topP: 2 })", "UsageError", "topP is 2"),
        ("model.complete('a', { maxTokens: -1 })", "UsageError", "maxTokens must be a whole number"),
        ("model.complete('a', { seed: -1 })", "UsageError", "seed must be a whole number"),
        ("model.complete('a', { stop: [''] })", "UsageError", "none of them empty"),
        ("model.complete('a', { temprature: 1 })", "UsageError", "temprature"),
        ("model.complete('a', { temperature: Infinity })", "UsageError", "temperature is Infinity"),
        ("model.complete('a', { seed: 1n << 64n })", "UsageError", "seed must be a whole number"),
        (
            "model.complete('a', { logitBias: Object.fromEntries([...Array(50)].map((_, n) => [n, -Infinity])) })",
            "DataError",
            "no token is possible",
        ),
        ("model.complete('a', { overflow: 'drop' })", "UsageError", "overflow is drop"),
        ("model.complete('a', { overflow: 'window', sinks: 39 })", "UsageError", "sinks is 39"),
        ("model.complete('a', { signal: AbortSignal.abort() })", "AbortError", "aborted"),
        (
            "(await model.reset({ pages: 1 }), model.complete('b'.repeat(34)))",
            "MemoryError",
            "the memory for 32 tokens",
        ),
    ],
)
def test_what_cannot_be_asked(package: Path, call: str, error: str, message: str) -> None:
    found = in_node(package, f"await {call}")
    assert found["error"] == error
    assert message in found["message"]


def test_an_answer_is_stopped(package: Path) -> None:
    script = """await (async () => {
      const stopping = new AbortController();
      const parts = [];
      try {
        for await (const piece of model.generate('hello', { ignoreEnd: true, signal: stopping.signal })) {
          parts.push(piece.text);
          if (parts.length === 3) stopping.abort();
        }
      } catch (error) {
        const after = await model.complete('hello', { maxTokens: 2, ignoreEnd: true });
        return [parts.length, error.name, after.tokens.length];
      }
    })()"""
    assert evaluated(package, script) == [3, "AbortError", 2]


def test_what_is_remembered_elsewhere_cannot_be_saved(package: Path, tmp_path: Path) -> None:
    with deploykit.open(package) as session:
        chat = session.chat(max_tokens=2)
        chat.ask("a")
        with pytest.raises(UsageError, match="is not in the memory of this process"):
            chat.save(tmp_path / "talk")


def test_types(package: Path) -> None:
    folder = package.parent
    (folder / "app.mts").write_text(
        "import { load, type Answer, type Message } from './web/index.mjs';\n"
        "const model = await load({ worker: true });\n"
        "const messages: Message[] = [{ role: 'user', content: 'x' }];\n"
        "for await (const piece of model.generate(messages, { temperature: 0.5, seed: 1n })) {\n"
        "  const text: string = piece.text;\n}\n"
        "const answer: Answer = await model.complete('x', { onPiece: ({ tokens }) => tokens.length });\n"
        "await model.reset({ pages: 4 });\n"
        "const saved: Uint8Array<ArrayBuffer> = await model.save(messages);\n"
        "const { tokens, messages: said } = await model.restore(saved);\n"
        "const [count, last]: [number, Message | undefined] = [tokens, said?.at(-1)];\n"
        "await model.restore(await new Response(saved).arrayBuffer());\n"
        "// @ts-expect-error\nawait model.restore('saved');\n"
        "// @ts-expect-error\nawait model.complete(5);\n"
    )
    settings = {"compilerOptions": {**OPTIONS, "types": []}, "include": ["app.mts"]}
    (folder / "tsconfig.json").write_text(json.dumps(settings))
    assert check(folder) == []


@pytest.mark.slow
@pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")
def test_the_page(package: Path, session: Session) -> None:
    expected = session.generate([{"role": "user", "content": "abc"}], max_tokens=6).read()
    with served(partial(FolderHandler, directory=str(package))) as address, chromium() as page:
        page.open(f"{address}/demo.html")
        page.wait("!document.getElementById('text').disabled")
        page.evaluate("document.getElementById('maxTokens').value = 6")
        page.evaluate(
            "const text = document.getElementById('text'); text.value = 'abc';"
            "text.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true }))"
        )
        page.wait("document.querySelectorAll('#talk .tools').length === 1")
        texts = page.evaluate("[...document.querySelectorAll('#talk > li')].map((item) => item.textContent)")
        assert texts[0] == "abc"
        assert texts[1].replace("CopyRetry", "") == "".join(expected.split())
        assert page.evaluate("document.getElementById('error').textContent") == ""
        assert page.evaluate("document.getElementById('context').value > 0")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.reload()
        page.wait("!document.getElementById('text').disabled")
        again = page.evaluate("[...document.querySelectorAll('#talk > li')].map((item) => item.textContent)")
        assert again == texts
