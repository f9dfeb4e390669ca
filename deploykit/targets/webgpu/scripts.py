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
        *("errors", "tasks", "dtypes", "files", "kept", "inputs", "memory", "math", "module"),
        *("opening", "model"),
    ),
    "functions": ("states", "functions"),
    "choosing": ("trial", "choosing"),
    "gpu": ("limits", "device", "buffers", "downloads", "held", "gpu", "gpu-module"),
    "profile": ("clocks", "profile"),
    "pool": ("workers", "pool"),
    "worker": ("math", "worker"),
    "instances": ("signatures", "encoding", "decoding", "instances"),
    "answering": ("labels", "answering"),
    "texts": ("tokenizer", "texts"),
    "pictures": ("pixels", "canvas", "boxes", "segments", "pictures"),
    "picture": ("pixels", "canvas", "picture"),
    "sound": ("resampling", "sound"),
    "messages": ("settings", "conversations", "chooser", "saved", "messages"),
}
"""The parts of each joined module, each part after the parts that it imports. If a part belongs to several modules,
other modules import it from the first of these."""

TAKES = ("texts", "pictures", "sound", "pairs", "messages")
"""What a model may take in the user's terms. Each is the name of a module."""

_NEEDED = {"pairs": ("texts", "pictures"), "messages": ("texts",)}
"""Further modules of these that one needs."""

_HOME = {part: name for name, parts in reversed(_JOINED.items()) for part in parts}
_IMPORT = re.compile(r"^import \{ ([^}]*) \} from '\./([\w-]+)\.mjs';\n", re.MULTILINE)
_EXPORT = re.compile(r"^export \* from .*\n", re.MULTILINE)
_DYNAMIC = re.compile(r"\bimport\('\./([\w-]+)\.mjs'\)")
_OF_NODE = re.compile(r"\bimport\('([^.'][^']*)'\)")
_EXPORTED = re.compile(r"^export (?:(?:async )?function\*?|class|const) (\w+)", re.MULTILINE)
_BESIDE = re.compile(r"new URL\('\./[\w-]+\.mjs', import\.meta\.url\)")

_REMOTE = "remote"
_NOT_REMOTE = (_REMOTE, "worker", "proxy", "requirements", "conversation")
"""The module of models in workers, and modules that are not part of it."""


def limits() -> str:
    """The text of `limits.mjs`; its exports are declared in `limits.d.mts`."""
    values = {"WORKGROUP": WEBGPU.workgroup, "MOST_GROUPS": WEBGPU.groups, "BLOCK": WEBGPU.alignment}
    return "".join(f"export const {name} = {value};\n" for name, value in values.items())


def scripts(
    load: str, *, functions: bool = False, ragged: bool = False, instances: bool = False, takes: str | None = None
) -> dict[str, str]:
    """The texts of the modules that ship, by file name. `load` is an expression of the function that loads the model,
    in which `$name` holds the exports of a module. `functions`: the model has several functions or states. `ragged`: it
    has ragged inputs or outputs. `instances`: it is dynamic. `takes`: what it takes in the user's terms, one of
    `TAKES`."""
    optional = {"functions": functions, "ragged": ragged, "instances": instances}
    taken = (takes, *_NEEDED.get(takes or "", ()))
    optional |= {name: name in taken for name in TAKES}
    optional |= {"answering": takes is not None, "conversation": takes == "messages"}
    sources = {path.stem: path.read_text(encoding="utf-8") for path in runtime.JS_MODULES} | {"limits": limits()}
    modules = _JOINED | {name: (name,) for name in sources if name not in _HOME}
    shipped = {name: parts for name, parts in modules.items() if optional.get(name, True)}
    texts = {name: {part: sources[part] for part in parts} for name, parts in shipped.items()}
    alone = _alone({name: parts for name, parts in texts.items() if name not in _NOT_REMOTE}, sources[_REMOTE], load)
    return {f"{name}.mjs": alone if name == _REMOTE else _join(parts) for name, parts in texts.items()}


def _alone(modules: dict[str, dict[str, str]], remote: str, load: str) -> str:
    """The script of a model in a worker: all modules in one file, because not every bundler makes several of a worker.
    `load` is an expression of the function that loads the model."""
    import rjsmin

    placed: dict[str, str] = {}

    def place(name: str, parts: dict[str, str]) -> None:
        imported, body = _bodies(parts)
        for source in imported:
            if source not in placed:
                place(source, modules[source])
        names = ", ".join(_EXPORTED.findall(body))
        body = _DYNAMIC.sub(lambda found: f"Promise.resolve(${_variable(found[1])})", body.replace("export ", ""))
        # In node, the worker gets `require`; pages come to none of this.
        body = _OF_NODE.sub(r"Promise.resolve(globalThis.require('\1'))", body)
        # The page says where the script of threads is.
        body = _BESIDE.sub("undefined", body)
        opened = "".join(
            f"const {{ {', '.join(sorted(of))} }} = ${_variable(source)};\n" for source, of in imported.items()
        )
        placed[name] = f"const ${_variable(name)} = (() => {{\n{opened}{body}\nreturn {{ {names} }};\n}})();\n"

    for name, parts in modules.items():
        if name not in placed:
            place(name, parts)
    place(_REMOTE, {_REMOTE: remote})
    return f"{rjsmin.jsmin(''.join(placed.values()))}\n${_REMOTE}.serve({load});\n"


def _variable(module: str) -> str:
    """The variable that holds the exports of a module."""
    return module.replace("-", "_")


def _join(parts: dict[str, str]) -> str:
    import rjsmin

    imported, body = _bodies(parts)
    for source, names in sorted(imported.items()):
        body = f"import {{ {', '.join(sorted(names))} }} from './{source}.mjs';\n" + body
    return f"{rjsmin.jsmin(body)}\n"


def _bodies(parts: dict[str, str]) -> tuple[dict[str, set[str]], str]:
    """The names that parts import from other modules, and their texts without imports."""
    imported: dict[str, set[str]] = defaultdict(set)
    body = ""
    for text in parts.values():
        for names, source in _IMPORT.findall(text):
            if source not in parts:
                imported[_HOME.get(source, source)] |= set(names.split(", "))
        body += _EXPORT.sub("", _IMPORT.sub("", text))
    return imported, _DYNAMIC.sub(lambda found: f"import('./{_HOME.get(found[1], found[1])}.mjs')", body)
