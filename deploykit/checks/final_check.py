"""The optional last step of a build: run the artifact and compare it with ONNX Runtime.

The artifact runs once with every dim at its lower bound and once at its upper (`checks.verify.verify_ends`), or at the
sizes that the user gives. It runs in the temporary folder in which it was made, so that a folder with wrong results
never appears at the user's output path.

The check may be left to deploykit (`_checks_unasked`). It is then made where it adds little to the time of a build, and
what prevents it is a note.
"""

from __future__ import annotations

import importlib.util
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deploykit.artifact.manifest import read_manifest
from deploykit.artifact.tasks import LanguageEntry
from deploykit.basics.scratch import Scratch
from deploykit.checks.sources import Input
from deploykit.compiler.codegen.native.cpus import find_cpu, levels, machine_of
from deploykit.errors import DeploykitError, MismatchError, ToolchainError, UsageError
from deploykit.options.parts import CheckOptions
from deploykit.sources.base import Frontend
from deploykit.targets.base import FinalCheck, Target

if TYPE_CHECKING:
    import onnx

UNASKED_BYTES = 64 << 20
"""A model with more bytes of weights is checked only if the user asks for it."""

_UNASKED_OPERATIONS = 4 << 30
"""Floating-point operations of a run that is made without being asked for. Within both bounds, checks took at most 0.5
seconds and a tenth of the time of a build, for the models of `bench`, the sample of `tests/zoo` and those in the onnx
package."""

_MAX_PROTO = 1 << 31
"""Bytes: models of this size and more do not fit into one file."""


def final_check(model: Any, frontend: Frontend, target: Target, cpu: str, options: CheckOptions) -> FinalCheck | None:
    """What is to be run before an artifact is put at its place; nothing if `None`.

    Raises `UsageError` for a model that cannot be compared, and `ToolchainError` if ONNX Runtime is not installed or
    this machine cannot run artifacts of the target.
    """
    if options.check:
        _require_checkable(frontend, target)
        return FinalCheck(partial(check_artifact, model=model, at=options.check_at, inputs=options.check_inputs))
    if options.check is None and _checks_unasked(model, frontend, target, cpu):
        return FinalCheck(partial(check_unasked, model=model), UNASKED_BYTES)
    return None


def _require_checkable(frontend: Frontend, target: Target) -> None:
    if frontend.unchecked is not None:
        raise UsageError(f"{frontend.description} cannot be checked: {frontend.unchecked}")
    if importlib.util.find_spec("onnxruntime") is None:
        raise ToolchainError("a check compares with onnxruntime, which is not installed; run: pip install onnxruntime")
    available = target.check()
    if not available.run:
        raise ToolchainError(f"artifacts of target {target.name} cannot be run here to be checked: {available.detail}")


def _checks_unasked(model: object, frontend: Frontend, target: Target, cpu: str) -> bool:
    """Whether a build may be checked although the user does not ask for it: an ONNX file for this machine, if ONNX
    Runtime is installed."""
    if target.name != "host" or not isinstance(model, str | Path):
        return False
    if any(machine_of(find_cpu(level)) != platform.machine() for level in levels(cpu)):
        return False
    try:
        _require_checkable(frontend, target)
    except (UsageError, ToolchainError):
        return False
    return True


def check_unasked(folder: Path, model: str | Path) -> tuple[str, ...]:
    """Compare the artifact in `folder` with ONNX Runtime, at both ends of the bounds of its dims or as near to them as
    takes little time. Returns notes, also on why it could not be compared.

    Raises `MismatchError` if an output differs by more than rounding."""
    try:
        return check_artifact(folder, model, operations=_UNASKED_OPERATIONS)
    except MismatchError as error:
        raise MismatchError(f"{error} With --no-check, the artifact is written as it is.") from error
    except (DeploykitError, OSError, MemoryError) as error:
        return (f"not checked: {' '.join(str(error).split())}",)


def check_artifact(
    folder: Path,
    model: str | Path | onnx.ModelProto,
    at: Mapping[str, int | Sequence[int]] | None = None,
    inputs: Mapping[str, Input] | None = None,
    operations: int | None = None,
) -> tuple[str, ...]:
    """Compare the artifact in `folder` with ONNX Runtime, at both ends of the bounds of its dims or at the sizes `at`.
    At the ends, `operations` are the most of a run (`verify_ends`).

    Returns notes on what could not be compared or judged.

    Raises:
        MismatchError: an output differs by more than rounding; the message says which, where, and at which sizes.
        UsageError: ONNX Runtime refuses the model or the inputs, or no end of the bounds can be run; or the artifact
            generates, and takes other inputs than its file.
    """
    from deploykit.checks.verify import mismatch, sizes_text, undecided, verify, verify_ends

    if isinstance(read_manifest(folder).task, LanguageEntry):
        raise UsageError("a model that generates takes other inputs than its file")
    with _file(model) as path:
        report = verify(folder, path, at=at, inputs=inputs) if at else verify_ends(folder, path, inputs, operations)
    if report.wrong:
        raise MismatchError(
            f"{mismatch(report)}\nNothing was written. This is a defect of deploykit: please report it."
        )
    skipped = (f"not checked at {sizes_text(c)}: {c.skipped}" for c in report.checks if c.skipped)
    return (*skipped, *undecided(report))


@contextmanager
def _file(model: str | Path | onnx.ModelProto) -> Iterator[Path]:
    """The model as a file that ONNX Runtime can read."""
    if isinstance(model, str | Path):
        yield Path(model)
        return
    import onnx

    with Scratch() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(model, path, save_as_external_data=model.ByteSize() >= _MAX_PROTO)
        yield path
