"""How `deploykit run` prints vectors and classes, of texts and of pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from deploykit.cli.console import messages, print_json, results, table
from deploykit.cli.saving import save

if TYPE_CHECKING:
    import numpy as np

    from deploykit.sessions.tasks.labels import Label

_NUMBERS, _CLASSES, _WIDTH = 4, 3, 60
"""How many numbers of a vector and how many classes a table shows, and how many characters of a text."""


def print_vectors(
    thing: str, names: Sequence[str], vectors: np.ndarray, output: tuple[Path, str] | None, *, json_output: bool
) -> None:
    """Print a vector for each thing, such as a `text`. `output` is an .npz file and the name of the array in it."""
    import numpy as np

    if output is not None:
        save(output[0], {output[1]: vectors})
    if json_output:
        print_json({"vectors": vectors.tolist(), "file": output and str(output[0])})
        return
    several = len(names) > 1
    rows = table(thing, "vector", *([">similarity to the first"] if several else []))
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    for name, vector, likeness in zip(names, vectors, unit @ unit[0], strict=True):
        shown = ", ".join(f"{number:.4f}" for number in vector[:_NUMBERS])
        rows.add_row(short(name), f"[{shown}, ...] ({len(vector)})", *([f"{likeness:.3f}"] if several else []))
    results.print(rows)
    if output is not None:
        messages.print(f"wrote {output[0]}")


def print_classes(thing: str, names: Sequence[str], found: Sequence[Sequence[Label]], *, json_output: bool) -> None:
    """Print the classes of each thing."""
    if json_output:
        print_json({"classes": [[asdict(label) for label in labels] for labels in found]})
        return
    rows = table(thing, "class", ">score", "others")
    for name, labels in zip(names, found, strict=True):
        others = ", ".join(f"{label.name} {label.score:.3f}" for label in labels[1 : 1 + _CLASSES])
        rows.add_row(short(name), Text(labels[0].name), f"{labels[0].score:.3f}", Text(others))
    results.print(rows)


def short(text: str) -> Text:
    """A text in one line, which may be cut off."""
    line = " ".join(text.split())
    return Text(line if len(line) <= _WIDTH else f"{line[: _WIDTH - 3]}...")
