"""`deploykit try`: a prompt for texts, read by a terminal and by a pipe, and a page that a browser uses."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import deploykit as dk
from bench.browser import find_chromium
from tests.apps.devtools import Page, chromium
from tests.frontends.huggingface.test_sentences import folder_of as sentences_of
from tests.frontends.huggingface.test_texts import folder_of, tokenizer
from tests.frontends.running_mean import running_mean, weights

TRY = [sys.executable, "-m", "deploykit", "try"]
LABELS = {"id2label": {"0": "bad", "1": "good"}}


def built(place: Path, kind: str, target: str = "host") -> Path:
    """An artifact of a tiny model that embeds texts, gives classes to them or their tokens, answers questions, or fills
    masks."""
    if kind == "embed":
        folder = sentences_of(place / "model", ("Pooling", {"pooling_mode": "mean"}), ("Normalize", {}))
        tokenizer().save(str(folder / "tokenizer.json"))
    else:
        folder = folder_of(place / "model", f"bert-{kind}", **({} if kind in ("answers", "words") else LABELS))
    dk.build(folder, target, output=place / "dist")
    return place / "dist"


def piped(folder: Path, text: bytes, *options: str) -> list[str]:
    done = subprocess.run([*TRY, folder, *options], input=text, capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""
    return done.stdout.decode().splitlines()


@pytest.mark.slow
def test_a_pipe_gives_a_line_for_each_line(tmp_path: Path) -> None:
    folder = built(tmp_path, "classes")
    texts = ["the cat sat", "", "who sat on \xff?"]
    lines = piped(folder, "\n".join(texts).encode("latin-1"))
    documents = [json.loads(line) for line in piped(folder, "\n".join(texts).encode("latin-1"), "--json")]
    with dk.open(folder) as session:
        expected = session.classify([text.replace("\xff", "\ufffd") for text in texts])
    assert lines == [f"{labels[0].score:.3f}\t{labels[0].name}" for labels in expected]
    for document, labels in zip(documents, expected, strict=True):
        assert [each["name"] for each in document] == [label.name for label in labels]
        assert [each["score"] for each in document] == pytest.approx([label.score for label in labels], abs=1e-5)


@pytest.mark.slow
def test_texts_are_compared_with_those_before(tmp_path: Path) -> None:
    folder = built(tmp_path, "embed")
    first, second, third = piped(folder, b"the cat sat\nwho?\nthe cat sat\n")
    assert first == "-\t(the first text)"
    assert second.endswith("\tthe cat sat")
    assert third == "1.000\tthe cat sat"


@pytest.mark.slow
def test_classes_of_tokens_answers_and_masks(tmp_path: Path) -> None:
    (line,) = piped(built(tmp_path / "tokens", "tokens"), b"the cat\n")
    assert [part.partition("/")[0] for part in line.split()] == ["the", "cat"]
    folder = built(tmp_path / "answers", "answers")
    (line,) = piped(folder, b"the cat sat on a mat\nwho sat?\n")
    with dk.open(folder) as session:
        span = session.answer("who sat?", "the cat sat on a mat")
    assert line == f"{span.score:.3f}\t{span.text}"
    assert piped(folder, b"") == []
    folder = built(tmp_path / "words", "words")
    (line,) = piped(folder, b"the [MASK] [MASK]\n")
    with dk.open(folder) as session:
        assert line == "\t".join(
            f"{labels[0].score:.3f} {labels[0].name}" for labels in session.fill("the [MASK] [MASK]")
        )


@pytest.mark.slow
@pytest.mark.parametrize("shown", [True, False])
def test_a_terminal_has_a_prompt(tmp_path: Path, shown: bool) -> None:
    folder = built(tmp_path, "answers")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*TRY, folder], stdin=theirs, stdout=theirs if shown else subprocess.PIPE, stderr=subprocess.PIPE
    )
    os.close(theirs)
    terminal = b""
    for line in (b"the cat sat on a mat\n", b"\n", b"the cat " * 300 + b"\n", b"who sat?\n", b"\x04"):
        while shown and not terminal.endswith(b"> "):  # until then, readline does not read
            terminal += os.read(ours, 1 << 16)
        terminal += b"\n"
        os.write(ours, line)
    with contextlib.suppress(OSError):  # the end of a terminal
        while part := os.read(ours, 1 << 16):
            terminal += part
    out, err = process.communicate(timeout=120)
    os.close(ours)
    assert process.returncode == 0
    assert err.decode().startswith("Write the text that your questions are about")
    assert err.decode().count("error: the text that is to be cut is too short") == 1
    with dk.open(folder) as session:
        span = session.answer("who sat?", "the cat sat on a mat")
    answer = f"{span.score:.3f}\t{span.text}"
    assert (answer in terminal.decode()) == shown
    assert (b"> " in terminal) == shown
    assert shown or out.decode().splitlines() == [answer]


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[str]:
    """`try` of a folder: the address that it prints. Ctrl-C must end it well."""
    call = [*TRY, folder, "--no-browser", *options]
    process = subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30) == ("", "Ctrl-C ends it.\nended\n")
        assert process.returncode == 0
    finally:
        process.kill()
        process.wait()


def use(page: Page, field: str, text: str) -> str:
    """The answer to a text, written into a field of the page."""
    page.evaluate("state.textContent = ''")
    page.evaluate(f"{field}.value = {json.dumps(text)}, {field}.dispatchEvent(new Event('input', {{ bubbles: true }}))")
    page.wait("state.textContent.startsWith('Answered in')")
    found: str = page.evaluate("answer.innerText")
    assert page.errors() == []
    return found


@pytest.mark.slow
@pytest.mark.skipif(find_chromium() is None or shutil.which("node") is None, reason="needs Chromium and node")
@pytest.mark.parametrize("kind", ["embed", "classes", "tokens", "answers", "words"])
def test_a_page_answers(tmp_path: Path, kind: str) -> None:
    folder = built(tmp_path, kind, "webgpu")
    with serving(folder) as address, chromium() as page, dk.open(folder) as session:
        page.resize(400, 800)
        page.open(address)
        page.wait("state.textContent.startsWith('Answered in')")
        assert page.evaluate("crossOriginIsolated")
        text = "the cat sat on a mat"
        if kind == "embed":
            a, b = session.embed([text, "who?"])
            page.evaluate("second.value = 'who?'")
            assert use(page, "first", text).split() == ["who?", f"{a @ b:.3f}"]
        elif kind == "classes":
            expected = [part for label in session.classify(text) for part in (label.name, f"{label.score:.3f}")]
            assert use(page, "first", text).split() == expected
        elif kind == "words":
            (labels,) = session.fill("the [MASK] sat", 10)
            expected = [part for label in labels for part in (label.name, f"{label.score:.3f}") if part]
            assert use(page, "first", "the [MASK] sat").split() == expected
            page.evaluate("first.value = 'the cat', first.dispatchEvent(new Event('input', { bubbles: true }))")
            page.wait("error.textContent.startsWith('DataError: the text has no [MASK],')")
        elif kind == "tokens":
            expected = [part for span in session.tokens(text) for part in (span.text + span.label, f"{span.score:.2f}")]
            assert use(page, "first", text).split() == expected
        else:
            span = session.answer("who sat?", text)
            page.evaluate(f"second.value = {json.dumps(text)}")
            assert use(page, "first", "who sat?").split("\t") == [span.text, f"{span.score:.3f}"]
            assert page.evaluate("context.querySelector('mark').innerText") == span.text
        assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_a_model_without_texts_has_its_page(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "dist"
    dk.build(model, "webgpu", output=folder)
    with serving(folder) as address, urllib.request.urlopen(address) as answer:
        assert answer.headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert answer.read() == (folder / "demo.html").read_bytes()
    with serving(folder) as address:
        port = address.rpartition(":")[2].partition("/")[0]
        taken = subprocess.run([*TRY, folder, "--port", port], capture_output=True, text=True, check=False, timeout=60)
    assert taken.returncode == 2
    assert f"port {port} cannot be used (Address already in use): choose another with --port" in taken.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "takes tensors, not texts, pictures or sound: run it with `deploykit run"),
        (["--port", "8000"], "has no page, so --port has no meaning"),
    ],
)
def test_what_cannot_be_tried(deploykit, artifact: Path, options: list[str], message: str) -> None:
    result = deploykit("try", artifact, *options)
    assert result.code == 2
    assert message in result.err


def test_a_page_that_is_not_there(deploykit, tmp_path: Path) -> None:
    dk.build(running_mean(weights()), "webgpu", output=tmp_path / "dist")
    result = deploykit("try", tmp_path / "dist")
    assert result.code == 2
    assert "has no page to try" in result.err
    result = deploykit("try", tmp_path / "dist", "--device", "wasm")
    assert result.code == 2
    assert "leave out --device and --threads" in result.err
