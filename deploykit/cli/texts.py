"""What `deploykit run --text` prints: the answer of a model of texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from deploykit.cli.console import messages, print_json, results, table
from deploykit.cli.saving import save
from deploykit.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

    from deploykit.session import Session
    from deploykit.texts import Label, Span

_NUMBERS, _CLASSES, _WIDTH = 4, 3, 60
"""How many numbers of a vector and how many classes a table shows, and how many characters of a text."""


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
        vectors = session.texts.embed(texts)
        if output is not None:
            save(output, {session.texts.task.outputs[0]: vectors})
        _embed(texts, vectors, output, json_output=json_output)
    elif question is not None:
        _spans([session.answer(question, context) for context in texts], json_output=json_output)
    elif kind == "classify":
        _classes(texts, session.texts.classify(texts), json_output=json_output)
    else:
        _tokens(session.texts.tokens(texts), json_output=json_output)


def _embed(texts: Sequence[str], vectors: np.ndarray, output: Path | None, *, json_output: bool) -> None:
    import numpy as np

    if json_output:
        print_json({"vectors": vectors.tolist(), "file": output and str(output)})
        return
    several = len(texts) > 1
    rows = table("text", "vector", *([">similarity to the first"] if several else []))
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    for text, vector, likeness in zip(texts, vectors, unit @ unit[0], strict=True):
        shown = ", ".join(f"{number:.4f}" for number in vector[:_NUMBERS])
        rows.add_row(_short(text), f"[{shown}, ...] ({len(vector)})", *([f"{likeness:.3f}"] if several else []))
    results.print(rows)
    if output is not None:
        messages.print(f"wrote {output}")


def _classes(texts: Sequence[str], found: Sequence[Sequence[Label]], *, json_output: bool) -> None:
    if json_output:
        print_json({"classes": [[asdict(label) for label in labels] for labels in found]})
        return
    rows = table("text", "class", ">score", "others")
    for text, labels in zip(texts, found, strict=True):
        others = ", ".join(f"{label.name} {label.score:.3f}" for label in labels[1 : 1 + _CLASSES])
        rows.add_row(_short(text), Text(labels[0].name), f"{labels[0].score:.3f}", Text(others))
    results.print(rows)


def _tokens(found: Sequence[Sequence[Span]], *, json_output: bool) -> None:
    if json_output:
        print_json({"tokens": [[asdict(span) for span in spans] for spans in found]})
        return
    rows = table("token", "class", ">score", ">from", ">to")
    for spans in found:
        for span in spans:
            rows.add_row(Text(span.text), Text(span.label), f"{span.score:.3f}", str(span.start), str(span.end))
    results.print(rows)


def _spans(found: Sequence[Span], *, json_output: bool) -> None:
    if json_output:
        print_json({"answers": [asdict(span) for span in found]})
        return
    rows = table("answer", ">score", ">from", ">to")
    for span in found:
        rows.add_row(Text(span.text), f"{span.score:.3f}", str(span.start), str(span.end))
    results.print(rows)


def _short(text: str) -> Text:
    """A text in one line, which may be cut off."""
    line = " ".join(text.split())
    return Text(line if len(line) <= _WIDTH else f"{line[: _WIDTH - 3]}...")
