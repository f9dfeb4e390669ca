"""Commands for language models."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import deploykit

DEPLOYKIT = [sys.executable, "-m", "deploykit"]


def ran(*arguments: object, text: str = "", status: int = 0) -> str:
    call = [*DEPLOYKIT, *map(str, arguments)]
    found = subprocess.run(call, input=text, capture_output=True, text=True, timeout=120, check=False)
    assert found.returncode == status, found.stderr
    return found.stdout if status == 0 else found.stderr


def expected(artifact: Path, *texts: str, **settings: object) -> list[str]:
    with deploykit.open(artifact) as session:
        chat = session.chat(**settings)  # type: ignore[arg-type]
        return [chat.ask(text) for text in texts]


def test_from_a_pipe(artifact: Path) -> None:
    answers = expected(artifact, "abc", "d", max_tokens=3)
    lines = ran("chat", artifact, "--max-tokens", 3, text="abc\n\nd\n").splitlines()
    assert lines == [" ".join(answer.split()) for answer in answers]
    written = ran("chat", artifact, "--max-tokens", 3, "--json", text="abc\nd\n").splitlines()
    assert [json.loads(line)["text"] for line in written] == answers
    assert ran("try", artifact, text="a\n").split() == expected(artifact, "a")[0].split()


def test_settings(artifact: Path) -> None:
    options = ("--temperature", 0.9, "--top-p", 0.9, "--seed", 5, "--system", "q", "--max-tokens", 5)
    found = ran("chat", artifact, *options, "--json", text="abc\n")
    settings = {"temperature": 0.9, "top_p": 0.9, "seed": 5, "max_tokens": 5, "system": "q"}
    assert json.loads(found)["text"] == expected(artifact, "abc", **settings)[0]
    assert "--temperature takes a number; found 'warm'" in ran("chat", artifact, "--temperature", "warm", status=2)
    assert "64 bits" in ran("chat", artifact, "--seed", 1 << 64, text="a\n", status=2)
    assert "temperature is nan" in ran("chat", artifact, "--temperature", "nan", text="a\n", status=2)
    assert "top_p is 3.0" in ran("chat", artifact, "--top-p", 3, text="a\n", status=2)


def test_a_full_context(artifact: Path) -> None:
    found = json.loads(ran("chat", artifact, "--max-tokens", 50, "--overflow", "window", "--json", text="abc\n"))
    assert found["text"] == expected(artifact, "abc", max_tokens=50, overflow="window")[0]
    assert len(found["text"]) > 40


def test_a_prompt(artifact: Path) -> None:
    with deploykit.open(artifact) as session:
        answer = session.generate([{"role": "user", "content": "abc"}]).read()
    assert ran("run", artifact, "--prompt", "abc") == answer + "\n"
    assert json.loads(ran("run", artifact, "--prompt", "abc", "--json"))["text"] == answer


def test_speeds(artifact: Path) -> None:
    found = json.loads(ran("bench", artifact, "--seconds", 0.2, "--json"))
    assert [speed["what"] for speed in found["speeds"]] == ["answer of 20 tokens behind 0"]
    assert found["speeds"][0]["rate"] > 0
    assert found["memory"]["states"] > 0
    assert "is timed by tokens" in ran("bench", artifact, "--profile", status=2)


def at_a_terminal(artifact: Path, *lines: str, options: tuple[str, ...] = ()) -> str:
    """What a terminal shows; `^C` stands for Ctrl-C."""
    parent, child = pty.openpty()
    call = [*DEPLOYKIT, "chat", str(artifact), *options]
    process = subprocess.Popen(call, stdin=child, stdout=child, stderr=child, start_new_session=True)
    os.close(child)
    shown = b""

    def prompted() -> None:
        """Wait until there is a prompt, and nothing follows it."""
        nonlocal shown
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if select.select([parent], [], [], 0.5)[0]:
                shown += os.read(parent, 1 << 12)
            elif shown.endswith(b"> "):
                return
        pytest.fail(f"no prompt within a minute: {shown.decode()}")

    try:
        prompted()
        for line in lines:
            if line == "^C":
                process.send_signal(signal.SIGINT)
            else:
                os.write(parent, line.encode() + b"\n")
            prompted()
        os.write(parent, b"\x04")
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(parent)
    return shown.decode()


def test_at_a_terminal(artifact: Path, tmp_path: Path) -> None:
    (answer,) = expected(artifact, "abc")
    saved = tmp_path / "talk.json"
    commands = ("/stats", f"/save {saved}", "/what", "/reset", f"/load {saved}", "/system s", "/help")
    lines = ("abc", *commands, "^C", "/reset")
    shown = at_a_terminal(artifact, *lines)
    assert answer.split("\n")[0] in shown
    assert "tokens in" in shown
    assert "there is no /what" in shown
    assert "begins and ends a message of several lines" in shown
    assert json.loads(saved.read_text()) == [
        {"role": "user", "content": "abc"},
        {"role": "assistant", "content": answer},
    ]


def test_a_conversation_goes_on(artifact: Path, tmp_path: Path) -> None:
    """Saved at a terminal, with what the model remembers, or as messages alone; restored from a pipe."""
    _, answer = expected(artifact, "abc", "d", max_tokens=3)
    memory, plain = tmp_path / "talk.chat", tmp_path / "talk.json"
    short = ("--max-tokens", "3")
    at_a_terminal(artifact, "abc", f"/save {memory}", f"/save {plain}", options=short)
    for file, again in ((memory, False), (plain, True)):
        found = json.loads(ran("chat", artifact, *short, "--restore", file, "--json", text="d\n"))
        assert found["text"] == answer
        assert (found["prompt_tokens"] > len("A:abc") + len("Q:d A:")) == again
    assert answer.split("\n")[0] in at_a_terminal(artifact, f"/load {memory}", "d", options=short)
    memory.write_bytes(memory.read_bytes()[:-1])
    assert f"{memory}: this is no saved" in ran("chat", artifact, "--restore", memory, text="d\n", status=2)
    assert "cannot be read" in ran("chat", artifact, "--restore", tmp_path / "no", text="d\n", status=2)
    assert "leave out --system" in ran("chat", artifact, "--restore", plain, "--system", "s", text="d\n", status=2)
