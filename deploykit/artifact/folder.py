"""Artifact folders: written whole or not at all.

A folder is built under a hidden name beside its place and renamed when complete. Existing contents of the place are
replaced only if deploykit wrote all of them. A build that fails or is interrupted leaves everything as it was. If a
build is killed, the next build for the same place removes what it left behind.
"""

from __future__ import annotations

import errno
import fcntl
import glob
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deploykit.artifact.manifest import MANIFEST, Manifest, SeveralManifest, files_of
from deploykit.errors import ArtifactError, UsageError

BUILD_FOLDER = "build"
"""The subfolder for the results of the shipped makefiles; it is replaced together with the artifact."""


LOCK = "lock"
"""The file in a hidden folder that the build keeps locked while it runs."""


@dataclass(frozen=True)
class Artifact:
    """A complete artifact folder."""

    path: Path
    manifest: Manifest


@dataclass(frozen=True)
class Together:
    """A complete artifact folder of several models. `path / name` is the artifact of a model alone."""

    path: Path
    manifest: SeveralManifest


def check_output(output: Path) -> None:
    """Check before a build whether its result can be put at `output`.

    Raises `UsageError` if something else is there, if the working directory of this process is `output` or inside it,
    or if the place cannot be written.
    """
    place = Path(os.path.realpath(output))
    here = Path(os.path.realpath(Path.cwd()))
    if place in (here, *here.parents):
        raise UsageError(f"{output} is or holds the folder that this command runs in: choose another output, like dist")
    _require_replaceable(place)
    parent = next(folder for folder in place.parents if folder.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise UsageError(f"cannot write {output}: {parent} is not a folder that this user may write to")


@contextmanager
def artifact_folder(output: Path) -> Iterator[Path]:
    """A new folder to fill. If the block ends without an exception, the folder is put at `output`, else it is removed.

    Raises `UsageError` as `check_output` does, and when the disk is full or the folder cannot be written.
    """
    check_output(output)
    place = Path(os.path.realpath(output))
    scratch: Path | None = None
    made: Path | None = None
    lock: int | None = None
    try:
        made = _make_parents(place.parent)
        _clean_up(place)
        scratch = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
        lock = _lock(scratch / LOCK, os.O_CREAT)
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
        if lock is not None:
            os.close(lock)
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)


def _clean_up(place: Path) -> None:
    """Remove what killed builds for the same place left behind, and put back an artifact that they had set aside.

    A build locks its folder while it runs. A folder without a lock file was not made by deploykit and is left alone."""
    for left in place.parent.glob(f".{glob.escape(place.name)}.{'?' * 8}"):
        lock = _lock(left / LOCK)
        if lock is None:
            continue
        old = left / "old"
        if old.exists() and not place.exists():
            old.rename(place)
        shutil.rmtree(left, ignore_errors=True)
        os.close(lock)


def _lock(path: Path, flags: int = 0) -> int | None:
    """Lock a file until the returned descriptor is closed or the process ends.

    None if another process holds the lock, the file does not exist, or the file system has no locks."""
    try:
        descriptor = os.open(path, os.O_RDWR | flags, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _make_parents(folder: Path) -> Path | None:
    """Create `folder` with its parents; returns the topmost folder that did not exist, None if all did."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return missing[-1] if missing else None


def _swap(new: Path, place: Path, old: Path) -> None:
    """Move the contents of `place` to `old` and `new` to `place`: both or neither."""
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
        known = {MANIFEST, *(entry.name for entry in files_of(place))}
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
