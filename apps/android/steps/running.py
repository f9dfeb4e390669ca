"""Starts a tool, and says which one failed and what it said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from deploykit.basics.parallel import run_program
from deploykit.errors import ToolchainError


def run(tool: str, call: Sequence[str | Path], variables: Mapping[str, str] | None = None) -> str:
    """What the tool prints, with these environment variables added.

    Raises `ToolchainError` with its words if it fails or is not there."""
    try:
        result = run_program([str(word) for word in call], variables)
    except OSError as error:
        raise ToolchainError(f"{tool} cannot be started: {error}") from error
    if result.returncode != 0:
        words = (result.stdout + result.stderr).strip()[-4000:]
        raise ToolchainError(f"{tool} failed with exit code {result.returncode}:\n{words}")
    return result.stdout
