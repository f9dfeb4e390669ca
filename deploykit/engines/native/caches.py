"""Where files are kept between processes: compiled kernels, the times of trials, the library of the tokenizer."""

from __future__ import annotations

import os
from pathlib import Path


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
