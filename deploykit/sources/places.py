"""Places in Python files: `ops.py:linear` is what the file `ops.py` calls `linear`."""

from __future__ import annotations

import ast
import re
from pathlib import Path


def place_of(source: object) -> tuple[Path, str] | None:
    """The file and the name if `source` is written like `ops.py:linear`; else None."""
    found = re.fullmatch(r"(.+\.py):(\w+)", str(source)) if isinstance(source, str | Path) else None
    return None if found is None else (Path(found[1]), found[2])


def is_class(path: Path, name: str) -> bool:
    """Whether a Python file has a class of that name. The file is read, not run."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return False
    return any(isinstance(node, ast.ClassDef) and node.name == name for node in tree.body)
