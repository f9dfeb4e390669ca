"""The optional last step of a build: run the artifact and compare it with ONNX Runtime.

The artifact runs once with every dim at its lower bound and once at its upper (`checks.verify.verify_ends`), or at the
sizes that the user gives. It runs in the temporary folder in which it was made, so that a folder with wrong results
never appears at the user's output path.

The check may be left to deploykit (`checks_unasked`). It is then made where it adds little to the time of a build, and
what prevents it is a note.
"""

from __future__ import annotations

import importlib.util
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from deploykit.checks.sources import Input
from deploykit.compiler.codegen.native.cpus import find_cpu, levels, machine_of
from deploykit.compiler.model import ImportedModel
from deploykit.errors import DeploykitError, MismatchError, ToolchainError, UsageError
from deploykit.frontends.huggingface.folder import is_folder
from deploykit.frontends.huggingface.hub import is_on_hub
from deploykit.ragged.files import operator_path
from deploykit.scratch import Scratch
from deploykit.targets.base import Target

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


def require_checkable(model: str | Path | onnx.ModelProto | ImportedModel, target: Target) -> None:
    """Check before a build whether its result can be checked.

    Raises `UsageError` for an imported model, whose file is not known, and `ToolchainError` if ONNX Runtime is not
    installed or this machine cannot run artifacts of the target.
    """
    if isinstance(model, ImportedModel):
        raise UsageError("an imported model cannot be checked: give `build` the file, or the onnx.ModelProto")
    if is_on_hub(model) or is_folder(model):
        raise UsageError("a Hugging Face folder cannot be checked: ONNX Runtime does not read it")
    if importlib.util.find_spec("onnxruntime") is None:
        raise ToolchainError("a check compares with onnxruntime, which is not installed; run: pip install onnxruntime")
    available = target.check()
    if not available.run:
        raise ToolchainError(f"artifacts of target {target.name} cannot be run here to be checked: {available.detail}")


def checks_unasked(model: object, target: Target, cpu: str) -> bool:
    """Whether a build may be checked although the user does not ask for it: an ONNX file for this machine, if ONNX
    Runtime is installed."""
    if target.name != "host" or not isinstance(model, str | Path) or operator_path(model) is not None:
        return False
    if any(machine_of(find_cpu(level)) != platform.machine() for level in levels(cpu)):
        return False
    try:
        require_checkable(model, target)
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
    model: str | Path | onnx.ModelProto | ImportedModel,
    at: Mapping[str, int | Sequence[int]] | None = None,
    inputs: Mapping[str, Input] | None = None,
    operations: int | None = None,
) -> tuple[str, ...]:
    """Compare the artifact in `folder` with ONNX Runtime, at both ends of the bounds of its dims or at the sizes `at`.
    At the ends, `operations` are the most of a run (`verify_ends`).

    Returns notes on what could not be compared or judged.

    Raises:
        MismatchError: an output differs by more than rounding; the message says which, where, and at which sizes.
        UsageError: ONNX Runtime refuses the model or the inputs, or no end of the bounds can be run.
    """
    from deploykit.checks.verify import mismatch, sizes_text, undecided, verify, verify_ends

    assert not isinstance(model, ImportedModel), "see `require_checkable`"
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
