"""What models in pages and in node save, and take back: from themselves, from workers, from a GPU, and from Python."""

from __future__ import annotations

import base64
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import deploykit
from bench.browser import FolderHandler, find_chromium, served
from deploykit.frontends import memory
from deploykit.sessions.session import Session
from tests.apps.devtools import chromium
from tests.language.carrying import CARRYING, write_carrying_model
from tests.language.models import write_language_model
from tests.web.test_ragged import evaluated, in_node
from tests.web.test_remote import both
from tests.web.tools import run

OPTIONS = "{ maxTokens: 6, ignoreEnd: true }"
DECODED = "Uint8Array.from(atob('%s'), (letter) => letter.charCodeAt(0))"
ENCODED = "btoa(Array.from(%s, (byte) => String.fromCharCode(byte)).join(''))"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("saved")
    deploykit.build(write_language_model(place / "model.gguf"), "webgpu", output=place / "web")
    return place / "web"


@pytest.fixture(scope="module")
def saved(package: Path) -> bytes:
    script = f"model.complete('hello', {OPTIONS}).then(() => model.save()).then((saved) => {ENCODED % 'saved'})"
    return base64.b64decode(evaluated(package, script))


GOES_ON = f"""
  const options = {OPTIONS};
  const talk = [{{ role: 'user', content: 'abc' }}];
  const first = await model.complete(talk, options);
  talk.push({{ role: 'assistant', content: first.text }});
  const saved = await model.save(talk);
  talk.push({{ role: 'user', content: 'd' }});
  const second = await model.complete(talk, options);
  await model.reset();
  await model.complete('b'.repeat(33), {{ maxTokens: 1 }}); // takes the first pages
  const restored = await model.restore(saved.slice());
  const again = await model.complete(talk, options);
  const unread = again.timings.promptTokens;
  return {{ first: first.text, second: second.tokens, restored, again: again.tokens, unread }};
"""


def goes_on(found: Any) -> None:
    assert found["again"] == found["second"]
    assert found["unread"] <= len("\nQ:d\nA:") + 2
    said = [{"role": "user", "content": "abc"}, {"role": "assistant", "content": found["first"]}]
    assert found["restored"]["messages"] == said


def test_a_conversation_goes_on(package: Path) -> None:
    """Also in a worker."""
    used = f"const model = await load(); const used = async () => {{ {GOES_ON} }};"
    goes_on(both(package, f"{used} const found = await used(); model.dispose(); return found;"))


def test_what_was_saved_moves(package: Path) -> None:
    """To and from a worker, without a copy; an array that has a part of a buffer stays."""
    program = f"""
      import {{ load }} from '{package.as_uri()}/index.mjs';
      const model = await load({{ worker: true }});
      await model.complete('hello', {OPTIONS});
      const saved = await model.save();
      const part = new Uint8Array(saved.length + 1).subarray(1);
      part.set(saved);
      await model.restore(part);
      await model.restore(saved);
      const rejected = await model.restore('saved').catch(({{ name }}) => name);
      model.dispose();
      console.log(JSON.stringify([saved.length, part.length > 0, rejected]));
    """
    result = run("node", "--input-type=module", "-e", program, folder=package)
    assert json.loads(result.stdout) == [0, True, "UsageError"], result.stderr


@pytest.mark.parametrize("length", [1, 31, 32, 33, 39])
def test_texts_of_any_length(package: Path, length: int) -> None:
    """In any number of pages, where others are full, and where others have to go for them."""
    script = f"""await (async () => {{
      const text = 'ab'.repeat(20).slice(0, {length});
      const options = {{ maxTokens: 1, ignoreEnd: true }};
      const answer = async () => (await model.complete(text, options)).tokens;
      const expected = await answer();
      const saved = await model.save();
      await model.reset({{ pages: 5 }});
      for (const other of ['c', 'd', 'e', 'f']) await model.complete(other.repeat(9), options);
      const {{ tokens, messages }} = await model.restore(saved);
      const {{ timings }} = await model.complete(text, options);
      return [expected, await answer(), tokens, messages, timings.promptTokens];
    }})()"""
    expected, found, tokens, messages, unread = evaluated(package, script)
    assert (found, tokens, messages, unread) == (expected, length, None, 1)


def test_from_python_and_back(package: Path, session: Session, tmp_path: Path) -> None:
    """The model is the same one, built for another target."""
    chat = session.chat(max_tokens=3, ignore_end=True)
    chat.ask("abc")
    chat.save(tmp_path / "talk")
    messages = [*chat.messages, {"role": "user", "content": "d"}]
    expected = chat.ask("d")
    talk = base64.b64encode((tmp_path / "talk").read_bytes()).decode()
    script = f"""await (async () => {{
      const {{ messages }} = await model.restore({DECODED % talk});
      messages.push({{ role: 'user', content: 'd' }});
      const {{ text, timings }} = await model.complete(messages, {{ maxTokens: 3, ignoreEnd: true }});
      messages.push({{ role: 'assistant', content: text }});
      const saved = await model.save(messages);
      return [messages, timings.promptTokens, {ENCODED % "saved"}];
    }})()"""
    found, unread, saved = evaluated(package, script)
    assert found == [*messages, {"role": "assistant", "content": expected}]
    assert unread <= len("\nQ:d\nA:") + 2
    (tmp_path / "back").write_bytes(base64.b64decode(saved))
    going = session.chat(restore=tmp_path / "back", max_tokens=3, ignore_end=True)
    assert going.messages == found
    assert going.ask("e") == chat.ask("e")
    assert going.answer.timings.prompt_tokens <= len("\nQ:e\nA:") + 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mistral", *CARRYING])
def test_windows_and_states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Pages that a window gave back are not saved; a state goes on behind the last token."""
    monkeypatch.setattr(memory, "CARRIED_PAGE", 4)
    model = write_carrying_model(tmp_path / "model", name)
    deploykit.build(model, dims={"context": 40}, output=tmp_path / "host")
    deploykit.build(model, "webgpu", {"context": 40}, tmp_path / "web")
    text = "abcdefgh" * 4 + "i"
    with deploykit.open(tmp_path / "host") as session:
        begun = text + session.generate(text, max_tokens=3, ignore_end=True).read()
        expected = session.generate(f"{begun}x", max_tokens=3, ignore_end=True).read()
        sequence = session.language.begin(session.language.tokenizer.encode(begun).ids)
        session.language.scores(sequence)
        saved = base64.b64encode(session.language.save(sequence)).decode()
    script = f"""await (async () => {{
      const options = {{ maxTokens: 3, ignoreEnd: true }};
      const begun = '{text}' + (await model.complete('{text}', options)).text;
      const found = [];
      for (const saved of [await model.save(), {DECODED % saved}]) {{
        await model.reset();
        await model.restore(saved);
        const {{ text, timings }} = await model.complete(`${{begun}}x`, options);
        found.push(text, timings.promptTokens);
      }}
      return found;
    }})()"""
    assert evaluated(tmp_path / "web", script) == [expected, 2, expected, 1]


REFUSED = {
    "nothing": ("model.restore(new Uint8Array())", "DataError", "no saved text"),
    "garbage": ("model.restore(new Uint8Array(5000).fill(7))", "DataError", "no saved text"),
    "cut": ("model.restore(saved.slice(0, -1))", "DataError", "cut off or altered"),
    "altered": ("(saved[saved.length >> 1] ^= 1, model.restore(saved))", "DataError", "cut off or altered"),
    "words": ("model.restore('saved')", "UsageError", "takes the bytes that save gave"),
    "none": ("model.save()", "UsageError", "let it write an answer first"),
    "forgotten": (
        f"(await model.complete('a', {OPTIONS}), await model.reset(), model.save())",
        *("UsageError", "let it write an answer first"),
    ),
    "going on": (
        f"(await model.generate('a', {OPTIONS}).next(), model.save())",
        *("UsageError", "is being written: end it first"),
    ),
    "full": (
        (
            "(await model.complete('b'.repeat(38)), saved = await model.save(), await model.reset({ pages: 1 }), "
            "model.restore(saved))"
        ),
        *("MemoryError", "the memory for 32 tokens is full"),
    ),
    "disposed": (
        f"(await model.complete('a', {OPTIONS}), model.dispose(), model.save())",
        *("UsageError", "is disposed of"),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(package: Path, saved: bytes, case: str) -> None:
    """By an error of a class; what the model remembers stays."""
    call, error, message = REFUSED[case]
    given = DECODED % base64.b64encode(saved).decode()
    found = in_node(package, f"await (async () => {{ let saved = {given}; return await {call}; }})()")
    assert (found.get("error"), found.get("known")) == (error, True), found
    assert message in found["message"]


def test_bytes_of_another_model(saved: bytes, tmp_path: Path) -> None:
    """They are refused, and what the model remembers stays."""
    write_language_model(tmp_path / "other.gguf", name="qwen2")
    deploykit.build(tmp_path / "other.gguf", "webgpu", output=tmp_path / "web")
    script = f"""await (async () => {{
      await model.complete('hello', {OPTIONS});
      const given = {DECODED % base64.b64encode(saved).decode()};
      const error = await model.restore(given).catch((error) => error);
      const {{ timings }} = await model.complete('hello', {OPTIONS});
      return [error.name, error.message, timings.promptTokens];
    }})()"""
    name, message, unread = evaluated(tmp_path / "web", script)
    assert (name, unread) == ("UsageError", 1)
    assert "another build of a model" in message


@pytest.mark.slow
@pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")
def test_on_a_gpu(package: Path, session: Session) -> None:
    """Pages come from the GPU and go there. What was saved there goes on in Python."""
    bytes_too = "return { saved: " + ENCODED % "saved" + ","
    used = "async () => {" + GOES_ON.replace("return {", bytes_too) + "}"
    with served(partial(FolderHandler, directory=str(package))) as address, chromium("--enable-unsafe-webgpu") as page:
        page.open(f"{address}/demo.html")
        script = f"""(async () => {{
          const {{ load }} = await import('{address}/index.mjs');
          const model = await load({{ device: 'webgpu' }});
          return JSON.stringify([model.device, await ({used})()]);
        }})()"""
        device, found = json.loads(page.evaluate(script))
    assert device == "webgpu"
    goes_on(found)
    restored = session.language.restore(base64.b64decode(found["saved"]))
    assert session.language.remembered(restored) == len(restored.tokens) - 1
    expected = session.logits(restored.tokens)[-1]
    assert abs(session.language.scores(restored) - expected).max() < 1e-3
    session.language.end(restored)
