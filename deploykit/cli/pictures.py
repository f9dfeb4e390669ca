"""What `deploykit run --image` prints: the answer of a model of pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from deploykit.cli.answers import print_classes, print_vectors
from deploykit.cli.console import messages, print_json, results, table
from deploykit.cli.saving import save
from deploykit.errors import UsageError

if TYPE_CHECKING:
    from deploykit.sessions.session import Session
    from deploykit.sessions.tasks.pictures import Detection
    from deploykit.sessions.tasks.segments import Segments


def run_pictures(
    session: Session, images: Sequence[Path], least: float | None, output: Path | None, *, json_output: bool
) -> None:
    """Run the model on files of pictures and print what it says of them. Objects have scores above `least`. Vectors and
    the classes of points go to `output`, an .npz file.

    Raises `UsageError` if the options do not fit what the model is for."""
    pictures, names = session.pictures, [str(path) for path in images]
    task = pictures.task
    if output is not None and task.kind not in ("embed", "segment"):
        raise UsageError("--output takes vectors and classes of points, which this model does not give: use --json")
    if least is not None and task.kind != "detect":
        raise UsageError("--least goes with a model that detects objects")
    if task.kind == "embed":
        file = None if output is None else (output, task.outputs[0])
        print_vectors("picture", names, pictures.embed(images), file, json_output=json_output)
    elif task.kind == "classify":
        print_classes("picture", names, pictures.classify(images), json_output=json_output)
    elif task.kind == "detect":
        found = pictures.detect(images) if least is None else pictures.detect(images, least)
        _objects(names, found, json_output=json_output)
    else:
        _segments(names, pictures.segment(images), output, json_output=json_output)


def _objects(names: Sequence[str], found: Sequence[Sequence[Detection]], *, json_output: bool) -> None:
    if json_output:
        print_json({"objects": [[asdict(one) for one in objects] for objects in found]})
        return
    rows = table("picture", "object", ">score", ">left", ">top", ">right", ">bottom")
    for name, objects in zip(names, found, strict=True):
        for one in objects:
            box = (f"{edge:.1f}" for edge in (one.left, one.top, one.right, one.bottom))
            rows.add_row(Text(name), Text(one.label), f"{one.score:.3f}", *box)
    results.print(rows)


def _segments(names: Sequence[str], found: Sequence[Segments], output: Path | None, *, json_output: bool) -> None:
    if output is not None:
        save(output, {f"classes_{number}": segments.classes for number, segments in enumerate(found)})
    if json_output:
        print_json({"shares": [segments.shares for segments in found], "file": output and str(output)})
        return
    rows = table("picture", "class", ">share")
    for name, segments in zip(names, found, strict=True):
        for label, share in segments.shares.items():
            rows.add_row(Text(name), Text(label), f"{share:.1%}")
    results.print(rows)
    if output is not None:
        messages.print(f"wrote {output}")
