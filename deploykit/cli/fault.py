"""Writes the file that a user attaches to a report of a defect of deploykit."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shlex
import sys
import tempfile
import traceback
from pathlib import Path

_PACKAGES = ("deploykit", "apache-tvm", "onnx", "onnx-ir", "numpy")


def write_report(error: Exception) -> Path | None:
    """Write the versions, the command and the traceback to a file in the folder for temporary files.

    Returns its path, or `None` if it cannot be written."""
    try:
        handle, name = tempfile.mkstemp(prefix="deploykit-fault-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(_report(error))
    except OSError:
        return None
    return Path(name)


def _report(error: Exception) -> str:
    versions = "".join(f"{name} {_version(name)}\n" for name in _PACKAGES)
    command = shlex.join(["deploykit", *sys.argv[1:]])
    text = "".join(traceback.format_exception(error))
    return f"{versions}Python {platform.python_version()} on {platform.platform()}\n\n$ {command}\n\n{text}"


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
