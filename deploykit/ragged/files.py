"""Operators in files: `ops.py:linear` is the operator `linear` of the Python file `ops.py`."""

from __future__ import annotations

import runpy
from pathlib import Path

from deploykit.errors import UsageError
from deploykit.ragged.operators import Operator


def load_operator(path: Path, name: str) -> Operator:
    """Run a Python file and return its operator of that name. Raises `UsageError` if there is none."""
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    try:
        names = runpy.run_path(str(path))
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    except Exception as error:
        raise UsageError(f"{path} cannot be run: {type(error).__name__}: {error}") from error
    found = names.get(name)
    if isinstance(found, Operator):
        return found
    known = ", ".join(key for key, value in names.items() if isinstance(value, Operator)) or "none"
    raise UsageError(f"{path} has no operator '{name}'; it has {known}")
