"""Artifact folders: written whole or not at all.

A folder is built under a hidden name beside its place and renamed when complete. What stands at the place is
replaced only if deploykit wrote all of it; a build that fails or is interrupted leaves everything as it was.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deploykit.errors import ArtifactError, UsageError
from deploykit.manifest import MANIFEST, Manifest, read_manifest

BUILD_FOLDER = "build"
"""Where the shipped makefiles put what they make; replaced together with the artifact."""


@dataclass(frozen=True)
class Artifact:
    """A complete artifact folder."""

    path: Path
    manifest: Manifest


def check_output(output: Path) -> None:
    """Find out before a build whether its result can be put at `output`.

    Raises `UsageError` when something else stands there, or the place cannot be written.
    """
    place = Path(os.path.realpath(output))
    _require_replaceable(place)
    parent = next(folder for folder in place.parents if folder.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise UsageError(f"cannot write {output}: {parent} is not a folder that this user may write to")


@contextmanager
def artifact_folder(output: Path) -> Iterator[Path]:
    """A new folder to fill; when the block ends without exception it stands at `output`, else it is gone.

    Raises `UsageError` as `check_output` does, and when the disk is full or the folder cannot be written.
    """
    check_output(output)
    place = Path(os.path.realpath(output))
    scratch: Path | None = None
    made: Path | None = None
    try:
        made = _make_parents(place.parent)
        scratch = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
        folder = scratch / "new"
        folder.mkdir()
        yield folder
        _swap(folder, place, scratch / "old")
        made = None
    except OSError as error:
        raise _usage_error(error, output) from error
    finally:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)


def _make_parents(folder: Path) -> Path | None:
    """Make `folder`; the topmost one that did not exist, None if all did."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return missing[-1] if missing else None


def _swap(new: Path, place: Path, old: Path) -> None:
    """Put `new` at `place`, what stood there at `old`; both or neither."""
    had = place.exists()
    if had:
        place.rename(old)
    try:
        new.rename(place)
    except BaseException:
        if had:
            old.rename(place)
        raise


def _require_replaceable(place: Path) -> None:
    if not place.exists():
        return
    if not place.is_dir():
        raise UsageError(f"{place} exists and is no folder: choose another output")
    present = {str(path.relative_to(place)) for path in place.rglob("*") if not path.is_dir()}
    if not present:
        return
    try:
        known = {MANIFEST, *(entry.name for entry in read_manifest(place).files)}
    except ArtifactError as error:
        raise UsageError(f"{place} exists and was not made by deploykit: choose another output") from error
    foreign = sorted(name for name in present - known if not name.startswith(f"{BUILD_FOLDER}/"))
    if foreign:
        raise UsageError(f"{place} also holds {', '.join(foreign[:5])}, which would be lost: choose another output")


def _usage_error(error: OSError, output: Path) -> UsageError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return UsageError(f"cannot write {output}: the disk is full. Free space or choose another output")
    place = "" if error.filename is None else f" ({error.filename})"
    return UsageError(f"cannot write {output}: {error.strerror or error}{place}")
