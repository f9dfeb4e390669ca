"""What `deploykit run --image` prints: the answer of a model of pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from deploykit.cli.answers import print_classes, print_vectors
from deploykit.errors import UsageError

if TYPE_CHECKING:
    from deploykit.session import Session


def run_pictures(session: Session, images: Sequence[Path], output: Path | None, *, json_output: bool) -> None:
    """Run the model on files of pictures and print what it says of them. Vectors go to `output`, an .npz file.

    Raises `UsageError` if the options do not fit what the model is for."""
    task, names = session.pictures.task, [str(path) for path in images]
    if output is not None and task.kind != "embed":
        raise UsageError("--output takes the vectors of a model that embeds pictures: use --json")
    if task.kind == "embed":
        vectors = session.pictures.embed(images)
        file = None if output is None else (output, task.outputs[0])
        print_vectors("picture", names, vectors, file, json_output=json_output)
    else:
        print_classes("picture", names, session.pictures.classify(images), json_output=json_output)
