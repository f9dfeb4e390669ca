"""The JavaScript of a package: the runtime's modules, those that are always loaded together joined into one.

A page waits for one file in the place of a chain of imports, and fewer bytes cross the network. Names and order stay as
they are written; comments and white space go.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import rjsmin

from deploykit import runtime

_JOINED = {
    "model": ("errors", "dtypes", "files", "inputs", "memory", "pool", "math", "module", "model"),
    "gpu": ("device", "gpu", "gpu-module", "auto"),
    "profile": ("clocks", "profile"),
}
"""Modules by the one that they become part of, what is imported before what imports it."""

_HOME = {part: name for name, parts in _JOINED.items() for part in parts}
_IMPORT = re.compile(r"^import \{ ([^}]*) \} from '\./([\w-]+)\.mjs';\n", re.MULTILINE)
_EXPORT = re.compile(r"^export \* from .*\n", re.MULTILINE)
_DYNAMIC = re.compile(r"\bimport\('\./([\w-]+)\.mjs'\)")


def scripts() -> dict[str, str]:
    """The modules that ship, by the names of their files."""
    sources = {path.stem: path for path in runtime.JS_MODULES}
    alone = {name: (name,) for name in sources if name not in _HOME}
    return {f"{name}.mjs": _join(name, [sources[part] for part in parts]) for name, parts in (_JOINED | alone).items()}


def _join(name: str, parts: list[Path]) -> str:
    imported: dict[str, set[str]] = defaultdict(set)
    body = ""
    for part in parts:
        text = part.read_text(encoding="utf-8")
        for names, source in _IMPORT.findall(text):
            imported[_HOME.get(source, source)] |= set(names.split(", "))
        body += _EXPORT.sub("", _IMPORT.sub("", text))
    body = _DYNAMIC.sub(lambda found: f"import('./{_HOME.get(found[1], found[1])}.mjs')", body)
    for source, names in sorted(imported.items()):
        if source != name:
            body = f"import {{ {', '.join(sorted(names))} }} from './{source}.mjs';\n" + body
    return f"{rjsmin.jsmin(body)}\n"
