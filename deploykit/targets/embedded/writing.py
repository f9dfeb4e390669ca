"""Writes the files of an artifact: the sources of a model, and what stands beside them in a form."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deploykit import runtime
from deploykit.errors import UsageError
from deploykit.targets import answers, messages, texts
from deploykit.targets.base import PackageOptions
from deploykit.targets.embedded.forms import CMSIS_PACK, EXAMPLE, FORMS, RUST, SKETCH, C
from deploykit.targets.embedded.forms.packages import PackageSettings, settings_view
from deploykit.targets.embedded.lengths import choose_lengths
from deploykit.targets.embedded.sources import KERNELS, USUAL, core_version, optimized, shared_sources
from deploykit.targets.embedded.structs import POINTERS, model_bytes, tensor_bytes
from deploykit.targets.licenses import MODEL_LICENSE, license_of_model
from deploykit.targets.templates import render
from deploykit.text import FILE

if TYPE_CHECKING:
    from deploykit.compiler.program.ir import Program
    from deploykit.targets.embedded.boards import Board
    from deploykit.targets.embedded.forms import Form

_TARGET = "deploykit.targets.embedded"
TOKENIZER = "tokenizer"
"""The name of the constant with the tables, and of its files."""
_UNIFORM = """/* For build systems that give all files the same options. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("{option}", "fp-contract=off")
#endif

"""
_MOST_OF_A_COMPONENT = 32
"""Characters of the name of a component of a CMSIS pack (its schema)."""


def write_files(
    program: Program, emitted: Mapping[str, bytes], folder: Path, options: PackageOptions, board: Board | None
) -> list[str]:
    """Write the artifact of a program in the form that `options` ask for; returns the names of its files.

    Raises `UsageError` if the model does not fit the form or the board."""
    name = options.format or C
    form = FORMS[name]
    view = _view(program, form, options, board)
    place = folder / form.sources.format(name=view["prefix"])
    place.mkdir(parents=True, exist_ok=True)
    _write_sources(program, emitted, place, form, view)
    written = [str((place / file).relative_to(folder)) for file in (*view["headers"], *view["sources"])]
    view |= _of_form(name, view)
    for path, template in _files(form, view):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(render(_TARGET, template, view), encoding="utf-8")
        written.append(path)
    if form.sources:
        written += _licensed(folder, view["license"].text)
    if name == CMSIS_PACK:
        written.append(_zipped(folder, written, view))
    if board is None:
        return written
    from deploykit.targets.embedded.boards.files import board_files

    return [*written, *board_files(program, board, folder, place, view, tools=name == C)]


def _view(program: Program, form: Form, options: PackageOptions, board: Board | None) -> dict[str, Any]:
    """What templates need to know of the model, and of its sources."""
    from deploykit.compiler.codegen.host.header import package_view

    view = package_view(program, options.version) | answers.views(program, options.version)
    own: PackageSettings = options.own or PackageSettings()
    changed = [name for name, value in vars(PackageSettings()).items() if getattr(own, name) != value]
    if not form.sources and changed:
        forms = ", ".join(name for name in FORMS if name != C)
        raise UsageError(f"the setting '{changed[0]}' is for packages: choose one with --format, which has {forms}")
    found = license_of_model(options.place, program.license, own.license)
    for function in view["functions"]:
        choose_lengths(function["inputs"])
        bytes_ = None if view["dynamic"] else [model_bytes(function, pointer) for pointer in POINTERS]
        function["struct_bytes"] = bytes_
    return view | {
        "board": board,
        "form": form,
        "entry": form.entry,
        "include": f"{view['prefix']}/" if form.sources else "",
        "usual": USUAL,
        "kernels": KERNELS,
        "optimized": optimized(options.compiling),
        "shares_code": options.compiling.saves_code,
        "core_version": core_version(),
        "package": settings_view(own, found) if form.sources else None,
        "license": found,
        "sketch": not (view["dynamic"] or view["messages"]),
        "tensor_bytes": [tensor_bytes(pointer) for pointer in POINTERS],
    }


def _write_sources(
    program: Program, emitted: Mapping[str, bytes], place: Path, form: Form, view: dict[str, Any]
) -> None:
    """Write the C files of a model, and complete the view by their names."""
    from deploykit.compiler.codegen.weights.c_source import write_bytes_c, write_weights_c

    uniform = _UNIFORM.format(option=view["optimized"][KERNELS].removeprefix("-"))
    for name, data in emitted.items():
        (place / name).write_bytes(uniform.encode() + data if form.uniform and name == KERNELS else data)
    copied = shared_sources(program)
    for source in copied:
        shutil.copyfile(source, place / source.name)
    write_weights_c(program, place)
    names = [*emitted, "weights.h", "weights.c", *(source.name for source in copied)]
    if texts.task_of(program) is not None or messages.task_of(program) is not None:
        write_bytes_c(program.task_files[FILE], view["prefix"], TOKENIZER, place)
        names += [f"{TOKENIZER}.h", f"{TOKENIZER}.c"]
    sources = [name for name in names if name.endswith(".c")]
    shared = [source.name for source in copied if source.suffix == ".c"]
    core = [source.name for source in runtime.CORE]
    view |= {
        "headers": [name for name in names if name.endswith(".h")],
        "sources": sources,
        "copied": [source.name for source in copied],
        "shared": shared,
        "core": core,
        "further": [name for name in shared if name not in core],
        "own": [name for name in sources if name not in shared],
        "optimized": {name: option for name, option in view["optimized"].items() if name in sources},
    }


def _files(form: Form, view: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The files beside the sources, with their templates."""
    kinds = [f"{kind}.c" for kind in answers.KINDS if view[kind]]
    example = "instances.c" if view["dynamic"] else next(iter(kinds), "main.c")
    for path, template in form.templates.items():
        if template == SKETCH and not view["sketch"]:
            continue
        name = path.format(name=view["prefix"], vendor=view["package"] and view["package"]["vendor"])
        yield name, example if template == EXAMPLE else template


def _of_form(name: str, view: Mapping[str, Any]) -> dict[str, Any]:
    """What templates of a form need besides. Raises `UsageError` for a model that the form cannot hold."""
    if name == RUST:
        from deploykit.targets.embedded.forms.rust import rust_view

        return rust_view(view)
    if name == CMSIS_PACK and len(view["prefix"]) > _MOST_OF_A_COMPONENT:
        raise UsageError(
            f"a component of a CMSIS pack has at most {_MOST_OF_A_COMPONENT} characters, found '{view['prefix']}': "
            "choose another --name"
        )
    return {}


def _licensed(folder: Path, text: bytes | None) -> list[str]:
    """Write the text of the model's licence, if there is one; returns the names of files."""
    if text is None:
        return []
    (folder / MODEL_LICENSE).write_bytes(text)
    return [MODEL_LICENSE]


def _zipped(folder: Path, files: Iterable[str], view: Mapping[str, Any]) -> str:
    """Write the archive of a CMSIS pack; returns its name. Times of files are the same in all builds."""
    package = view["package"]
    name = f"{package['vendor']}.{view['prefix']}.{package['version']}.pack"
    with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(files):
            archive.writestr(zipfile.ZipInfo(file), (folder / file).read_bytes(), zipfile.ZIP_DEFLATED)
    return name
