"""Where files are kept between processes: compiled kernels, the times of trials, the library of the tokenizer.

What compilers make (`kept`) is kept by a hash of all that it is made from. A file begins with the hash of its contents,
so that a damaged one counts as none. The oldest files go when all together are larger than `MOST_BYTES`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from pathlib import Path

from deploykit.basics.whole_file import whole_file

MOST_BYTES = 512 << 20
"""The most bytes of what compilers made."""

_SHARE = 0.75
"""What is left of `MOST_BYTES` when the oldest files are removed."""

_used: ContextVar[bool] = ContextVar("used", default=True)


def cache_folder() -> Path | None:
    """The folder for what is kept between processes; None if there can be none."""
    home = os.environ.get("HOME", "")
    base = os.environ.get("XDG_CACHE_HOME") or (f"{home}/.cache" if home else "")
    if not base:
        return None
    folder = Path(base) / "deploykit"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder


@contextlib.contextmanager
def keeping(used: bool) -> Iterator[None]:
    """Whether `kept` looks for files of earlier processes, and keeps new ones."""
    token = _used.set(used)
    try:
        yield
    finally:
        _used.reset(token)


def kept(made_from: Iterable[str | bytes], make: Callable[[], bytes]) -> bytes:
    """What `make` gives, which depends on `made_from` alone; from an earlier call, if it is kept."""
    folder = compiled_folder() if _used.get() else None
    if folder is None:
        return make()
    digest = hashlib.sha256()
    for part in made_from:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    place = folder / digest.hexdigest()
    found = _read(place)
    if found is None:
        found = make()
        _write(place, found)
    return found


def compiled_folder() -> Path | None:
    """The folder for what compilers made; None if there can be none."""
    base = cache_folder()
    if base is None:
        return None
    folder = base / "compiled"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError:
        return None
    return folder


def compiled_files() -> list[tuple[float, int, Path]]:
    """Time of the last use, bytes and place of each file that is kept."""
    folder = compiled_folder()
    if folder is None:
        return []
    found = []
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            with contextlib.suppress(FileNotFoundError):  # another process removed it
                state = path.stat()
                found.append((state.st_mtime, state.st_size, path))
    return found


def _read(place: Path) -> bytes | None:
    try:
        data = place.read_bytes()
        head, found = data[:32], data[32:]
        if hashlib.sha256(found).digest() != head:
            return None
        os.utime(place)
    except OSError:
        return None
    return found


def _write(place: Path, data: bytes) -> None:
    """Keep data, whole or not at all, and remove the oldest files if there are too many bytes."""
    with contextlib.suppress(OSError):
        with whole_file(place) as file:
            file.write(hashlib.sha256(data).digest() + data)
        files = compiled_files()
        total = sum(size for _, size, _ in files)
        if total > MOST_BYTES:
            for _, size, path in sorted(files):
                path.unlink(missing_ok=True)
                total -= size
                if total <= MOST_BYTES * _SHARE:
                    break
