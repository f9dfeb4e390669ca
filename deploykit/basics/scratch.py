"""Temporary folders. Those of a process that was killed are removed by the next build.

The owner of a folder holds a lock on it, which ends with the process, whatever ends it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

try:
    import fcntl
except ImportError:  # a system without these locks: nothing is swept
    fcntl = None  # type: ignore[assignment]

PREFIX = "deploykit-tmp-"

_YOUNG = 600.0
"""Seconds for which a folder is left alone: it may not be locked yet."""


class Scratch:
    """A temporary folder of this process, also as a context manager, which gives its path."""

    def __init__(self, *, ignore_cleanup_errors: bool = False) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=ignore_cleanup_errors)
        self._lock: int | None = None
        if fcntl is not None:
            self._lock = os.open(self._folder.name, os.O_RDONLY)
            fcntl.flock(self._lock, fcntl.LOCK_SH)

    @property
    def path(self) -> Path:
        return Path(self._folder.name)

    def cleanup(self) -> None:
        """Remove the folder."""
        self._folder.cleanup()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __del__(self) -> None:
        if getattr(self, "_lock", None) is not None:
            self.cleanup()

    def __enter__(self) -> str:
        return self._folder.name

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cleanup()


def sweep() -> None:
    """Remove the folders whose owners have ended. What cannot be removed is left."""
    if fcntl is None:
        return
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            if time.time() - folder.stat(follow_symlinks=False).st_mtime > _YOUNG and not folder.is_symlink():
                _remove_unowned(folder)


def _remove_unowned(folder: Path) -> None:
    """Remove a folder on which nobody has a lock. Raises `OSError` if somebody has, or if it is another user's."""
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder)
    finally:
        os.close(lock)
