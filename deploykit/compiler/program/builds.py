"""What tells builds of a model that generates from each other."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from deploykit.artifact.tasks import LanguageEntry
from deploykit.compiler.program.ir import Program
from deploykit.compiler.program.listing import listing
from deploykit.compiler.program.variants import identity_of


def with_build(programs: Sequence[Program]) -> tuple[Program, ...]:
    """The programs of a model, whose task has a checksum of the steps and constants of the first one, if the model
    generates. What a model remembers of a text is the same in builds with the same checksum."""
    first, task = programs[0], programs[0].task
    if not isinstance(task, LanguageEntry):
        return tuple(programs)
    digest = hashlib.sha256(listing(first).encode())
    for constant in first.constants:
        dtype, identity = identity_of(constant)
        digest.update(dtype.encode() + identity)
    known = task.model_copy(update={"build": digest.hexdigest()})
    return tuple(replace(program, task=known) for program in programs)
