"""Models that carry a state from token to token: it is that of the text, whatever was read, cut and shared before."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import deploykit
from deploykit.errors import UsageError
from deploykit.frontends import memory
from deploykit.frontends.huggingface.generation import import_step
from deploykit.frontends.huggingface.importer import load_folder
from deploykit.sessions.language.engine import Sequence
from deploykit.sessions.session import Session
from tests.frontends.huggingface.seeds import write_folder
from tests.frontends.huggingface.test_families import golden
from tests.language.carrying import CARRYING, WORDS, write_carrying_model
from tests.language.steps import Steps
from tests.language.test_cli import ran
from tests.language.test_steps import check
from tests.runtimes import Runtime
from tests.web.test_ragged import evaluated

SIZE = 4
"""Tokens of a page of Mamba, so that short texts have many."""


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "CARRIED_PAGE", SIZE)


@pytest.fixture(scope="module", params=CARRYING)
def folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "CARRIED_PAGE", SIZE)
        place = tmp_path_factory.mktemp(request.param)
        model = write_carrying_model(place / "model", request.param)
        deploykit.build(model, dims={"context": 100}, output=place / "dist")
        deploykit.build(load_folder(model), output=place / "whole")
        yield place


@pytest.fixture
def session(folder: Path) -> Iterator[Session]:
    with deploykit.open(folder / "dist") as opened:
        yield opened


def texts(count: int, seed: int) -> list[int]:
    return [int(token) for token in np.random.default_rng(seed).integers(0, len(WORDS), count)]


def scores(session: Session, sequence: Sequence) -> np.ndarray:
    while sequence.scores is None:
        assert session.language.step()
    return sequence.scores


def expected(folder: Path, tokens: list[int]) -> np.ndarray:
    """The scores after each token, of the model for whole texts, which remembers nothing."""
    with deploykit.open(folder / "whole") as whole:
        ids = np.asarray([tokens], np.int64)
        return whole(input_ids=ids, attention_mask=np.ones_like(ids))["logits"][0]


def same(found: np.ndarray, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4 * max(1.0, float(np.abs(wanted).max())))


@pytest.mark.parametrize("name", ["mamba", "falcon-mamba"])
@pytest.mark.slow
@pytest.mark.usefixtures("small_pages")
def test_many_pages(tmp_path: Path, name: str, runtime: Runtime) -> None:
    """Texts of several pages, several of them in a step, as transformers reads them."""
    stored = golden(name)
    write_folder(tmp_path / "model", stored.config, stored.shapes)
    found = import_step(tmp_path / "model", {"pages": (1, 16), "context": 20})
    with runtime.session(found.model) as session:
        session.reset({"pages": 15})
        check(stored, Steps(session.run, 15, blocks=5, size=SIZE), 4)


def test_any_history(folder: Path, session: Session) -> None:
    """Sequences that grow, fork, and get other texts, whose pages others use again."""
    language, random = session.language, np.random.default_rng(7)
    session.reset({"pages": 80})
    assert language.task.whole
    going = [language.begin(texts(9, 0))]
    for number in range(40):
        sequence = going[int(random.integers(len(going)))]
        action = random.integers(5)
        if action == 0 and len(going) < 3:
            going.append(language.fork(sequence))
        elif action == 1 and len(going) > 1:
            language.end(sequence)
            going.remove(sequence)
        elif action == 2:
            kept = sequence.tokens[: int(random.integers(1, len(sequence.tokens) + 1))]
            language.replace(sequence, [*kept, *texts(int(random.integers(0, 9)), number)][:90])
        elif len(sequence.tokens) < 90:
            scores(session, sequence)
            language.follow(sequence, int(random.integers(len(WORDS))))
        language.at_once = int(random.integers(1, 12))
        if random.integers(2):
            language.step()
    for sequence in going:
        same(scores(session, sequence), expected(folder, sequence.tokens)[-1])
    for sequence in going:
        language.end(sequence)
    assert language.pages.unused == 80


def test_scores_of_long_texts(folder: Path, session: Session) -> None:
    tokens = texts(97, 3)
    session.language.at_once = 41
    same(session.logits(tokens), expected(folder, tokens))


def test_a_step_that_fails(folder: Path, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have changed the state, as when an interrupt follows it: its tokens are not added to that twice."""
    language = session.language
    sequence = language.begin(texts(43, 5))
    language.at_once = 39
    language.step()
    run = language._run

    def interrupted(inputs: object) -> object:
        run(inputs)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(language, "_run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            language.step()
    assert language.remembered(sequence) in (32, 36)
    same(scores(session, sequence), expected(folder, sequence.tokens)[-1])


def test_a_conversation_reads_nothing_twice(session: Session, tmp_path: Path) -> None:
    chat = session.chat(max_tokens=6, ignore_end=True)
    chat.ask("abc")
    chat.save(tmp_path / "talk")
    answers = []
    for again in (chat, session.chat(restore=tmp_path / "talk", max_tokens=6, ignore_end=True)):
        before = again.used
        answers.append(again.ask("de"))
        assert again.answer.timings.prompt_tokens <= again.used - before + 1
    assert answers[0] == answers[1]


def test_no_guesses(session: Session) -> None:
    for draft in ("ngram", session):
        with pytest.raises(UsageError, match="cannot go back one token: it writes slower with guesses"):
            session.generate("abc", draft=draft)


def test_at_a_terminal(folder: Path, session: Session) -> None:
    chat = session.chat(max_tokens=5)
    answers = [chat.ask(text) for text in ("abc", "de")]
    written = ran("chat", folder / "dist", "--max-tokens", 5, "--json", text="abc\nde\n").splitlines()
    assert [json.loads(line)["text"] for line in written] == answers
    error = ran("chat", folder / "dist", "--draft", folder / "dist", text="abc\n", status=2)
    assert "cannot go back one token" in error


PROMPTS = ("abc", "abc", "abcdefghij" * 4, "abcdefghijkl", "q" * 70, "q" * 70 + "abc")
"""Asked one after the other: what they have in common is remembered as far as whole pages go."""

PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "model_messages.h"
#include "tokenizer.h"
#include "weights.h"

static model_session session;

int main(int argc, char** argv) {
    const dk_language_room room = {100, 7, 200};
    dk_answering asked = {0};
    model_open(&session, &model_weights, MODEL_WEIGHTS_BYTES, &model_tokenizer, MODEL_TOKENIZER_BYTES);
    size_t bytes = model_workspace_bytes(&session, &room);
    char* workspace = aligned_alloc(64, bytes);
    if (model_set_workspace(&session, &room, workspace, bytes) != DK_OK) return 1;
    asked.sampling = dk_sampling_greedy();
    asked.most = 40;
    asked.ignore_end = true;
    asked.slides = true;
    asked.sinks = 4;
    for (int i = 1; i < argc; ++i) {
        dk_piece piece = {0};
        if (model_complete(&session, argv[i], strlen(argv[i]), &asked) != DK_OK) return 1;
        while (!piece.last) {
            if (model_next(&session, &piece) != DK_OK) return 1;
            fwrite(piece.text, 1, piece.bytes, stdout);
        }
        putchar(0);
    }
    free(workspace);
    return 0;
}
"""


@pytest.fixture
def answers(session: Session) -> list[str]:
    given = {"max_tokens": 40, "ignore_end": True, "overflow": "window"}
    return [session.generate(prompt, **given).read() for prompt in PROMPTS]


@pytest.mark.slow
@pytest.mark.usefixtures("small_pages")
def test_in_c(folder: Path, tmp_path: Path, answers: list[str]) -> None:
    deploykit.build(folder / "model", "embedded", {"context": 100, "pages": (1, 25)}, tmp_path / "c")
    (tmp_path / "c" / "main.c").write_text(PROGRAM)
    flags = "-std=c11 -Wall -Wextra -Werror -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all"
    sources = sorted(path.name for path in (tmp_path / "c").glob("*.c"))
    subprocess.run(["clang", *flags.split(), *sources, "-lm", "-o", "app"], cwd=tmp_path / "c", check=True, timeout=200)
    call = subprocess.run([tmp_path / "c" / "app", *PROMPTS], capture_output=True, timeout=60, check=False)
    assert call.returncode == 0, call.stderr.decode()
    assert call.stdout.decode().split("\0")[:-1] == answers


@pytest.mark.slow
@pytest.mark.usefixtures("small_pages")
def test_in_node(folder: Path, tmp_path: Path, answers: list[str]) -> None:
    """Also where an answer is stopped while its step waits for that of another one."""
    deploykit.build(folder / "model", "webgpu", {"context": 100}, tmp_path / "web")
    script = f"""await (async () => {{
      const found = [];
      const options = {{ maxTokens: 40, ignoreEnd: true, overflow: 'window' }};
      for (const prompt of {json.dumps(PROMPTS)}) {{
        const stopping = new AbortController();
        const onPiece = () => stopping.abort();
        const answer = model.complete(prompt, {{ ...options, onPiece }});
        await model.complete(prompt, {{ ...options, signal: stopping.signal }}).catch(() => {{}});
        found.push((await answer).text);
      }}
      return found;
    }})()"""
    assert evaluated(tmp_path / "web", script) == answers
