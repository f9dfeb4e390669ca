"""The optional last step of a build: run the artifact and compare it with ONNX Runtime.

The artifact runs once with every dim at its lower bound and once at its upper (`checks.verify.verify_ends`), or at the
sizes that the user gives. It runs in the temporary folder in which it was made, so that a folder with wrong results
never appears at the user's output path.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from deploykit.checks.sources import Input
from deploykit.compiler.model import ImportedModel
from deploykit.errors import MismatchError, ToolchainError, UsageError
from deploykit.frontends.huggingface.folder import is_folder
from deploykit.frontends.huggingface.hub import is_on_hub
from deploykit.scratch import Scratch
from deploykit.targets.base import Target

if TYPE_CHECKING:
    import onnx

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


def check_artifact(
    folder: Path,
    model: str | Path | onnx.ModelProto | ImportedModel,
    at: Mapping[str, int | Sequence[int]] | None = None,
    inputs: Mapping[str, Input] | None = None,
) -> tuple[str, ...]:
    """Compare the artifact in `folder` with ONNX Runtime, at both ends of the bounds of its dims or at the sizes `at`.

    Returns notes on what could not be compared or judged.

    Raises:
        MismatchError: an output differs by more than rounding; the message says which, where, and at which sizes.
        UsageError: ONNX Runtime refuses the model or the inputs, or no end of the bounds can be run.
    """
    from deploykit.checks.verify import mismatch, sizes_text, undecided, verify, verify_ends

    assert not isinstance(model, ImportedModel), "see `require_checkable`"
    with _file(model) as path:
        report = verify(folder, path, at=at, inputs=inputs) if at else verify_ends(folder, path, inputs)
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
