"""Operators have int64 indices."""

from __future__ import annotations

import re
from pathlib import Path

from deploykit.compiler.operators import expressions


def test_operators_make_tensors_by_the_functions_for_int64_indices() -> None:
    own = Path(expressions.__file__)
    sources = [path for path in own.parent.rglob("*.py") if path != own]
    assert not [path.name for path in sources if re.search(r"\bte\.(compute|reduce_axis)\(", path.read_text())]
