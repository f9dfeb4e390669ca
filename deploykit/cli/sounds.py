"""What `deploykit run --sound` prints: the answer of a model of sound."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from deploykit.cli.answers import print_classes
from deploykit.cli.console import print_json, results, table
from deploykit.errors import UsageError

if TYPE_CHECKING:
    from deploykit.sessions.session import Session


def run_sounds(session: Session, files: Sequence[Path], output: Path | None, *, json_output: bool) -> None:
    """Run the model on wave files and print what it says of them.

    Raises `UsageError` if there is an `output`, which takes tensors."""
    sounds, names = session.sounds, [str(path) for path in files]
    if output is not None:
        raise UsageError("--output takes tensors, which --sound does not give: use --json")
    if sounds.task.kind == "classify":
        print_classes("sound", names, sounds.classify(files), json_output=json_output)
        return
    found = sounds.transcribe(files)
    if json_output:
        print_json({"transcripts": found})
        return
    rows = table("sound", "transcript")
    for name, transcript in zip(names, found, strict=True):
        rows.add_row(Text(name), Text(transcript))
    results.print(rows)
