"""Texts in, answers out, line by line: at a terminal with a prompt, from a pipe without one.

Each line gives one line, of columns with a tab between them: the score and the class; of a model that embeds texts, the
likeness of the closest line before it and that line; of one that answers questions, the score and the answer. A model
that gives each token a class writes `token/class`. With JSON, each line is a JSON document with all of the answer.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeAlias

import typer

from deploykit.cli.console import bad, messages
from deploykit.errors import DeploykitError

if TYPE_CHECKING:
    import numpy as np

    from deploykit.session import Session

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

    kind = session.texts.task.kind
    if kind == "embed":
        explain("Write texts. Each is compared with those before it.")
        return _Closest(session)
    if kind == "answer":
        explain("Write the text that your questions are about, in one line, then a question on each line.")
        context = next(lines, "")
        return lambda line: _span(session.answer(line, context))
    if kind == "tokens":
        explain("Write a text.")
        return lambda line: _tokens(session.tokens(line))
    explain("Write a text.")
    return lambda line: _label(session.classify(line))


class _Closest:
    """Compares a text with those before it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._texts: list[str] = []
        self._vectors: list[np.ndarray] = []

    def __call__(self, text: str) -> tuple[str, Any]:
        import numpy as np

        vector = self._session.embed(text)
        unit = vector / max(float(np.linalg.norm(vector)), 1e-12)
        scores = [float(unit @ other) for other in self._vectors]
        best = int(np.argmax(scores)) if scores else None
        closest = None if best is None else {"text": self._texts[best], "score": scores[best]}
        self._texts.append(text)
        self._vectors.append(unit)
        columns = "-\t(the first text)" if closest is None else f"{closest['score']:.3f}\t{closest['text']}"
        return columns, {"text": text, "vector": vector.tolist(), "closest": closest}


def _label(labels: Any) -> tuple[str, Any]:
    best = labels[0]
    return f"{best.score:.3f}\t{best.name}", [asdict(label) for label in labels]


def _tokens(spans: Any) -> tuple[str, Any]:
    return " ".join(f"{span.text}/{span.label}" for span in spans), [asdict(span) for span in spans]


def _span(span: Any) -> tuple[str, Any]:
    return f"{span.score:.3f}\t{span.text}", asdict(span)
