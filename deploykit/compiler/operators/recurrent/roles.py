"""What the operands and results of the kernel of a recurrent layer are, as an annotation of the kernel.

Passes that rewrite models need to know which operand has the steps, and which result has their states.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

RECURRENT = "deploykit.recurrent"


@dataclass(frozen=True)
class Roles:
    """The names of operands and of results, as in `scan.scan`, and whether each direction runs from the end."""

    operands: tuple[str, ...]
    results: tuple[str, ...]
    backwards: tuple[bool, ...]


def annotation(operands: Sequence[str], results: Sequence[str], backwards: Sequence[bool]) -> dict[str, str]:
    """The annotation of a kernel."""
    return {RECURRENT: json.dumps([list(operands), list(results), list(backwards)])}


def roles(text: str) -> Roles:
    """What an annotation says."""
    operands, results, backwards = json.loads(text)
    return Roles(tuple(operands), tuple(results), tuple(backwards))
