"""What is installed: the compiler too, or only what opens artifacts, the distribution `deploykit-run`.

Both have the package `deploykit`, so only one of them can be installed.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from deploykit.errors import ToolchainError


def has_compiler() -> bool:
    """Whether models can be built here."""
    return find_spec("tvm") is not None and find_spec("deploykit.frontends") is not None


def without_compiler(error: ModuleNotFoundError) -> ToolchainError | None:
    """The error to raise if a module is missing because there is no compiler; None if there is one."""
    if has_compiler():
        return None
    return ToolchainError(f"building needs the full package: pip install deploykit (there is no module '{error.name}')")


@contextmanager
def full_package_needed() -> Iterator[None]:
    """Where a module is missing because there is no compiler, the `ToolchainError` says so. Also a decorator."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise without_compiler(error) or error from error


def installed_version() -> str:
    """The version of deploykit that is installed."""
    try:
        return importlib.metadata.version("deploykit")
    except importlib.metadata.PackageNotFoundError:
        return importlib.metadata.version("deploykit-run")
