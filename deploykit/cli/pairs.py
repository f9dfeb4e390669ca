"""What `deploykit run --image ... --text ...` prints: which texts fit each picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from deploykit.cli.answers import print_classes

if TYPE_CHECKING:
    from deploykit.sessions.session import Session


def run_pairs(session: Session, images: Sequence[Path], texts: Sequence[str], *, json_output: bool) -> None:
    """Run the model on files of pictures with texts, and print how well these fit."""
    names = [str(path) for path in images]
    print_classes("picture", names, session.pairs.match(images, texts), json_output=json_output)
