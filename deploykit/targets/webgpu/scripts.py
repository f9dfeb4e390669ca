"""Makes the JavaScript of a package: modules of the runtime that are always loaded together are joined into one.

So a page waits for one file instead of a chain of imports, and fewer bytes cross the network. A worker has all it needs
in its own file. Names and order stay as in the sources; comments and white space are removed. The limits of the device
that shaders are written for are in a generated module, `limits.mjs`.
"""

from __future__ import annotations

import re
from collections import defaultdict

from deploykit import runtime
from deploykit.targets.webgpu.devices import WEBGPU

_JOINED = {
    "model": (
        *("errors", "tasks", "dtypes", "files", "kept", "inputs", "memory", "threads", "math", "module"),
        *("opening", "model"),
    ),
    "choosing": ("trial", "choosing"),
    "gpu": ("limits", "device", "buffers", "downloads", "held", "gpu", "gpu-module"),
    "profile": ("clocks", "profile"),
    "worker": ("math", "worker"),
    "instances": ("signatures", "encoding", "decoding", "instances"),
    "answering": ("labels", "answering"),
    "texts": ("tokenizer", "texts"),
    "pictures": ("pixels", "boxes", "segments", "pictures"),
    "sound": ("resampling", "sound"),
}
"""The parts of each joined module, each part after the parts that it imports. If a part belongs to several modules,
other modules import it from the first of these."""

TAKES = ("texts", "pictures", "sound", "pairs")
"""What a model may take in the user's terms. Each is the name of a module."""

_OF_PAIRS = ("texts", "pictures")
"""The modules that pairs of these need."""

_HOME = {part: name for name, parts in reversed(_JOINED.items()) for part in parts}
_IMPORT = re.compile(r"^import \{ ([^}]*) \} from '\./([\w-]+)\.mjs';\n", re.MULTILINE)
_EXPORT = re.compile(r"^export \* from .*\n", re.MULTILINE)
_DYNAMIC = re.compile(r"\bimport\('\./([\w-]+)\.mjs'\)")


def limits() -> str:
    """The text of `limits.mjs`; its exports are declared in `limits.d.mts`."""
    values = {"WORKGROUP": WEBGPU.workgroup, "MOST_GROUPS": WEBGPU.groups, "BLOCK": WEBGPU.alignment}
    return f"export const {', '.join(f'{name} = {value}' for name, value in values.items())};\n"


def scripts(
    *, functions: bool = False, ragged: bool = False, instances: bool = False, takes: str | None = None
) -> dict[str, str]:
    """The texts of the modules that ship, by file name. `functions`: the model has several functions or states.
    `ragged`: it has ragged inputs or outputs. `instances`: it is dynamic. `takes`: what it takes in the
    user's terms, one of `TAKES`."""
    optional = {"functions": functions, "ragged": ragged, "instances": instances}
    taken = (takes, *(_OF_PAIRS if takes == "pairs" else ()))
    optional |= {name: name in taken for name in TAKES} | {"answering": takes is not None}
    sources = {path.stem: path.read_text(encoding="utf-8") for path in runtime.JS_MODULES} | {"limits": limits()}
    modules = _JOINED | {name: (name,) for name in sources if name not in _HOME}
    shipped = {name: parts for name, parts in modules.items() if optional.get(name, True)}
    return {f"{name}.mjs": _join({part: sources[part] for part in parts}) for name, parts in shipped.items()}


def _join(parts: dict[str, str]) -> str:
    import rjsmin

    imported: dict[str, set[str]] = defaultdict(set)
    body = ""
    for text in parts.values():
        for names, source in _IMPORT.findall(text):
            if source not in parts:
                imported[_HOME.get(source, source)] |= set(names.split(", "))
        body += _EXPORT.sub("", _IMPORT.sub("", text))
    body = _DYNAMIC.sub(lambda found: f"import('./{_HOME.get(found[1], found[1])}.mjs')", body)
    for source, names in sorted(imported.items()):
        body = f"import {{ {', '.join(sorted(names))} }} from './{source}.mjs';\n" + body
    return f"{rjsmin.jsmin(body)}\n"
