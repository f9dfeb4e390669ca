"""What `deploykit run --text` prints: the answer of a model of texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from deploykit.cli.answers import print_classes, print_vectors, short
from deploykit.cli.console import print_json, results, table
from deploykit.errors import UsageError

if TYPE_CHECKING:
    from deploykit.sessions.session import Session
    from deploykit.sessions.tasks.labels import Label
    from deploykit.sessions.tasks.texts import Span


def run_texts(
    session: Session, texts: Sequence[str], question: str | None, output: Path | None, *, json_output: bool
) -> None:
    """Run the model on `texts` and print what it says of them. A vector for each text goes to `output`, an .npz file.

    Raises `UsageError` if the options do not fit what the model is for."""
    kind = session.texts.task.kind
    if (question is not None) != (kind == "answer"):
        raise UsageError("--question goes with a model that answers questions" if question else "give it --question")
    if output is not None and kind != "embed":
        raise UsageError("--output takes the vectors of a model that embeds texts: use --json")
    if not texts:
        raise UsageError("give the text that the question is about, with --text")
    if kind == "embed":
        file = None if output is None else (output, session.texts.task.outputs[0])
        print_vectors("text", texts, session.texts.embed(texts), file, json_output=json_output)
    elif question is not None:
        _spans([session.answer(question, context) for context in texts], json_output=json_output)
    elif kind == "classify":
        print_classes("text", texts, session.texts.classify(texts), json_output=json_output)
    elif kind == "fill":
        _masks(texts, session.texts.fill(texts), json_output=json_output)
    else:
        _tokens(session.texts.tokens(texts), json_output=json_output)


def _tokens(found: Sequence[Sequence[Span]], *, json_output: bool) -> None:
    if json_output:
        print_json({"tokens": [[asdict(span) for span in spans] for spans in found]})
        return
    rows = table("token", "class", ">score", ">from", ">to")
    for spans in found:
        for span in spans:
            rows.add_row(Text(span.text), Text(span.label), f"{span.score:.3f}", str(span.start), str(span.end))
    results.print(rows)


def _masks(texts: Sequence[str], found: Sequence[Sequence[Sequence[Label]]], *, json_output: bool) -> None:
    if json_output:
        print_json({"masks": [[[asdict(label) for label in labels] for labels in masks] for masks in found]})
        return
    rows = table("text", ">mask", "token", ">score")
    for text, masks in zip(texts, found, strict=True):
        for number, labels in enumerate(masks, 1):
            for label in labels:
                rows.add_row(short(text), str(number), Text(label.name), f"{label.score:.3f}")
    results.print(rows)


def _spans(found: Sequence[Span], *, json_output: bool) -> None:
    if json_output:
        print_json({"answers": [asdict(span) for span in found]})
        return
    rows = table("answer", ">score", ">from", ">to")
    for span in found:
        rows.add_row(Text(span.text), f"{span.score:.3f}", str(span.start), str(span.end))
    results.print(rows)
