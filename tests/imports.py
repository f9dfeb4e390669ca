"""Which Python files of the project import which. The sources are read; nothing is run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]


@cache
def modules(*packages: str) -> Mapping[str, Path]:
    """The modules of top-level packages by dotted name."""
    return {name_of(path): path for package in packages for path in sorted((ROOT / package).rglob("*.py"))}


def name_of(path: Path) -> str:
    """The dotted name of a module. Raises `ValueError` for a file outside of the project."""
    parts = path.resolve().relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imports(*packages: str) -> Mapping[str, frozenset[str]]:
    """The modules of top-level packages, and those among them that each imports: where it begins, within functions and
    for type checkers."""
    known = modules(*packages)
    return {module: frozenset(_imported(path, known)) for module, path in known.items()}


def _imported(path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    for node in waiting:
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif not isinstance(node, ast.Assign | ast.AnnAssign | ast.Expr | ast.Return):  # which hold no statements
            waiting += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr)]
        for name in names:
            module = name if name in known else name.rpartition(".")[0]
            if module in known:
                yield module
