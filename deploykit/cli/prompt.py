"""Texts or paths of files in, answers out, line by line: at a terminal with a prompt, from a pipe without one.

Each line gives one line, of columns with a tab between them: the score and the class; of a model that embeds, the
likeness of the closest line before it and that line; of one that answers questions, the score and the answer. A model
that gives each token a class writes `token/class`, one that fills masks a column with a score and a token for each
mask. A detector gives a column for each object, its score, class and box, and a segmentation one for each class, its
share and name. With JSON, each line is a JSON document with all of the answer.
"""

from __future__ import annotations

import io
import json
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import typer

from deploykit.cli.console import bad, messages
from deploykit.errors import DeploykitError

if TYPE_CHECKING:
    import numpy as np

    from deploykit.sessions.session import Session

Answer: TypeAlias = "Callable[[str], tuple[str, Any]]"
"""What a line gives: the columns, and the value for JSON."""


def prompt(session: Session, *, json_output: bool) -> None:
    """Answer the lines of the standard input until it ends.

    At a terminal, an error is shown and the next line may be better; otherwise it is raised."""
    by_hand = sys.stdin.isatty()
    lines = _lines(by_hand)
    answer = _answering(session, lines, by_hand)
    for line in lines:
        try:
            columns, value = answer(line)
        except DeploykitError as error:
            if not by_hand:
                raise
            messages.print(bad("error:"), str(error))
            continue
        typer.echo(json.dumps(value) if json_output else columns)
        sys.stdout.flush()


def _lines(by_hand: bool) -> Iterator[str]:
    """The lines of the standard input; those that are empty are left out at a terminal."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    if not by_hand:
        yield from (line.rstrip("\r\n") for line in sys.stdin)
        return
    import readline  # noqa: F401  lets `input` edit its line

    sign = "> " if sys.stdout.isatty() else ""  # it would be part of the output
    while True:
        try:
            line = input(sign)
        except EOFError:
            messages.print()
            return
        if line.strip():
            yield line


def _answering(session: Session, lines: Iterator[str], by_hand: bool) -> Answer:
    """What the model does with a line. May take lines itself."""

    def explain(what: str) -> None:
        if by_hand:
            messages.print(f"{what} Ctrl-D ends.")

    task = session.manifest.task
    assert task is not None
    if task.takes == "pairs":
        explain(
            "Write the texts that may fit, in one line with ; between them, then the path of a picture on each line."
        )
        texts = [text.strip() for text in next(lines, "").split(";")]
        return lambda line: _label(session.match(_path(line) if by_hand else line, texts))
    if task.takes != "texts":
        explain(f"Write the path of a file with {task.takes}.")
        answer = _of_files(session, task.kind)
        return lambda line: answer(_path(line) if by_hand else line)
    kind = task.kind
    if kind == "embed":
        explain("Write texts. Each is compared with those before it.")
        return _Closest(session, "text")
    if kind == "answer":
        explain("Write the text that your questions are about, in one line, then a question on each line.")
        context = next(lines, "")
        return lambda line: _span(session.answer(line, context))
    if kind == "tokens":
        explain("Write a text.")
        return lambda line: _tokens(session.tokens(line))
    if kind == "fill":
        explain(f"Write a text with {session.texts.task.mask} for what is to be filled in.")
        return lambda line: _masks(session.fill(line))
    explain("Write a text.")
    return lambda line: _label(session.classify(line))


def _of_files(session: Session, kind: str) -> Answer:
    """What a model of pictures or sound does with the path of a file."""
    if kind == "embed":
        return _Closest(session, "file")
    if kind == "detect":
        return lambda path: _objects(session.detect(path))
    if kind == "segment":
        return lambda path: _shares(session.segment(path).shares)
    if kind == "transcribe":
        return lambda path: _transcript(session.transcribe(path))
    return lambda path: _label(session.classify(path))


def _path(line: str) -> str:
    """A path as one types it, or as a terminal writes a file that is dropped on it: with quotes or backslashes."""
    line = line.strip()
    try:
        parts = shlex.split(line)
    except ValueError:
        parts = []
    path = line if Path(line).exists() or len(parts) != 1 else parts[0]
    return str(Path(path).expanduser())


class _Closest:
    """Compares a text, or the file at a path, with those before it."""

    def __init__(self, session: Session, name: str) -> None:
        self._session, self._name = session, name
        self._texts: list[str] = []
        self._vectors: list[np.ndarray] = []

    def __call__(self, text: str) -> tuple[str, Any]:
        import numpy as np

        vector = self._session.embed(text)
        unit = vector / max(float(np.linalg.norm(vector)), 1e-12)
        scores = [float(unit @ other) for other in self._vectors]
        best = int(np.argmax(scores)) if scores else None
        columns, closest = f"-\t(the first {self._name})", None
        if best is not None:
            columns = f"{scores[best]:.3f}\t{self._texts[best]}"
            closest = {self._name: self._texts[best], "score": scores[best]}
        self._texts.append(text)
        self._vectors.append(unit)
        return columns, {self._name: text, "vector": vector.tolist(), "closest": closest}


def _label(labels: Any) -> tuple[str, Any]:
    best = labels[0]
    return f"{best.score:.3f}\t{best.name}", [asdict(label) for label in labels]


def _tokens(spans: Any) -> tuple[str, Any]:
    return " ".join(f"{span.text}/{span.label}" for span in spans), [asdict(span) for span in spans]


def _masks(masks: Any) -> tuple[str, Any]:
    columns = (f"{labels[0].score:.3f} {labels[0].name}" for labels in masks)
    return "\t".join(columns), [[asdict(label) for label in labels] for labels in masks]


def _span(span: Any) -> tuple[str, Any]:
    return f"{span.score:.3f}\t{span.text}", asdict(span)


def _objects(found: Any) -> tuple[str, Any]:
    boxes = ([f"{edge:.0f}" for edge in (one.left, one.top, one.right, one.bottom)] for one in found)
    columns = [f"{one.score:.3f} {one.label} {','.join(box)}" for one, box in zip(found, boxes, strict=True)]
    return "\t".join(columns) or "-\t(no object)", [asdict(one) for one in found]


def _shares(shares: Any) -> tuple[str, Any]:
    return "\t".join(f"{share:.3f} {label}" for label, share in shares.items()), shares


def _transcript(text: str) -> tuple[str, Any]:
    return text, {"transcript": text}
