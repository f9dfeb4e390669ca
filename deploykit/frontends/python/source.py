"""The source of a model, and the faults found in it."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from pathlib import Path

from deploykit.errors import UnsupportedModelError, UsageError


@dataclass(frozen=True)
class Fault:
    """What is wrong at a place of the source, and what to write instead."""

    line: int
    column: int
    message: str


class Refused(Exception):
    """A fault at a node of the syntax tree. Reading goes on with the next statement."""

    def __init__(self, node: ast.AST, message: str) -> None:
        self.node, self.message = node, message
        super().__init__(message)


@dataclass
class Source:
    """A module as a syntax tree, and what was found wrong in it."""

    path: Path
    text: str
    tree: ast.Module
    faults: list[Fault] = field(default_factory=list)

    def refuse(self, refused: Refused) -> None:
        """Note a fault; one that is noted already counts once, and one that only follows from others, which has no
        message, does not count."""
        if not refused.message:
            return
        node = refused.node
        fault = Fault(getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1, refused.message)
        if fault not in self.faults:
            self.faults.append(fault)

    def raise_faults(self, model: str) -> None:
        """Raises `UnsupportedModelError` with every fault, its line and its place in the line, if there are any."""
        if not self.faults:
            return
        lines, shown = self.text.splitlines(), []
        for fault in sorted(self.faults, key=lambda fault: (fault.line, fault.column)):
            text = lines[fault.line - 1] if fault.line <= len(lines) else ""
            indent = len(text) - len(text.lstrip())
            shown += [f"{self.path}:{fault.line}:{fault.column}: {fault.message}", f"    {text.strip()}"]
            shown.append(f"    {' ' * (fault.column - 1 - indent)}^")
        count = "1 fault" if len(self.faults) == 1 else f"{len(self.faults)} faults"
        raise UnsupportedModelError("\n".join([f"'{model}' cannot be compiled: {count}", *shown]))


def read_source(path: Path) -> Source:
    """Raises `UsageError` if the file cannot be read or is not Python."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    try:
        return Source(path, text, ast.parse(text, str(path)))
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        raise UsageError(f"{path}{f':{line}' if line else ''} is not Python: {error}") from error
